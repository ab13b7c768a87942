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
from cdc_producers.cassandra.schemas import write_whole
from cdc_producers.metrics import Health
from cdc_producers.source import LostError
from cdc_views.landing.targets import ProducerLog

_TABLES = "tables.json"
_PART = "truncated"


@dataclass
class SameTables:
    """Remembers each table's id and last TRUNCATE in the work folder, by the table's name.

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

    def __post_init__(self) -> None:
        try:
            found = json.loads((self.folder / _TABLES).read_text("utf-8"))
        except (OSError, ValueError):
            found = {}
        known = {name: found[name] for name in self.landed if name in found}
        self._ids = {name: str(told["id"]) for name, told in known.items()}
        self._truncated = {name: int(told["truncated"]) for name, told in known.items()}

    def check(self, schema: NodeSchema, names: Iterable[str], truncated: Mapping[UUID, Truncation]) -> None:
        """Remember the tables as they are; tells of those that were truncated since they were remembered.

        Raises:
            LostError: A table was dropped and created again: what has landed is another table's. The next start takes it.
        """
        before = dict(self._ids), dict(self._truncated)
        for name in names:
            table = schema.table(name)
            if table is None:
                continue
            former = self._ids.get(name, str(table.id))
            self._ids[name] = str(table.id)
            # a node that is away says nothing
            at = truncated[table.id].at if table.id in truncated else self._truncated.get(name, 0)
            if former != str(table.id):
                self._write()
                raise LostError(
                    f"{name} was dropped and created again (table id {former}, now {table.id}): what has landed is of the "
                    "former table, whose rows no read shows. Give the table a new `raw: {table: …}`; started again, both mix"
                )
            if at > self._truncated.get(name, at):
                self._tell(name, at)
            self._truncated[name] = at
        if (self._ids, self._truncated) != before:
            self._write()

    def _tell(self, name: str, at: int) -> None:
        when = datetime.fromtimestamp(at / 1000, timezone.utc).isoformat(timespec="seconds")
        message = (
            f"{name} was truncated at {when}: no commit log has that, so views keep the rows from before. "
            "Give the table a new `raw: {table: …}` and start again"
        )
        self.log.warning(message, table=name)
        self.health.set(_PART, message)

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        told = {name: {"id": number, "truncated": self._truncated.get(name, 0)} for name, number in self._ids.items()}
        write_whole(self.folder / _TABLES, json.dumps(told))


__all__ = ["SameTables"]
