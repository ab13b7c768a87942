"""Whether tables still are what landed of them: not dropped and created again, and not truncated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from uuid import UUID

from cdc_producers.cassandra.node import Truncation
from cdc_producers.cassandra.node_schema import NodeSchema
from cdc_producers.metrics import Health
from cdc_views.landing.raw_table import another_raw
from cdc_views.landing.targets import ProducerLog
from cdc_views.model.whole_files import write_whole

_TABLES = "tables.json"


@dataclass
class SameTables:
    """Remembers each table's id, last TRUNCATE and raw table in the work folder, by the table's name.

    Attributes:
        folder: The work folder.
        landed: The tables of which something has landed; others may be anything yet.
    """

    folder: Path
    landed: Iterable[str]
    log: ProducerLog
    health: Health
    _ids: dict[str, str] = field(default_factory=dict)
    _truncated: dict[str, int] = field(default_factory=dict)
    _raws: dict[str, str] = field(default_factory=dict)
    _warned_at: dict[str, int] = field(default_factory=dict)
    _followed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        try:
            found = json.loads((self.folder / _TABLES).read_text("utf-8"))
        except (OSError, ValueError):
            found = {}
        known = {name: found[name] for name in self.landed if name in found}
        self._followed = frozenset(self.landed) | frozenset(found)
        self._ids = {name: str(fields["id"]) for name, fields in known.items()}
        self._truncated = {name: int(fields["truncated"]) for name, fields in known.items()}
        self._raws = {name: str(fields.get("raw", "")) for name, fields in known.items()}

    def was_followed(self, name: str) -> bool:
        """Whether an agent with this work folder followed a table of that name before."""
        return name in self._followed

    def check(self, schema: NodeSchema, raws: Mapping[str, str], truncated: Mapping[UUID, Truncation]) -> dict[str, str]:
        """Remember the tables as they are, and tell of those that were truncated since; `raws`: each one's raw table.

        Returns what is wrong with tables that were dropped and created again: what has landed is another table's. Such
        a table is well once it has another raw table, or is the former one again.
        """
        before = dict(self._ids), dict(self._truncated), dict(self._raws)
        troubles: dict[str, str] = {}
        for name, raw in raws.items():
            table = schema.table(name)
            if table is None:
                continue
            former = self._ids.get(name, str(table.id))
            is_same_raw = self._raws.get(name, "") in ("", raw)
            if former != str(table.id) and is_same_raw:
                troubles[name] = (
                    f"{name} was dropped and created again (table id {former}, now {table.id}): what has landed is of the "
                    f"former table, whose rows no read shows; {another_raw(name)}"
                )
                self._raws[name] = raw
                continue
            # a node that is away says nothing
            known = self._truncated.get(name, 0) if is_same_raw else 0
            at = truncated[table.id].at if table.id in truncated else known
            is_warned = at > (self._truncated.get(name, at) if is_same_raw else at)
            self._warn(name, at if is_warned else 0)
            # a warning is repeated after a restart, until there is another raw table
            self._truncated[name] = known if is_warned else at
            self._ids[name], self._raws[name] = str(table.id), raw
        self._followed |= frozenset(self._ids)
        if (self._ids, self._truncated, self._raws) != before:
            self._write()
        return troubles

    def _warn(self, name: str, at: int) -> None:
        """Say when the table was truncated, once; 0: what was said is over."""
        part = f"truncated {name}"
        if self._warned_at.get(name, 0) == at:
            return
        self._warned_at[name] = at
        if not at:
            self.health.set(part, "")
            return
        when = datetime.fromtimestamp(at / 1000, timezone.utc).isoformat(timespec="seconds")
        message = (
            f"{name} was truncated at {when}: no commit log has that, so views keep the rows from before. "
            f"Stop the agent, {another_raw(name)}, and start the agent again"
        )
        self.log.warning(message, table=name)
        self.health.set(part, message)

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        fields = {
            name: {"id": number, "truncated": self._truncated.get(name, 0), "raw": self._raws.get(name, "")}
            for name, number in self._ids.items()
        }
        write_whole(self.folder / _TABLES, json.dumps(fields))
