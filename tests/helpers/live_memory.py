"""A relational source in memory, whose log lands into a project's raw table late, or in part: what `verify` is tested with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from cdc_views.api import Project
from cdc_views.formats.base import order_key
from cdc_views.landing import Position, StreamEvent
from cdc_views.landing.live_sources import SourceReading, SourceRow
from cdc_views.operations.verifying.findings import Verification
from cdc_views.operations.verifying.load import Bounds, SourceLoad
from cdc_views.operations.verifying.rows import Shown
from cdc_views.operations.verifying.run import Run
from cdc_views.table import Table

TABLE = "public.items"
DDL = "CREATE TABLE public.items (id int PRIMARY KEY, state text, amount int);\n"
NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)


def table_of(folder: Any, **more: Any) -> Table:
    """A project of the one table, in a folder."""
    (folder / "items.sql").write_text(DDL)
    table = {"name": TABLE, "schema": "items.sql", "raw": {"format": "debezium"}, **more}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [table]}))
    return Project.load(folder / "cdc_views.yml").table(TABLE)


@dataclass
class MemoryLive:
    """The table, the log of its changes, and how far it has landed.

    `meanwhile` is called before each read of the source, and whenever `verify` waits: others write, and the producer lands.
    """

    table: Table
    rows: dict[int, tuple[str | None, int | None]] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    log: list[tuple[int, bytes]] = field(default_factory=list)
    lsn: int = 100
    landed_to: int = 0
    lacking: Sequence[str] = ()
    meanwhile: Callable[[], object] = lambda: None
    now: float = 0.0
    queries: int = 0

    def put(self, number: int, state: str | None, amount: int | None = 0) -> None:
        """Insert or update a row."""
        self.rows[number] = state, amount
        self._log("c", number, after={"id": number, "state": state, "amount": amount})

    def remove(self, number: int) -> None:
        """Delete a row, if it is there."""
        if self.rows.pop(number, None) is not None:
            self._log("d", number, before={"id": number, "state": None, "amount": None})

    def _log(self, op: str, number: int, *, before: Any = None, after: Any = None) -> None:
        self.lsn += 10
        self.written[number] = self.lsn
        origin = {
            "connector": "postgresql",
            "db": "d",
            "schema": "public",
            "table": "items",
            "snapshot": "false",
            "txId": self.lsn,
        }
        body = {"before": before, "after": after, "op": op, "source": {**origin, "lsn": self.lsn, "ts_ms": 0}, "ts_ms": 0}
        body["transaction"] = {"id": f"{self.lsn}", "total_order": 1}
        self.log.append((self.lsn, json.dumps(body).encode()))

    def land(self, *, losing: Callable[[int], bool] = lambda lsn: False) -> None:
        """Land what has not landed yet, but for the changes at positions that `losing` takes."""
        events = [StreamEvent(Position(lsn, 1), content) for lsn, content in self.log if lsn > self.landed_to and not losing(lsn)]
        self.landed_to = self.lsn
        self.table.stream("slot").land(events, through=Position(self.lsn, 1), now=NOW)
        self.table.stream("slot:confirmed").land([], through=Position(self.lsn + 1), now=NOW)

    def chunk(self, resume: str, *, limit: int) -> SourceReading:
        numbers = sorted(number for number in self._read() if not resume or number > int(resume))
        return self._reading(numbers[:limit], str(numbers[limit - 1]) if len(numbers) > limit else "")

    def find(self, keys: Sequence[Mapping[str, Any]]) -> SourceReading:
        there = self._read()
        return self._reading([key["id"] for key in keys if key["id"] in there], "")

    def position(self, text: str) -> int:
        return order_key(int(text))

    def landed(self, positions: Mapping[str, Position]) -> int | None:
        mark = positions.get("slot:confirmed")
        return None if mark is None else order_key(mark.at)

    def _read(self) -> Mapping[int, Any]:
        self.meanwhile()
        self.queries += 1
        return self.rows

    def _reading(self, numbers: Sequence[int], resume: str) -> SourceReading:
        bound = order_key(self.lsn + 1)
        rows = [
            SourceRow({"id": n, "state": self.rows[n][0], "amount": self.rows[n][1]}, version=str(self.written[n]))
            for n in numbers
        ]
        return SourceReading(rows, int(NOW.timestamp()), bound, bound, str(self.lsn), resume, len(rows))

    def sleep(self, seconds: float) -> None:
        """Let time pass, in which others go on."""
        self.now += seconds
        self.meanwhile()

    def verify(self, *, at: str | None = None, **bounds: Any) -> Verification:
        """Run `verify` once, by a clock of its own."""
        chosen = Bounds(**{"sample": 0, "rate": 0, "chunk": 3, "wait": 8.0, **bounds})
        load = SourceLoad(chosen, clock=lambda: self.now, sleep=self.sleep)
        return Run(self.table, self, load, Shown(self.table), NOW).run(at=at)
