"""Turns binlog events into what the runtime lands, in the order of their transactions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_producers.binlog import log_events
from cdc_producers.binlog.events import BinlogEventWriter, BinlogPosition
from cdc_producers.binlog.log_events import Event, Statement
from cdc_producers.binlog.logged_tables import LoggedTables
from cdc_producers.binlog.marks import MOST_ORDINALS, LogPlace, Mark, TransactionBegin
from cdc_producers.binlog.statements import Action, Effect, begun, completed_name, effects, is_end
from cdc_producers.row_log import ORDERS_EACH
from cdc_producers.source import BlockBuilder, Emit, Emitted, LostError
from cdc_views.errors import EngineError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_MARK_EVERY, _MARK_IDLE_EVERY = 30.0, 1.0
"""Seconds between two notes of how far the log was read, in tables without changes."""
_AGAIN = "start once with --snapshot-again"


@dataclass
class BinlogTransactions:
    """Turns the events of one connection into what the runtime lands.

    Args:
        targets: By `database.table` of the source.
        starts: How far each table had landed: earlier changes are left out.
        connector: What Debezium calls the kind of server.
        place: Where reading begins; goes on with it.
        emit: Takes blocks of events, one for each entry of the log.
        marked: How far each table has been emitted; a table without anything emitted is left out.
    """

    targets: Mapping[str, StreamTarget]
    starts: Mapping[str, Mark]
    connector: str
    place: LogPlace
    stream: str
    tables: LoggedTables
    log: ProducerLog
    emit: Emit
    ignores_case: bool = False
    _begin: TransactionBegin | None = None
    _order: int = 0
    _has_rows: bool = False
    _landed: dict[str, Position] = field(init=False)
    _first: dict[str, Position] = field(default_factory=dict)
    """The positions before a transaction's first change."""
    marked: dict[str, Mark] = field(default_factory=dict)
    _marked_at: float = field(default_factory=time.monotonic)
    _prepared: dict[bytes, bool] = field(default_factory=dict)
    _block: BlockBuilder | None = None

    def __post_init__(self) -> None:
        self._landed = {name: mark.position for name, mark in self.starts.items()}

    def take(self, event: Event, file: str) -> None:
        """Emit the changes of an event."""
        match event.kind:
            case log_events.TABLE_MAP:
                self.tables.note(event)
            case kind if kind in log_events.ROWS:
                self._rows(event, file)
            case kind if kind in log_events.GTIDS:
                self._begins(event)
            case log_events.XID | log_events.XA_PREPARE:
                self._ends()
            case log_events.QUERY | log_events.QUERY_COMPRESSED:
                self._statement(log_events.read_statement(event), event, file)
            case _:
                self._other(event, file)

    def _other(self, event: Event, file: str) -> None:
        match event.kind:
            case log_events.PAYLOAD:
                for packed in log_events.payload(event):
                    self.take(packed, file)
            case kind if kind in log_events.HEARTBEATS:
                self._mark(_MARK_IDLE_EVERY)
            case log_events.FORMAT:
                self.tables.forget()
                if self._begin is not None and log_events.begins_with_the_server(event):
                    self._breaks_off("the server stopped in the middle of writing it")
            case kind if kind not in log_events.PASSED_OVER:
                self._check_unknown(event, file)

    @staticmethod
    def _check_unknown(event: Event, file: str) -> None:
        if event.kind == log_events.INCIDENT:
            raise LostError(f"the server's log says that changes are missing from it (an incident event); {_AGAIN}")
        if not event.flags & log_events.IGNORABLE:
            raise LostError(
                f"the log has an event of type {event.kind} at {file}:{event.end}, which is not known here and may hold rows; "
                f"update cdc-views, or {_AGAIN}"
            )

    def _begins(self, event: Event) -> None:
        if self._begin is not None:
            self._breaks_off("another one begins before it ends")
        starts = self.starts.values()
        begin = self.place.begins(event, starts)
        if begin.is_ours:
            before = self.place.previous(begin, starts)
            self._first = {name: Mark(mark.epoch, begin.sequence, before).position for name, mark in self.starts.items()}
        self._begin, self._order, self._has_rows = begin, 0, False
        if begin.completed:
            self._has_rows = self._prepared.get(begin.completed, False)

    def _ends(self) -> None:
        begin, self._begin = self._begin, None
        if begin is None:
            return
        if begin.prepared:
            self._prepared[begin.prepared] = self._has_rows
        if begin.is_ours:
            self.place.ended(begin)
            self._mark(_MARK_EVERY)

    def _breaks_off(self, why: str) -> None:
        """Give up a transaction without an end, which was never committed; raises `LostError` if it has rows."""
        has_rows, self._begin = self._has_rows, None
        if has_rows:
            raise LostError(
                f"the log has a part of a transaction after {self.place}: {why}. What landed of it is wrong; {_AGAIN}"
            )

    def _statement(self, statement: Statement, event: Event, file: str) -> None:
        begin = self._begin
        if begin is None:
            return
        if is_end(statement.text):
            if not begin.completed and (name := completed_name(statement.text)):
                # MariaDB's GTID event names it already
                begin = replace(begin, completed=name)
                self._has_rows = self._prepared.get(name, False)
            self._check_completed(begin, is_undone="ROLLBACK" in statement.text[:20].upper())
            self._prepared.pop(begin.completed, None)
            self._ends()
            return
        if begin.is_single and (prepared := begun(statement.text)) is not None:
            self._begin = replace(begin, is_single=False, prepared=prepared)
            return
        for effect in effects(statement):
            self._affect(effect, event, file)
        if begin.is_single:
            self._ends()

    def _check_completed(self, begin: TransactionBegin, *, is_undone: bool) -> None:
        if is_undone and self._has_rows:
            raise LostError(f"transaction {begin.gtid} was rolled back after its rows were in the log; {_AGAIN}")
        if begin.completed not in (b"", begin.prepared, *self._prepared):
            # an earlier run may have landed its rows; a snapshot that is younger than the preparation lacks them
            does, wrong = ("rolls back", "its rows may show") if is_undone else ("commits", "its rows may be missing")
            self.log.warning(
                f"{begin.gtid} {does} an XA transaction that was prepared before this producer started: {wrong} where it wrote a "
                f"table that is followed; `verify` tells, and then {_AGAIN}",
                gtid=str(begin.gtid),
            )

    def _affect(self, effect: Effect, event: Event, file: str) -> None:
        for name, target in self._named(effect):
            self.tables.altered(name)
            match effect.action:
                case Action.EMPTIED | Action.DROPPED:
                    self._empty(name, target, effect, event=event, file=file)
                case Action.WRITTEN:
                    raise LostError(f"{name}: the log has a statement in place of its rows (binlog_format was not ROW); {_AGAIN}")
                case Action.LOST_ROWS:
                    self.log.warning(
                        f"{name}: a partition or tablespace was changed as a whole, which the log has no rows of; {_AGAIN} "
                        f"--table {target.name} where the view differs",
                        table=target.name,
                    )
                case Action.RENAMED:
                    self.log.warning(
                        f"{name}: a table was renamed to or from this name. The view keeps its rows, right where the new table "
                        f"holds the same (as online schema changes do); else {_AGAIN} --table {target.name}",
                        table=target.name,
                    )
                case Action.CREATED | Action.ALTERED:
                    self.log.info(f"{name}: the table was {effect.action.value} after GTID {self.place}", table=target.name)

    def _named(self, effect: Effect) -> list[tuple[str, StreamTarget]]:
        def compared(name: str) -> str:
            return name.casefold() if self.ignores_case else name

        found = []
        for name, target in self.targets.items():
            database, _, table = compared(name).partition(".")
            if database == compared(effect.database) and compared(effect.table) in ("", table):
                found.append((name, target))
        return found

    def _empty(self, name: str, target: StreamTarget, effect: Effect, *, event: Event, file: str) -> None:
        self._check_domain(target)
        self.log.info(f"{name}: the table was {effect.action.value}; the view is empty from here on", table=target.name)
        place = self._next(event, file)
        database, _, table = name.partition(".")
        writer = BinlogEventWriter(self.connector, self.stream, database, table, self.starts[target.name].epoch)
        self._add(target, place, writer.event("t", place))
        self._hand_on(target)

    def _rows(self, event: Event, file: str) -> None:
        body = log_events.read_rows(event)
        table = self.tables.find(body.table)
        if table is None:
            return
        self._check_domain(table.target)
        self._has_rows = True
        writer = table.writer(self.connector, self.stream, self.starts[table.target.name].epoch)
        is_written, landed = event.kind in log_events.WRITES, self._landed[table.target.name]
        for row, changed in table.rows(body):
            place = self._next(event, file)
            if self._position(table.target, place.order + 1) <= landed:
                continue
            if changed is None:
                content = writer.event("c", place, after=row) if is_written else writer.event("d", place, deleted=row)
            elif writer.has_moved(row, changed):
                self._add(table.target, place, writer.event("d", place, deleted=row))
                place = place._replace(order=place.order + 1)
                content = writer.event("c", place, after=self.tables.completed(table, writer.filled(changed, row)))
            else:
                content = writer.event("u", place, after=writer.filled(changed, row))
            self._add(table.target, place, content)
        self._hand_on(table.target)

    def _check_domain(self, target: StreamTarget) -> None:
        if self._begin is None:
            raise LostError(f"{target.name}: the log has a change outside any transaction, after {self.place}; {_AGAIN}")
        if not self._begin.is_ours:
            raise LostError(
                f"{target.name}: {self._begin.gtid} changes it in another GTID domain than {self.place} has, and domains have no "
                "order among each other; write each table in one domain, and name it with --gtid-domain"
            )

    def _next(self, event: Event, file: str) -> BinlogPosition:
        """Return the place of the next change; a change that moves a row also takes the place after it."""
        order = self._order + 1
        self._order += ORDERS_EACH
        if self._order > MOST_ORDINALS or self._begin is None:
            raise EngineError(f"a transaction after {self.place} has more changes than can be counted")
        begin = self._begin
        return BinlogPosition(begin.gtid, begin.server, begin.sequence, order, file, event.end, event.timestamp)

    def _position(self, target: StreamTarget, order: int) -> Position:
        first = self._first[target.name]
        return Position(first.at, first.nth + order)

    def _add(self, target: StreamTarget, place: BinlogPosition, content: bytes) -> None:
        position = self._position(target, place.order)
        if position > self._landed[target.name]:
            self._block = self._block or BlockBuilder(float(place.seconds))
            self._block.add(position, content)

    def _hand_on(self, target: StreamTarget) -> None:
        block, self._block = self._block, None
        if block is not None:
            item = block.built(target.name, self.stream, self.place.note)
            self.emit(item)
            self.marked[target.name] = Mark.of(item.position, item.note)

    def _mark(self, every: float) -> None:
        """Note how far the log was read in tables without recent changes: a restart then needs less log, which may be purged."""
        if self._begin is not None or time.monotonic() - self._marked_at < every:
            return
        self._marked_at = time.monotonic()
        for name, start in self.starts.items():
            mark = self.place.mark(start.epoch)
            if mark.position > self.marked.get(name, start).position:
                self.emit(Emitted(name, self.stream, mark.position, note=mark.note))
                self.marked[name] = mark
