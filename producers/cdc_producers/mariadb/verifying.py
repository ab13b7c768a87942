"""MariaDB as a live source of `verify`: rows of one consistent snapshot, at exactly its GTID."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit

from cdc_producers.live_rows import RowReader
from cdc_producers.mariadb.catalog import MariaDbTable, read_table
from cdc_producers.mariadb.connections import Access, connect, identifier, literal, rows
from cdc_producers.mariadb.events import BinlogPosition, MariaDbEventWriter
from cdc_producers.mariadb.gtids import Gtid, Mark, read_gtids
from cdc_producers.mariadb.snapshots import key_literal, reading, selected
from cdc_views.errors import EngineError, UsageError
from cdc_views.formats.base import order_key
from cdc_views.landing import Position
from cdc_views.landing.live_sources import LiveOrder, LiveTable, SourceReading
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.jsontext import to_json

_PORT = 3306


@contextmanager
def opened(address: str, order: LiveOrder) -> Iterator[MariaDbLive]:
    """Look at a server; `mariadb://` alone: as the environment says. Each read has a connection of its own."""
    access = access_of(address)
    connection = connect(access)
    try:
        ((domain,),) = rows(connection, "SELECT @@global.gtid_domain_id", doing="asking its domain")
        table = read_table(connection, order.name)
    finally:
        connection.close()
    yield MariaDbLive.of(access, int(domain), table, order)


def access_of(address: str) -> Access:
    """Return the access that an address names; what it leaves out comes from the environment."""
    found, access = urlsplit(address), Access.of_environment()
    try:
        port = found.port or _PORT
    except ValueError:
        raise UsageError("the source's address has no valid port; mariadb://user@host:3306 was expected") from None
    if found.hostname:
        access = replace(access, hosts=((found.hostname, port),))
    if found.username:
        access = replace(access, user=unquote(found.username))
    return replace(access, password=unquote(found.password)) if found.password else access


@dataclass
class MariaDbLive(LiveTable):
    """One table of a server; see `LiveTable`."""

    access: Access
    domain: int
    table: MariaDbTable
    key: tuple[str, ...]
    reader: RowReader
    order: LiveOrder
    lacking: Sequence[str]
    epoch: int = 0

    @classmethod
    def of(cls, access: Access, domain: int, table: MariaDbTable, order: LiveOrder) -> MariaDbLive:
        """Look at the table's columns."""
        names = [column.name for column in table.columns]
        key = tuple(column.name for column in order.schema.row_key)
        if missing := [name for name in key if name not in names]:
            raise UsageError(f"{order.name}: the source's table has no {', '.join(missing)}, which the schema's key has")
        place = BinlogPosition(Gtid(domain, 0, 0), 0)

        def event(printed: Sequence[Any], wanted: Sequence[str]) -> bytes:
            writer = MariaDbEventWriter("", table.database, table.name, 0, list(wanted), key)
            return writer.event("r", place, after=list(printed))

        lacking = [column.name for column in order.schema.columns if column.name not in names]
        return cls(access, domain, table, key, RowReader(order, names, event), order, lacking)

    def chunk(self, resume: str, *, limit: int) -> SourceReading:
        listed = ", ".join(map(identifier, self.key))
        behind = f" WHERE {self._behind(json.loads(resume))}" if resume else ""
        return self._read(f"{behind} ORDER BY {listed} LIMIT {limit}", limit=limit)

    def find(self, keys: Sequence[Mapping[str, Any]]) -> SourceReading:
        if not keys:
            return SourceReading((), int(time.time()))
        listed = ", ".join(map(identifier, self.key))
        wanted = ", ".join(f"({', '.join(self._literal(name, key[name]) for name in self.key)})" for key in keys)
        return self._read(f" WHERE ({listed}) IN ({wanted})")

    def position(self, text: str) -> int:
        try:
            found = read_gtids(text)
        except EngineError as error:
            raise UsageError(f"--at: {error}") from None
        if self.domain not in found:
            raise UsageError(f"--at {text}: has no GTID of domain {self.domain}, which the server writes")
        return self._behind_gtid(found[self.domain])

    def landed(self, positions: Mapping[str, Position]) -> int | None:
        streams = {name: Mark.of(at) for name, at in positions.items() if name.endswith(f":{self.domain}")}
        if not streams:
            return None
        mark = max(streams.values(), key=lambda one: (one.epoch, one.sequence))
        self.epoch = mark.epoch
        return order_key(mark.sequence, epoch=mark.epoch)

    def _behind_gtid(self, gtid: Gtid) -> int:
        return order_key(gtid.sequence + 1, epoch=self.epoch)

    def _read(self, rest: str, *, limit: int | None = None) -> SourceReading:
        with reading(self.access, self.domain) as snapshot:
            found = list(selected(snapshot.connection, self.table, self.table.columns, rest))
            bound = self._behind_gtid(snapshot.gtid)
        read = [row for row in map(self.reader.row, found) if row is not None]
        resume = ""
        if limit is not None and len(found) == limit:
            names = self.reader.names
            resume = json.dumps([found[-1][names.index(name)] for name in self.key])
        return SourceReading(read, int(time.time()), bound, bound, str(snapshot.gtid), resume, len(found))

    def _behind(self, last: Sequence[str]) -> str:
        """Return the condition of rows behind a key, so written that the server reads an index range."""
        parts = []
        for count in range(len(self.key)):
            equal = [f"{identifier(n)} = {key_literal(v)}" for n, v in zip(self.key[:count], last, strict=False)]
            parts.append(" AND ".join([*equal, f"{identifier(self.key[count])} > {key_literal(last[count])}"]))
        return " OR ".join(f"({part})" for part in parts)

    def _literal(self, name: str, value: Any) -> str:
        kind = self.order.schema.column(name).type
        if isinstance(kind, Scalar) and kind.kind is Kind.BLOB:
            return literal(bytes(value))
        return key_literal(to_json(kind, value))
