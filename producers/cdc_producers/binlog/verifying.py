"""MySQL and MariaDB as live sources of `verify`: rows of one consistent snapshot, and where it is in the order of writes."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from cdc_producers.binlog.catalog import BinlogTable
from cdc_producers.binlog.connections import DEFAULT_PORT, Access, Flavour, TableChangedError, identifier, literal
from cdc_producers.binlog.events import BinlogEventWriter, BinlogPosition
from cdc_producers.binlog.marks import Mark
from cdc_producers.binlog.snapshots import key_literal, selected
from cdc_producers.binlog.values import Row
from cdc_producers.live_rows import RowReader, resumed
from cdc_views.errors import TransientError, UsageError
from cdc_views.formats.base import order_key
from cdc_views.landing import Position
from cdc_views.landing.live_sources import LiveOrder, LiveTable, SourceReading
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.jsontext import to_json

_SNAPSHOTS = 5
"""How often a read begins before it is given up because the table changed below it."""


def access_of(address: str, flavour: Flavour) -> Access:
    """Return the access that an address names; what it leaves out comes from the environment."""
    found, access = urlsplit(address), Access.of_environment(flavour)
    try:
        port = found.port or DEFAULT_PORT
    except ValueError:
        raise UsageError("the source's address has no valid port; as in //user@host:3306 was expected") from None
    if found.hostname:
        access = replace(access, hosts=((found.hostname, port),))
    if found.username:
        access = replace(access, user=unquote(found.username))
    return replace(access, password=unquote(found.password)) if found.password else access


class Seen(NamedTuple):
    """A snapshot's connection, and what it sees: all transactions before `low`, none from `high` on, in the order of writes."""

    connection: Any
    low: int
    high: Callable[[], tuple[int, str]]
    """Tells `high` and the position for people, once the rows were read."""


@dataclass
class BinlogLive(LiveTable):
    """One table of a server; see `LiveTable`."""

    access: Access
    table: BinlogTable
    order: LiveOrder
    reader: RowReader = field(init=False)
    lacking: Sequence[str] = field(init=False)
    epoch: int = 0

    def __post_init__(self) -> None:
        place, connector = BinlogPosition("", 0, 0, 0), self.access.flavour.connector

        def event(printed: Sequence[Any], wanted: Sequence[str]) -> bytes:
            writer = BinlogEventWriter(connector, "", self.table.database, self.table.name, 0, list(wanted), self.reader.key)
            return writer.event("r", place, after=list(printed))

        self.reader = RowReader(self.order, [column.name for column in self.table.columns], event)
        self.lacking = self.reader.lacking

    @abstractmethod
    def seen(self) -> AbstractContextManager[Seen]:
        """Begin a snapshot."""

    @abstractmethod
    def sequence(self, text: str) -> int:
        """Return the transaction behind a position in the server's own form; raises `UsageError` for another form."""

    @abstractmethod
    def is_ours(self, stream: str) -> bool:
        """Whether positions of a stream are of this server's log."""

    def chunk(self, resume: str, *, limit: int) -> SourceReading:
        listed, after = ", ".join(map(identifier, self.reader.key)), resumed(resume)
        behind = f" WHERE {self._behind(after)}" if after else ""
        return self._read(f"{behind} ORDER BY {listed} LIMIT {limit}", limit=limit)

    def find(self, keys: Sequence[Mapping[str, Any]]) -> SourceReading:
        if not keys:
            return SourceReading((), int(time.time()))
        names = self.reader.key
        listed = ", ".join(map(identifier, names))
        wanted = ", ".join(f"({', '.join(self._literal(name, key[name]) for name in names)})" for key in keys)
        return self._read(f" WHERE ({listed}) IN ({wanted})")

    def position(self, text: str) -> int:
        return self._time(self.sequence(text))

    def landed(self, positions: Mapping[str, Position]) -> int | None:
        marks = [Mark.of(at) for name, at in positions.items() if self.is_ours(name)]
        if not marks:
            return None
        mark = max(marks, key=lambda one: (one.epoch, one.sequence))
        self.epoch = mark.epoch
        return self._time(mark.sequence)

    def _time(self, sequence: int) -> int:
        return order_key(sequence, epoch=self.epoch)

    def _read(self, rest: str, *, limit: int | None = None) -> SourceReading:
        low, high, at, found = self._found(rest)
        read = [row for row in map(self.reader.row, found) if row is not None]
        resume = self.reader.resume(found, limit=limit)
        return SourceReading(read, int(time.time()), self._time(low), self._time(high), at, resume, len(found))

    def _found(self, rest: str) -> tuple[int, int, str, list[Row]]:
        """Return a snapshot's `low`, `high` and position, and the rows that it sees."""
        for _ in range(_SNAPSHOTS):
            # a TRUNCATE between a snapshot's begin and its read is no fault of the source
            with suppress(TableChangedError), self.seen() as seen:
                found = list(selected(seen.connection, self.table, self.table.columns, rest))
                return seen.low, *seen.high(), found
        raise TransientError(f"{self.order.name} is truncated or altered again and again; run the command again")

    def _behind(self, last: Sequence[str]) -> str:
        """Return the condition of rows behind a key, so written that the server reads an index range."""
        parts, key = [], self.reader.key
        for count in range(len(key)):
            equal = [f"{identifier(n)} = {key_literal(v)}" for n, v in zip(key[:count], last, strict=False)]
            parts.append(" AND ".join([*equal, f"{identifier(key[count])} > {key_literal(last[count])}"]))
        return " OR ".join(f"({part})" for part in parts)

    def _literal(self, name: str, value: Any) -> str:
        kind = self.order.schema.column(name).type
        if isinstance(kind, Scalar) and kind.kind is Kind.BLOB:
            return literal(bytes(value))
        return key_literal(to_json(kind, value))
