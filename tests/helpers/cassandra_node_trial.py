"""One Cassandra node's keyspace, the agent beside the node, and what both show."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.command_line import CommandLine
from helpers.comparing import only_one_has
from helpers.producing import Producer, eventually

if TYPE_CHECKING:
    from cassandra.cluster import Session

CREATED = {
    "other": "CREATE TABLE {ks}.other (k int PRIMARY KEY, v text) WITH cdc = true",
    "gap": "CREATE TABLE {ks}.gap (k int PRIMARY KEY, v text) WITH cdc = true",
    "udt": "CREATE TABLE {ks}.udt (k int PRIMARY KEY, fa frozen<addr>) WITH cdc = true",
}


@dataclass
class Trial:
    """A keyspace of its own, its project in the working directory, and the node's agent."""

    session: Session
    keyspace: str
    agent: Producer
    run: CommandLine
    folder: Path
    tables: tuple[str, ...] = tuple(CREATED)
    raws: dict[str, str] = field(default_factory=dict)

    def cql(self, *statements: str) -> None:
        """Run statements; `{ks}` is the keyspace."""
        for text in statements:
            self.session.execute(text.replace("{ks}", self.keyspace))

    def project(self) -> None:
        """Write the project file; `raws` are raw tables other than the usual ones."""
        tables = []
        for name in self.tables:
            raw = {"format": "cassandra-mutation"} | ({"table": self.raws[name]} if name in self.raws else {})
            tables.append({"name": f"{self.keyspace}.{name}", "schema": "schema.cql", "raw": raw})
        beside = self.folder / "cdc_views.yml.new"
        beside.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
        beside.replace(self.folder / "cdc_views.yml")

    def start(self, *more: str) -> None:
        self.agent.start(*more).wait_until_said("following", within=120)

    def differences(self, name: str) -> list[str]:
        """Rows that only one of the view and the node has."""
        rows = [row[0] for row in self.session.execute(f"SELECT JSON * FROM {self.keyspace}.{name}")]
        answer = self.run("query", f"{self.keyspace}.{name}", "--format", "jsonl")
        assert answer.code == 0, answer.err
        return only_one_has(name, map(_canonical, rows), map(_canonical, answer.out.splitlines()))

    def equals(self, *names: str) -> None:
        """Wait until these tables' views are what the node answers."""
        for name in names:
            eventually(
                lambda name=name: not self.differences(name), within=90, every=1.0,
                what=f"{name}: {self.keyspace}; the agent says {self.agent.said[-6:]}",
            )  # fmt: skip

    def keeps(self, name: str, part: str) -> None:
        """Wait until this table's view is what the node answers, and one row more."""

        def is_alone() -> bool:
            """Whether the row is all that differs."""
            found = self.differences(name)
            return len(found) == 1 and "only the view has" in found[0] and part in found[0]

        eventually(is_alone, within=90, every=1.0, what=f"{name}: {self.keyspace}; the agent says {self.agent.said[-6:]}")

    @property
    def health(self) -> tuple[int, dict[str, str]]:
        code, text = self.agent.get("/healthz")
        return code, json.loads(text)["troubles"]

    def fails_by(self, part: str) -> None:
        """Wait until /healthz is 503 and says this."""
        eventually(lambda: self.health[0] == 503 and part in str(self.health[1]), within=30, what=f"{part} in {self.health}")

    def is_well(self) -> None:
        eventually(lambda: self.health == (200, {}), within=90, every=0.5, what=f"{self.health}; {self.agent.said[-6:]}")


def _canonical(line: str) -> str:
    row: dict[str, Any] = json.loads(line)
    return json.dumps(row, sort_keys=True)
