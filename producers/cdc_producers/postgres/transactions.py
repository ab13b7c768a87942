"""Messages of a slot into events, in the order of their transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_producers.postgres.events import ChangePosition, PostgresEventWriter, Reread
from cdc_producers.postgres.pgoutput import UNCHANGED, Begin, Commit, Delete, Field, Insert, Message, Relation, Truncate, Update
from cdc_producers.postgres.values import TypeCatalog
from cdc_producers.source import BlockBuilder, Emit
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_ORDERS_EACH = 2
"""Each change takes two places in its transaction: an update that moves a row is a deletion and an insert."""
_BLOCK_EVENTS, _BLOCK_BYTES = 500, 1 << 20
"""Events that are handed on at once where the server has more of them."""


@dataclass
class PostgresTransactions:
    """Turns the messages of one connection into what the runtime lands.

    Args:
        targets: By `schema.table` of the source.
        database: The source's name of the database.
        stream: The slot's name.
        types: The server's types.
        reread: Asks the source for what its log leaves out.
        log: Hears of columns that come and go.
        emit: Takes the events, many at once: an object for each of them costs more than to read it.
        truncated: Hears of each table that is emptied as a whole.
        ended: Hears, once events were emitted, of which tables, and the end of the last transaction that is whole.
    """

    targets: Mapping[str, StreamTarget]
    database: str
    stream: str
    types: TypeCatalog
    reread: Reread
    log: ProducerLog
    emit: Emit
    ended: Callable[[Collection[str], int], None]
    truncated: Callable[[str], None]
    _begin: Begin = field(default_factory=lambda: Begin(0, 0, 0))
    _order: int = 0
    _writers: dict[int, tuple[object, PostgresEventWriter]] = field(default_factory=dict)
    _checked: dict[int, tuple[Relation, PostgresEventWriter]] = field(default_factory=dict)
    """Those of the transaction: files are not looked at for each change."""
    _columns: dict[str, set[str]] = field(default_factory=dict)
    _pending: dict[str, BlockBuilder] = field(default_factory=dict)
    _events: int = 0
    _bytes: int = 0
    _ended: int | None = None
    """Where the last transaction ends, while that has not been handed on."""

    def take(self, message: Message) -> None:
        """Take what a message says, and hand on what there is where that is enough."""
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
                    self._truncate(relation)
            case Insert() | Update() | Delete():
                self._change(message)
        if self._events >= _BLOCK_EVENTS or self._bytes >= _BLOCK_BYTES:
            self.hand_on()

    def hand_on(self) -> None:
        """Emit what was taken; to be called where the server has nothing more for now, too."""
        pending, ended = self._pending, self._ended
        self._pending, self._events, self._bytes, self._ended = {}, 0, 0, None
        for name, events in pending.items():
            self.emit(events.built(name, self.stream))
        if ended is not None:
            self.ended(pending, ended)

    def _change(self, message: Insert | Update | Delete) -> None:
        place = self._next()
        target = self.targets.get(message.relation.full_name)
        if target is None:
            return
        writer = self._writer(message.relation, target)
        match message:
            case Insert():
                self._add(target, place, writer.inserted(message.new, place))
            case Delete():
                self._add(target, place, writer.deleted(message.old, place))
            case Update() if message.old is not None and writer.has_moved(message.old, message.new):
                self._move(target, writer, message.old, message, place=place)
            case Update():
                self._add(target, place, writer.updated(message.old, message.new, place))

    def _move(
        self, target: StreamTarget, writer: PostgresEventWriter, old: Sequence[Field], message: Update, *, place: ChangePosition
    ) -> None:
        """An update of the key is a deletion of the old row, then a new one, as Debezium has it."""
        self._add(target, place, writer.deleted(old, place))
        then = place._replace(order=place.order + 1)
        self._add(target, then, writer.inserted(self._whole(writer, old, message), then))

    def _whole(self, writer: PostgresEventWriter, old: Sequence[Field], message: Update) -> list[Field]:
        """The new row with what the log leaves out: from the old one, else asked of the source.

        No later event has it, for the values that the key's old row was given are another row's in the view.
        """
        row = writer.filled(message.new, old)
        names = [column.name for column, value in zip(message.relation.columns, row, strict=True) if value is UNCHANGED]
        if not names:
            return row
        found = self.reread(message.relation, writer.key_of(row), names, self._begin.transaction)
        pairs = zip(message.relation.columns, row, strict=True)
        return [found.get(column.name, value) if value is UNCHANGED else value for column, value in pairs]

    def _truncate(self, relation: Relation) -> None:
        place = self._next()
        target = self.targets.get(relation.full_name)
        if target is not None:
            self._add(target, place, self._writer(relation, target).truncated(place))
            self.truncated(target.name)

    def _next(self) -> ChangePosition:
        self._order += _ORDERS_EACH
        return ChangePosition(self._begin, self._order - 1)

    def _add(self, target: StreamTarget, place: ChangePosition, content: bytes) -> None:
        pending = self._pending.get(target.name)
        if pending is None:
            pending = self._pending[target.name] = BlockBuilder(place.begin.committed_at / 1e6)
        pending.add(Position(place.begin.lsn, place.order), content)
        self._events += 1
        self._bytes += len(content)

    def _writer(self, relation: Relation, target: StreamTarget) -> PostgresEventWriter:
        """The table's writer, made anew when the source's columns changed, or the project's schema before a transaction."""
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
        # columns that the schema file alone has were told of at the start
        before = self._columns.get(relation.full_name, names & {column.name for column in target.schema.columns})
        self._columns[relation.full_name] = names
        if new := sorted(names - before):
            self.log.warning(
                f"{target.name}: the source has new columns: {', '.join(new)}; add them to the schema file; rows that "
                f"a default filled are read then, and what waits in quarantine lands with `cdc-views replay {target.name}`",
                table=target.name,
                columns=new,
            )
        if gone := sorted(before - names):
            self.log.warning(f"{target.name}: the source's log no longer has {', '.join(gone)}", table=target.name, columns=gone)
