"""A slot's messages as Debezium's events, in the order of their transactions.

An event is one exact JSON object, without a schema. `source.lsn` is the LSN of the transaction's commit, and
`transaction.total_order` is the place of the change in it: together they order all writes of a key (rules S2, S3). The `lsn` of
a snapshot's rows is where its slot begins; they have no place, so they rank below all that is streamed from there on (rule S5).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as quoted
from typing import NamedTuple

from cdc_producers.postgres.catalog import PostgresColumn
from cdc_producers.postgres.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Field,
    Insert,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)
from cdc_producers.postgres.values import Encode, TypeCatalog, encoder
from cdc_producers.row_log import ORDERS_EACH, completed, warn_of_columns
from cdc_producers.source import BlockBuilder, Emit
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import LogicalType

_BLOCK_EVENTS, _BLOCK_BYTES = 500, 1 << 20
"""A block of this size is handed on even if the server has more messages."""
_UNAVAILABLE = '"__debezium_unavailable_value"'


class ChangePosition(NamedTuple):
    """The position of a change: its transaction, and its number there from 1."""

    begin: Begin
    order: int


@dataclass
class PostgresEventWriter:
    """Writes the events of one table for one list of columns; other columns need a new writer."""

    schema: TableSchema
    namespace: str
    table: str
    database: str
    stream: str
    columns: Sequence[RelationColumn | PostgresColumn]
    catalog: TypeCatalog
    _fields: list[tuple[str, Encode]] = field(init=False)
    _keys: list[int] = field(init=False)
    _origin: str = field(init=False)

    def __post_init__(self) -> None:
        wanted: dict[str, LogicalType] = {column.name: column.type for column in self.schema.columns}
        self._fields = [
            (f"{quoted(c.name)}:", encoder(c.type_id, c.modifier, catalog=self.catalog, wanted=wanted.get(c.name)))
            for c in self.columns
        ]
        names = [column.name for column in self.columns]
        self._keys = [names.index(column.name) for column in self.schema.row_key if column.name in names]
        named = [("connector", "postgresql"), ("version", "cdc-views"), ("name", self.stream), ("db", self.database)]
        named += [("schema", self.namespace), ("table", self.table)]
        self._origin = ",".join(f'"{name}":{quoted(value)}' for name, value in named)

    def event(
        self, op: str, place: ChangePosition, *, before: Sequence[Field] | None = None, after: Sequence[Field] | None = None
    ) -> bytes:
        """Return an event of Debezium's `op`: c, u (`after` must be `filled`), d, t, or r for a row of a snapshot."""
        begin, order = place
        snapshot, number, transaction = "true", "null", "null"
        if op != "r":
            snapshot, number = "false", str(begin.transaction)
            transaction = f'{{"id":"{number}:{begin.lsn}","total_order":{order}}}'
        micros, now = begin.committed_at, time.time_ns() // 1_000_000
        when = f'"ts_ms":{micros // 1000},"ts_us":{micros}'
        source = f'{{{self._origin},{when},"snapshot":"{snapshot}","txId":{number},"lsn":{begin.lsn}}}'
        images = f'"before":{self._image(before)},"after":{self._image(after)}'
        return f'{{{images},"source":{source},"transaction":{transaction},"op":"{op}","ts_ms":{now}}}'.encode()

    def has_moved(self, old: Sequence[Field], new: Sequence[Field]) -> bool:
        """Return whether an update changed the row's key; a key column that the update left out did not change."""
        return any(new[i] is not UNCHANGED and old[i] != new[i] for i in self._keys)

    @staticmethod
    def filled(new: Sequence[Field], old: Sequence[Field] | None) -> list[Field]:
        """Return the new row; values that it leaves out come from the old row, if that has them."""
        if old is None:
            return list(new)
        return [before if now is UNCHANGED and before is not None else now for now, before in zip(new, old, strict=True)]

    def key_of(self, row: Sequence[Field]) -> dict[str, Field]:
        """Return the row's key columns by name, with values as printed."""
        return {self.columns[i].name: row[i] for i in self._keys}

    def _image(self, row: Sequence[Field] | None) -> str:
        if row is None:
            return "null"
        parts = []
        for (prefix, encode), value in zip(self._fields, row, strict=True):
            if value is None:
                parts.append(f"{prefix}null")
            elif isinstance(value, str):
                try:
                    parts.append(prefix + encode(value))
                except ValueError:
                    # the adapter refuses it, so the event waits in quarantine with the value as printed
                    parts.append(prefix + quoted(value))
            else:
                parts.append(prefix + _UNAVAILABLE)
        return f"{{{','.join(parts)}}}"


@dataclass
class PostgresTransactions:
    """Turns the messages of one connection into what the runtime lands.

    Args:
        targets: By `schema.table` of the source.
        reread: Reads columns of the row with this key, as this transaction or a later one left it; returns, as printed, the
            columns that the source still has.
        emit: Takes blocks of events: an object for each event would cost more than reading it.
        truncated: Is called with each table that is emptied as a whole.
        ended: Is called after events were emitted, with their tables and the end of the last whole transaction.
    """

    targets: Mapping[str, StreamTarget]
    database: str
    stream: str
    types: TypeCatalog
    reread: Callable[[Relation, dict[str, Field], list[str], int], dict[str, Field]]
    log: ProducerLog
    emit: Emit
    ended: Callable[[Collection[str], int], None]
    truncated: Callable[[str], None]
    _begin: Begin = field(default_factory=lambda: Begin(0, 0, 0))
    _order: int = 0
    _writers: dict[int, tuple[object, PostgresEventWriter]] = field(default_factory=dict)
    _checked: dict[int, tuple[Relation, PostgresEventWriter]] = field(default_factory=dict)
    """The writers of this transaction: schema files are checked once per transaction, not once per change."""
    _columns: dict[str, set[str]] = field(default_factory=dict)
    _pending: dict[str, BlockBuilder] = field(default_factory=dict)
    _events: int = 0
    _bytes: int = 0
    _ended: int | None = None
    """The end of the last transaction, until it is handed on."""

    def take(self, message: Message) -> None:
        """Take a message, and hand on a block once it is large enough."""
        match message:
            case Begin():
                self._begin, self._order = message, 0
                self._checked.clear()
            case Commit():
                self._ended = message.end
                self._events += 1  # so that many empty ones are confirmed, too
            case Relation():
                self._note_columns(message)
            case Truncate():
                for relation in message.relations:
                    self._change(relation, message)
            case Insert() | Update() | Delete():
                self._change(message.relation, message)
        if self._events >= _BLOCK_EVENTS or self._bytes >= _BLOCK_BYTES:
            self.hand_on()

    def hand_on(self) -> None:
        """Emit everything taken; call this also when the server has no more messages for now."""
        pending, ended = self._pending, self._ended
        self._pending, self._events, self._bytes, self._ended = {}, 0, 0, None
        for name, events in pending.items():
            self.emit(events.built(name, self.stream))
        if ended is not None:
            self.ended(pending, ended)

    def _change(self, relation: Relation, message: Insert | Update | Delete | Truncate) -> None:
        self._order += ORDERS_EACH
        place = ChangePosition(self._begin, self._order - 1)
        target = self.targets.get(relation.full_name)
        if target is None:
            return
        writer = self._writer(relation, target)
        match message:
            case Truncate():
                content = writer.event("t", place)
                self.truncated(target.name)
            case Insert():
                content = writer.event("c", place, after=message.new)
            case Delete():
                content = writer.event("d", place, before=message.old)
            case Update(old=old) if old is not None and writer.has_moved(old, message.new):
                # a deletion of the old row, then a new row, as Debezium writes it
                self._add(target, place, writer.event("d", place, before=old))
                place = place._replace(order=place.order + 1)
                content = writer.event("c", place, after=self._whole(writer, old, message))
            case Update():
                content = writer.event("u", place, before=message.old, after=writer.filled(message.new, message.old))
        self._add(target, place, content)

    def _whole(self, writer: PostgresEventWriter, old: Sequence[Field], message: Update) -> list[Field]:
        row, names = writer.filled(message.new, old), [column.name for column in message.relation.columns]
        key, transaction = writer.key_of(row), self._begin.transaction
        return completed(names, row, UNCHANGED, lambda lacking: self.reread(message.relation, key, lacking, transaction))

    def _add(self, target: StreamTarget, place: ChangePosition, content: bytes) -> None:
        pending = self._pending.get(target.name)
        if pending is None:
            pending = self._pending[target.name] = BlockBuilder(place.begin.committed_at / 1e6)
        pending.add(Position(place.begin.lsn, place.order), content)
        self._events += 1
        self._bytes += len(content)

    def _writer(self, relation: Relation, target: StreamTarget) -> PostgresEventWriter:
        """Return the table's writer: a new one if the source's columns changed, or, before the transaction, the schema."""
        checked = self._checked.get(relation.number)
        if checked is not None and checked[0] is relation:
            return checked[1]
        version = relation, target.version()
        known = self._writers.get(relation.number)
        if known is None or known[0] != version:
            writer = PostgresEventWriter(
                target.schema, relation.namespace, relation.name, self.database, self.stream, relation.columns, self.types
            )
            known = self._writers[relation.number] = version, writer
        self._checked[relation.number] = relation, known[1]
        return known[1]

    def _note_columns(self, relation: Relation) -> None:
        target = self.targets.get(relation.full_name)
        if target is None:
            return
        names = {column.name for column in relation.columns}
        # the check at the start has warned of columns that only the schema file has
        before = self._columns.get(relation.full_name, names & {column.name for column in target.schema.columns})
        self._columns[relation.full_name] = names
        remedy = "; rows that a default filled are read then, and what waits in quarantine lands with"
        warn_of_columns(self.log, target.name, before, names, remedy=f"{remedy} `cdc-views replay {target.name}`")
