"""Turns binlog events into what the runtime lands, in the order of their transactions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_producers.mariadb import binlog
from cdc_producers.mariadb.binlog import Event, GtidBegin, Statement
from cdc_producers.mariadb.events import BinlogPosition, MariaDbEventWriter
from cdc_producers.mariadb.gtids import MOST_ORDINALS, Gtid, Mark
from cdc_producers.mariadb.logged_tables import LoggedTables
from cdc_producers.mariadb.statements import Action, Effect, effects, is_end
from cdc_producers.row_log import ORDERS_EACH
from cdc_producers.source import BlockBuilder, Emit, Emitted, LostError
from cdc_views.errors import EngineError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_MARK_EVERY, _MARK_IDLE_EVERY = 30.0, 1.0
"""Seconds between two notes of how far the log was read, in tables without changes."""
_AGAIN = "start once with --snapshot-again"


@dataclass
class MariaDbTransactions:
    """Turns the events of one connection into what the runtime lands.

    Args:
        targets: By `database.table` of the source.
        starts: How far each table had landed: earlier changes are left out.
        domain: The GTID domain whose order counts; `last` is the transaction before the first one that is read here.
        emit: Takes blocks of events, one for each entry of the log.
        marked: How far each table has been emitted; a table without anything emitted is left out.
    """

    targets: Mapping[str, StreamTarget]
    starts: Mapping[str, Mark]
    domain: int
    last: Gtid
    stream: str
    tables: LoggedTables
    log: ProducerLog
    emit: Emit
    ignores_case: bool = False
    _begin: GtidBegin | None = None
    _order: int = 0
    _has_rows: bool = False
    _landed: dict[str, Position] = field(init=False)
    _first: dict[str, Position] = field(default_factory=dict)
    """The positions before a transaction's first change."""
    marked: dict[str, Position] = field(default_factory=dict)
    _marked_at: float = field(default_factory=time.monotonic)
    _prepared: dict[bytes, bool] = field(default_factory=dict)
    _block: BlockBuilder | None = None

    def __post_init__(self) -> None:
        self._landed = {name: mark.position for name, mark in self.starts.items()}

    def take(self, event: Event, file: str) -> None:
        """Emit the changes of an event."""
        match event.kind:
            case binlog.TABLE_MAP:
                self.tables.note(event)
            case kind if kind in binlog.ROWS:
                self._rows(event, file)
            case binlog.GTID:
                self._begins(binlog.read_begin(event))
            case binlog.XID | binlog.XA_PREPARE:
                self._ends()
            case binlog.QUERY | binlog.QUERY_COMPRESSED:
                self._statement(binlog.read_statement(event), event, file)
            case binlog.HEARTBEAT:
                self._mark(_MARK_IDLE_EVERY)
            case binlog.FORMAT:
                self.tables.forget()
                if self._begin is not None and binlog.begins_with_the_server(event):
                    self._breaks_off("the server stopped in the middle of writing it")
            case kind if kind not in binlog.PASSED_OVER:
                self._check_unknown(event, file)

    @staticmethod
    def _check_unknown(event: Event, file: str) -> None:
        if event.kind == binlog.INCIDENT:
            raise LostError(f"the server's log says that changes are missing from it (an incident event); {_AGAIN}")
        if not event.flags & binlog.IGNORABLE:
            raise LostError(
                f"the log has an event of type {event.kind} at {file}:{event.end}, which is not known here and may hold rows; "
                f"update cdc-views, or {_AGAIN}"
            )

    def _begins(self, begin: GtidBegin) -> None:
        if self._begin is not None:
            self._breaks_off("another one begins before it ends")
        gtid = begin.gtid
        if gtid.domain == self.domain:
            if gtid.sequence <= self.last.sequence:
                raise LostError(
                    f"GTID {gtid} comes after {self.last}: two servers count on their own (switch gtid_strict_mode on), or the "
                    f"server began to count anew (RESET MASTER); {_AGAIN}"
                )
            # if a part of the transaction has landed, keep the server that it landed with
            known = [mark.previous for mark in self.starts.values() if mark.sequence == gtid.sequence and mark.ordinal]
            before = known[0] if known else self.last.server
            self._first = {name: Mark(mark.epoch, gtid.sequence, before).position for name, mark in self.starts.items()}
        self._begin, self._order, self._has_rows = begin, 0, False
        if begin.completed:
            self._has_rows = self._prepared.get(begin.completed, False)

    def _ends(self) -> None:
        begin, self._begin = self._begin, None
        if begin is None:
            return
        if begin.prepared:
            self._prepared[begin.prepared] = self._has_rows
        if begin.gtid.domain == self.domain:
            self.last = begin.gtid
            self._mark(_MARK_EVERY)

    def _breaks_off(self, why: str) -> None:
        """Give up a transaction without an end, which was never committed; raises `LostError` if it has rows."""
        has_rows, self._begin = self._has_rows, None
        if has_rows:
            raise LostError(f"the log has a part of a transaction after {self.last}: {why}. What landed of it is wrong; {_AGAIN}")

    def _statement(self, statement: Statement, event: Event, file: str) -> None:
        begin = self._begin
        if begin is None:
            return
        if is_end(statement.text):
            if "ROLLBACK" in statement.text[:20].upper():
                self._check_undone(begin)
            self._prepared.pop(begin.completed, None)
            self._ends()
            return
        for effect in effects(statement):
            self._affect(effect, event, file)
        if begin.is_single:
            self._ends()

    def _check_undone(self, begin: GtidBegin) -> None:
        if self._has_rows:
            raise LostError(f"transaction {begin.gtid} was rolled back after its rows were in the log; {_AGAIN}")
        if begin.completed and begin.completed not in self._prepared:
            self.log.warning(
                f"{begin.gtid} rolls back an XA transaction that was prepared before this producer started: where it wrote a "
                f"table that is followed, {_AGAIN}",
                gtid=str(begin.gtid),
            )

    def _affect(self, effect: Effect, event: Event, file: str) -> None:
        for name, target in self._named(effect):
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
                    self.log.info(f"{name}: the table was {effect.action.value} after GTID {self.last}", table=target.name)

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
        writer = MariaDbEventWriter(self.stream, database, table, self.starts[target.name].epoch)
        self._add(target, place, writer.event("t", place))
        self._hand_on(target)

    def _rows(self, event: Event, file: str) -> None:
        body = binlog.read_rows(event)
        table = self.tables.find(body.table)
        if table is None:
            return
        self._check_domain(table.target)
        self._has_rows = True
        writer = table.writer(self.stream, self.starts[table.target.name].epoch)
        is_written, landed = event.kind in binlog.WRITES, self._landed[table.target.name]
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
            raise LostError(f"{target.name}: the log has a change outside any transaction, after {self.last}; {_AGAIN}")
        if self._begin.gtid.domain != self.domain:
            raise LostError(
                f"{target.name}: {self._begin.gtid} changes it in another GTID domain than {self.domain}, and domains have no "
                "order among each other; write each table in one domain, and name it with --gtid-domain"
            )

    def _next(self, event: Event, file: str) -> BinlogPosition:
        """Return the place of the next change; a change that moves a row also takes the place after it."""
        order = self._order + 1
        self._order += ORDERS_EACH
        if self._order > MOST_ORDINALS or self._begin is None:
            raise EngineError(f"a transaction after {self.last} has more changes than can be counted")
        return BinlogPosition(self._begin.gtid, order, file, event.end, event.timestamp)

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
            item = block.built(target.name, self.stream)
            self.emit(item)
            self.marked[target.name] = item.position

    def _mark(self, every: float) -> None:
        """Note how far the log was read in tables without recent changes: a restart then needs less log, which may be purged."""
        if self._begin is not None or time.monotonic() - self._marked_at < every:
            return
        self._marked_at = time.monotonic()
        for name, start in self.starts.items():
            position = Mark.after(self.last, epoch=start.epoch).position
            if position > self.marked.get(name, self._landed[name]):
                self.emit(Emitted(name, self.stream, position))
                self.marked[name] = position
