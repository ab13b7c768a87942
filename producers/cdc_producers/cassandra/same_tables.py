"""Checks that a table is still the one that landed: not dropped and recreated, and not truncated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from uuid import UUID

from cdc_producers.cassandra.node import Truncation
from cdc_producers.cassandra.node_schema import NodeSchema
from cdc_producers.cassandra.remembered import recall, remember
from cdc_producers.metrics import Health
from cdc_views.landing.raw_table import another_raw
from cdc_views.landing.targets import ProducerLog

_TABLES = "tables.json"


@dataclass(frozen=True, slots=True)
class _Known:
    """What is remembered of a table: its id, its last TRUNCATE (epoch ms; 0 for none), and where it lands."""

    id: str
    truncated: int
    raw: str = ""


@dataclass
class SameTables:
    """A record of each table's id, last TRUNCATE and place in the work folder, by the table's name.
    `landed` are the tables that have landed something; any other table may still change. `anew` advises how to land a table in
    another place.
    """

    folder: Path
    landed: Collection[str]
    log: ProducerLog
    health: Health
    anew: Callable[[str], str] = another_raw
    _known: dict[str, _Known] = field(default_factory=dict)
    _found: dict[str, _Known] = field(default_factory=dict)
    _warned_at: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._found = recall(self.folder / _TABLES, dict[str, _Known]) or {}
        self._known = {name: self._found[name] for name in self.landed if name in self._found}

    def was_followed(self, name: str) -> bool:
        """Return whether an agent of this work folder has followed a table of that name."""
        return name in self.landed or name in self._found or name in self._known

    def check(self, schema: NodeSchema, places: Mapping[str, str], truncated: Mapping[UUID, Truncation]) -> dict[str, str]:
        """Remember the tables, and warn of new TRUNCATEs; return what is wrong with tables that were dropped and recreated.
        `places` has where each table lands. A recreated table is well again once it lands in another place, because
        the landed rows are the old table's, or once the old table is back.
        """
        was_known = dict(self._known)
        troubles: dict[str, str] = {}
        for name, place in places.items():
            table = schema.table(name)
            if table is None:
                continue
            known = self._known.get(name)
            if known is not None and known.raw not in ("", place):
                known = None  # in another place it starts afresh
            if known is not None and known.id != str(table.id):
                troubles[name] = (
                    f"{name} was dropped and created again (table id {known.id}, now {table.id}): what has landed is of the "
                    f"former table, whose rows no read shows; {self.anew(name)}"
                )
                self._known[name] = replace(known, raw=place)
                continue
            before = 0 if known is None else known.truncated
            # a node that is away reports no TRUNCATE
            at = truncated[table.id].at if table.id in truncated else before
            is_truncated = known is not None and at > before
            self._warn(name, at if is_truncated else 0)
            # keep the old time: a restart repeats the warning until it lands in another place
            self._known[name] = _Known(str(table.id), before if is_truncated else at, place)
        if self._known != was_known:
            # a table that left the project may come back, and be another one then
            others = {name: known for name, known in self._found.items() if name not in places}
            remember(self.folder / _TABLES, others | self._known)
        return troubles

    def _warn(self, name: str, at: int) -> None:
        """Warn once of the truncation; 0 clears the warning."""
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
            f"Stop the agent, {self.anew(name)}, and start the agent again"
        )
        self.log.warning(message, table=name)
        self.health.set(part, message)
