"""Snapshots of tables as events, and how far each has got.

The position of a snapshot is the GTID it was read at, with the epoch, and then, where the primary key is one integer,
that key: the next snapshot goes on after it, at a later GTID, and what changed in between comes from the binlog. Any other
table begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event

from cdc_producers.mariadb.catalog import MariaDbTable
from cdc_producers.mariadb.events import BinlogPosition, EventSource, MariaDbEventWriter
from cdc_producers.mariadb.gtids import SEQUENCE_BITS, Gtid, Mark
from cdc_producers.mariadb.options import MariaDbOptions
from cdc_producers.mariadb.snapshot import ConsistentSnapshot, integer_key, read_rows
from cdc_producers.metrics import Metrics
from cdc_producers.source import Emit, Emitted
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_WHOLE = (1 << 63) - 1
"""`Position.nth` of a snapshot that is whole."""
_KEY_OFFSET = 1 << 62
"""Added to an integer key, so that negative ones are positions, too; keys beyond half of it are not kept."""
_KEYS = range(-(1 << 61), 1 << 61)
_REPORT_EVERY = 10.0


@dataclass
class MariaDbSnapshots:
    """The snapshots of a run's tables; `stream` is the name that their positions are kept under."""

    targets: Mapping[str, StreamTarget]
    tables: Mapping[str, MariaDbTable]
    stream: str
    options: MariaDbOptions
    log: ProducerLog
    metrics: Metrics

    def wanted(self, marks: Mapping[str, Mark]) -> list[str]:
        """Return the tables that have no whole snapshot of their epoch."""
        return [name for name in self.targets if not self._is_whole(self._position(name), marks[name].epoch)]

    def _position(self, name: str) -> Position | None:
        return self.targets[name].lander(self.stream).position()

    @staticmethod
    def _is_whole(position: Position | None, epoch: int) -> bool:
        return position is not None and position.nth == _WHOLE and position.at >> SEQUENCE_BITS == epoch

    def read(self, name: str, snapshot: ConsistentSnapshot, *, epoch: int, emit: Emit, stop: Event) -> None:
        """Emit a table's rows as of the snapshot, those that have landed left out where that can be known."""
        table, position = self.tables[name], self._position(name)
        is_begun = position is not None and position.at >> SEQUENCE_BITS == epoch
        source = EventSource(self.stream.removesuffix(":snapshot"), table.database, table.name, epoch)
        at = Mark(epoch, snapshot.gtid.sequence, 0).position.at
        if epoch and not is_begun:
            # what the source lost meanwhile must not stay: below the epoch's beginning everything goes
            before = EventSource(source.stream, table.database, table.name, epoch - 1)
            content = before.truncated(BinlogPosition(Gtid(snapshot.gtid.domain, 0, 1 << SEQUENCE_BITS), 0))
            emit(Emitted(name, self.stream, Position(at), content))
        after = self._last_key(table, position) if is_begun else None
        self._say_begin(table, snapshot, name, after)
        count = self._rows(name, snapshot, source, after, at=at, emit=emit, stop=stop)
        if count is not None:
            emit(Emitted(name, self.stream, Position(at, _WHOLE)))
            self.log.info(f"{name}: snapshot: read all {count:,} rows", table=name, rows=count)

    @staticmethod
    def _last_key(table: MariaDbTable, position: Position | None) -> int | None:
        if position is None or integer_key(table) is None or not 0 < position.nth < _WHOLE:
            return None
        key = position.nth - _KEY_OFFSET
        return key if key in _KEYS else None

    def _say_begin(self, table: MariaDbTable, snapshot: ConsistentSnapshot, name: str, after: int | None) -> None:
        rest = "" if after is None else ", the rest of one that stopped"
        if table.engine.lower() not in ("innodb", "rocksdb"):
            self.log.warning(f"{name}: {table.engine} has no snapshots; the view is right once the log is followed", table=name)
        self.log.info(
            f"{name}: snapshot at GTID {snapshot.gtid}, about {table.about_rows:,} rows{rest}",
            table=name,
            gtid=str(snapshot.gtid),
            file=snapshot.file,
            position=snapshot.position,
        )

    def _rows(
        self, name: str, snapshot: ConsistentSnapshot, source: EventSource, after: int | None, *, at: int, emit: Emit, stop: Event
    ) -> int | None:
        """Emit the rows; returns how many, None where it was stopped."""
        table = self.tables[name]
        columns, key = [column.name for column in table.columns], integer_key(table)
        writer = MariaDbEventWriter(source, columns, [column.name for column in self.targets[name].schema.row_key])
        place = BinlogPosition(snapshot.gtid, 0, snapshot.file, snapshot.position, int(time.time()))
        key_at = columns.index(key) if key else 0
        count, reported = 0, time.monotonic()
        for row in read_rows(snapshot.connection, table, after=after, nulls_zero_dates=self.options.nulls_zero_dates):
            if stop.is_set():
                return None
            count += 1
            nth = count if key is None else int(row[key_at] or 0) + _KEY_OFFSET
            emit(Emitted(name, self.stream, Position(at, nth), writer.read(row, place)))
            self.metrics.snapshot_rows(name).inc()
            if time.monotonic() - reported > _REPORT_EVERY:
                reported = time.monotonic()
                self.log.info(f"{name}: snapshot: {count:,} of about {table.about_rows:,} rows", table=name, rows=count)
        return count
