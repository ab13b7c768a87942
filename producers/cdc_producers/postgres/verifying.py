"""PostgreSQL as a live source of `verify`: rows of one snapshot, between two places of the log.

A transaction's commit is in the log a moment before others see it. So the low place is taken a moment before the snapshot, and
the high one after it: what was committed before `low` shows, and nothing after `high` does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import IsolationLevel

from cdc_producers.live_rows import RowReader, printed_key, resumed
from cdc_producers.postgres.catalog import PostgresColumn, PostgresTable, read_table, type_catalog
from cdc_producers.postgres.connections import connect, current_lsn, identifier, is_bare, literal, lsn_number, lsn_text, rows
from cdc_producers.postgres.events import ChangePosition, PostgresEventWriter
from cdc_producers.postgres.messages import Begin
from cdc_producers.postgres.snapshots import printed_rows
from cdc_views.errors import MalformedEventError, UsageError
from cdc_views.formats.base import order_key
from cdc_views.landing import Position
from cdc_views.landing.live_sources import LiveOrder, LiveTable, SourceReading
from cdc_views.model.types import Kind, Scalar

_SEEN_AFTER = 0.2
"""Seconds from a commit's write to the log until others see it. A standby may make it longer, so `verify` looks again."""
_SLOT = ":confirmed"
_DOING = "reading rows to verify"


@contextmanager
def opened(address: str, order: LiveOrder) -> Iterator[PostgresLive]:
    """Connect to a server; `postgresql://` alone: as the environment says."""
    with closing(connect(address="" if is_bare(address) else address)) as connection:
        yield PostgresLive.of(connection, order)


@dataclass
class PostgresLive(LiveTable):
    """One table of a server; see `LiveTable`."""

    connection: Any
    order: LiveOrder
    table: PostgresTable
    reader: RowReader
    lacking: Sequence[str]

    @classmethod
    def of(cls, connection: Any, order: LiveOrder) -> PostgresLive:
        """Look at the table's columns."""
        table = read_table(connection, order.name)
        there = {column.name: column for column in table.columns}
        catalog = type_catalog(connection)
        writers: dict[tuple[str, ...], PostgresEventWriter] = {}
        place = ChangePosition(Begin(0, 0, 0), 0)

        def event(printed: Sequence[Any], names: Sequence[str]) -> bytes:
            columns: list[PostgresColumn] = [there[name] for name in names]
            writer = writers.get(tuple(names))
            if writer is None:
                writer = PostgresEventWriter(order.schema, table.namespace, table.name, "", "", columns, catalog)
                writers[tuple(names)] = writer
            return writer.event("r", place, after=printed)

        reader = RowReader(order, list(there), event)
        return cls(connection, order, table, reader, reader.lacking)

    def chunk(self, resume: str, *, limit: int) -> SourceReading:
        after = resumed(resume)
        behind = f"WHERE ({self._listed()}) > ({self._literals(after)}) " if after else ""
        return self._read(f"{behind}ORDER BY {self._listed()} LIMIT {limit}", limit=limit)

    def find(self, keys: Sequence[Mapping[str, Any]]) -> SourceReading:
        if not keys:
            return SourceReading((), int(time.time()))
        listed = ", ".join(f"({self._literals([self._printed(name, key[name]) for name in self.reader.key])})" for key in keys)
        return self._read(f"WHERE ({self._listed()}) IN ({listed})")

    def position(self, text: str) -> int:
        try:
            return order_key(lsn_number(text))
        except (ValueError, MalformedEventError):
            raise UsageError(f"{text!r} is no LSN of PostgreSQL's; one as 0/16B3748 was expected") from None

    def landed(self, positions: Mapping[str, Position]) -> int | None:
        marks = [position.at for stream, position in positions.items() if stream.endswith(_SLOT)]
        return order_key(max(marks)) if marks else None

    def _read(self, rest: str, *, limit: int | None = None) -> SourceReading:
        names = self.reader.names
        low = current_lsn(self.connection)
        time.sleep(_SEEN_AFTER)
        selected = ", ".join(["xmin::text || ' ' || ctid::text", *map(identifier, names)])
        text = f"SELECT {selected} FROM {self.table.sql_rows} {rest}"
        with self._snapshot():
            ((clock,),) = rows(self.connection, "SELECT extract(epoch FROM clock_timestamp())::bigint", doing=_DOING)
            found = [(version, printed) for version, *printed in printed_rows(self.connection, text, doing=_DOING)]
            high = current_lsn(self.connection)
        read = [self.reader.row(printed, version) for version, printed in found]
        resume = self.reader.resume([printed for _, printed in found], limit=limit)
        here = [row for row in read if row is not None]
        return SourceReading(here, int(clock), order_key(low), order_key(high), lsn_text(low), resume, len(found))

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        connection = self.connection
        connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
        with connection.transaction():
            yield

    def _printed(self, name: str, value: Any) -> str:
        kind = self.order.schema.column(name).type
        text = printed_key(kind, value)
        return f"\\x{text}" if isinstance(kind, Scalar) and kind.kind is Kind.BLOB else text

    def _listed(self) -> str:
        return ", ".join(map(identifier, self.reader.key))

    def _literals(self, values: Sequence[object]) -> str:
        return ", ".join(literal(self.connection, value) for value in values)
