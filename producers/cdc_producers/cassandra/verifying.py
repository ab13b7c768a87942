"""Cassandra as a live source of `verify`: rows at a consistency level, ALL by default, as their serialized bytes.

There are no positions: what a read at ALL shows may land a little later from each node's log. So `verify` looks again, and calls
a difference a loss only once every node's log has landed past the read (`Decider`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cassandra.query import SimpleStatement

from cdc_producers.cassandra.addresses import Address
from cdc_producers.cassandra.node_schema import quoted
from cdc_producers.cassandra.options import SnapshotOptions
from cdc_producers.cassandra.snapshot_query import FIRST_TOKEN, LAST_TOKEN, RawRow
from cdc_producers.cassandra.snapshot_reading import SnapshotReader, cassandra_errors
from cdc_views.errors import MalformedEventError, UsageError
from cdc_views.formats.redaction import EventColumns
from cdc_views.landing import Position
from cdc_views.landing.live_sources import LiveOrder, LiveTable, SourceReading, SourceRow
from cdc_views.model.schema import Column
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.codec.serialized import deserialize, serialize


@contextmanager
def opened(address: str, order: LiveOrder) -> Iterator[CassandraLive]:
    """Connect to a cluster: `cassandra://USER@HOST:PORT?consistency=QUORUM`."""
    where = Address.of(address)
    options = SnapshotOptions(host=where.host, port=where.port, consistency=where.consistency or "ALL", account=where.account)
    with SnapshotReader.connected(options) as reader:
        yield CassandraLive(reader, order)


@dataclass
class CassandraLive(LiveTable):
    """One table of a cluster; see `LiveTable`. A chunk is a part of the token ring, in whole partitions."""

    reader: SnapshotReader
    order: LiveOrder
    lacking: Sequence[str] = ()

    def chunk(self, resume: str, *, limit: int) -> SourceReading:
        after = int(resume) if resume else FIRST_TOKEN
        found = self._rows(f"{self._token} > {after} AND {self._token} <= {LAST_TOKEN} LIMIT {limit}")
        if len(found) < limit:
            return self._reading([row for _, row in found], "")
        last = found[-1][0]
        # the last partition may go on behind the limit
        whole = [one for one in found if one[0] != last] + self._rows(f"{self._token} = {last}")
        return self._reading([row for _, row in whole], str(last) if last < LAST_TOKEN else "")

    def find(self, keys: Sequence[Mapping[str, Any]]) -> SourceReading:
        found = []
        for key in keys:
            columns = [column for column in self.order.schema.row_key if key[column.name] is not None]
            where = " AND ".join(f"{quoted(c.name)} = {_literal(c, key[c.name])}" for c in columns)
            found += [row for _, row in self._rows(where)]
        return self._reading(found, "")

    def position(self, text: str) -> int:
        raise UsageError(f"--at {text}: Cassandra has no positions; leave --at out, and give --wait")

    def landed(self, positions: Mapping[str, Position]) -> int | None:
        return None

    @property
    def _token(self) -> str:
        return f"token({', '.join(quoted(column.name) for column in self.order.schema.partition)})"

    def _reading(self, rows: Sequence[SourceRow], resume: str) -> SourceReading:
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        return SourceReading(rows, int(now), at=f"{at} at {self.reader.options.consistency}", resume=resume, read=len(rows))

    def _rows(self, where: str) -> list[tuple[int, SourceRow]]:
        schema, options = self.order.schema, self.reader.options
        timed = [column for column in (*schema.statics, *schema.regulars) if not column.type.is_multicell]
        timed = [column for column in timed if self.order.stored.has(column.name)]
        parts = [self._token, *(quoted(c.name) for c in self._columns), *(f"WRITETIME({quoted(c.name)})" for c in timed)]
        text = f"SELECT {', '.join(parts)} FROM {quoted(schema.keyspace, schema.name)} WHERE {where}"
        with cassandra_errors(options, f"reading {schema.full_name} to verify"):
            answered: list[RawRow] = list(self.reader.session.execute(SimpleStatement(text, fetch_size=options.page_rows)))
        return [(_whole(row[0]), self._row(row[1:], timed)) for row in answered]

    @property
    def _columns(self) -> Sequence[Column]:
        """The source's columns without those that are left out."""
        return [column for column in self.order.schema.columns if self.order.stored.has(column.name)]

    def _stored(self, column: Column, value: Any) -> Any:
        redaction = self.order.format.redaction
        policy = None if redaction is None else redaction.policy(column.name)
        if redaction is None or policy is None:
            return value
        return EventColumns(redaction).value(policy, parse_json(to_json(column.type, value)))

    def _row(self, answered: RawRow, timed: Sequence[Column]) -> SourceRow:
        columns = self._columns
        values, unfit = dict[str, Any](), dict[str, str]()
        for column, data in zip(columns, answered, strict=False):
            try:
                values[column.name] = None if data is None else self._stored(column, deserialize(column.type, data))
            except MalformedEventError as error:
                unfit[column.name] = str(error)
        times = zip(timed, answered[len(columns) :], strict=True)
        written = {column.name: _whole(at) for column, at in times if at is not None}
        return SourceRow(values, repr(sorted(written.items())), written, unfit, is_whole=False)


def _whole(data: bytes | None) -> int:
    return int.from_bytes(data or b"", "big", signed=True)


def _literal(column: Column, value: Any) -> str:
    """Return a key's value in CQL: by its bytes, as no other form has every value of every type."""
    if isinstance(column.type, Scalar):
        data = f"0x{serialize(column.type, value).hex()}"
        return data if column.type.kind is Kind.BLOB else f"blobAs{column.type.kind.value}({data})"
    text = to_json(column.type, value)
    return "fromJson('" + text.replace("'", "''") + "')"
