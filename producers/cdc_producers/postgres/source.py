"""The PostgreSQL source: what its slot and its snapshots say, as events of the format `debezium`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from cdc_producers.metrics import Metrics
from cdc_producers.postgres.catalog import SourceTable, Types, check_key, ensure_publication, read_table
from cdc_producers.postgres.connections import connect, lsn_text, rows
from cdc_producers.postgres.events import EventWriter, Place
from cdc_producers.postgres.options import Options
from cdc_producers.postgres.pgoutput import Begin, RelationColumn
from cdc_producers.postgres.rereading import reread
from cdc_producers.postgres.slots import ExportedSnapshot, Slot, check_alive, check_logical, exported_snapshot, find_slot
from cdc_producers.postgres.snapshot import read_rows, reading
from cdc_producers.postgres.stream import Progress, SlotStream
from cdc_producers.postgres.transactions import Transactions
from cdc_producers.postgres.watching import Watch
from cdc_producers.source import Emit, Emitted, LostError, Standing
from cdc_views.errors import EngineError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_WHOLE = (1 << 63) - 1
"""`Position.nth` of a snapshot that is whole."""
_LAST_ORDER = (1 << 32) - 2
_REPORT_EVERY = 10.0


@dataclass
class PostgresSource:
    """Snapshots the tables that have none yet, then follows the slot; see `cdc_producers.source.Source`."""

    targets: Mapping[str, StreamTarget]
    options: Options
    log: ProducerLog
    metrics: Metrics
    _tables: dict[str, SourceTable] = field(default_factory=dict)
    _database: str = ""
    _progress: Progress = field(default_factory=Progress)
    _stream: SlotStream | None = None
    _watch: Watch | None = None
    _begun_again: set[str] = field(default_factory=set)

    @property
    def snapshot_stream(self) -> str:
        """The stream that positions of snapshots are kept under: LSN and row; the row is `_WHOLE` once it is whole."""
        return f"{self.options.slot}:snapshot"

    def run(self, emit: Emit, stop: Event) -> None:
        """See `Source.run`."""
        self.close()
        connection = connect()
        try:
            self._prepare(connection)
            types = Types(connection)
            self._snapshot(emit, stop, types, connection)
            if not stop.is_set():
                self._follow(emit, stop, types, connection)
        finally:
            connection.close()

    def _prepare(self, connection: Any) -> None:
        check_logical(connection)
        ((self._database,),) = rows(connection, "SELECT current_database()", doing="asking its name")
        for name, target in self.targets.items():
            self._tables[name] = read_table(connection, name)
            check_key(self._tables[name], target.schema, allows_unkeyed=self.options.allows_unkeyed)
        ensure_publication(connection, self.options.publication, list(self._tables.values()), log=self.log)

    def _snapshot(self, emit: Emit, stop: Event, types: Types, connection: Any) -> None:
        """Make the slot where there is none, then read each table that has no whole snapshot.

        The slot exists before any snapshot: a snapshot that stops half way is begun anew, at a later LSN, and what
        changed in between comes from the slot.
        """
        slot = find_slot(connection, self.options.slot)
        wanted = self._without_snapshot()
        self._check(slot, connection, has_whole=len(wanted) < len(self.targets))
        if self.options.skips_snapshot:
            wanted = []
        elif self.options.snapshots_again:
            wanted = [name for name in self.targets if name in wanted or name not in self._begun_again]
        if slot is None:
            self.log.info(f"creating slot {self.options.slot}; this waits for transactions that are running now")
        elif not wanted:
            return
        name = self.options.slot if slot is None else f"{self.options.slot[:40]}_snapshot_{time.time_ns() % 10**9}"
        with exported_snapshot(name, is_temporary=slot is not None) as snapshot:
            for table in wanted:
                if not stop.is_set():
                    self._read_table(table, snapshot, types, emit=emit, stop=stop)

    def _without_snapshot(self) -> list[str]:
        positions = {name: target.lander(self.snapshot_stream).position() for name, target in self.targets.items()}
        return [name for name, position in positions.items() if position is None or position.nth != _WHOLE]

    def _check(self, slot: Slot | None, connection: Any, *, has_whole: bool) -> None:
        """Refuse to go on where changes are missing, or the server is not the one that was followed."""
        landed = [target.lander(self.options.slot).position() for target in self.targets.values()]
        newest = max((position.at for position in landed if position is not None), default=0)
        if slot is not None:
            check_alive(slot, self.options.slot)
        elif (has_whole or newest) and not self.options.snapshots_again:
            raise LostError(
                f"slot {self.options.slot} is gone, though tables have landed from it: changes since are missing. Name the "
                "right slot or database, or start with --snapshot-again"
            )
        ((current,),) = rows(connection, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint", doing="asking its LSN")
        if newest > current:
            raise LostError(
                f"the server's log ends at {lsn_text(current)}, before what has landed from slot {self.options.slot} "
                f"({lsn_text(newest)}): another server, or one restored from a backup; land it under another --slot and raw table"
            )

    def _read_table(self, name: str, snapshot: ExportedSnapshot, types: Types, *, emit: Emit, stop: Event) -> None:
        table = self._tables[name]
        columns = [RelationColumn(c.name, c.type_id, c.modifier, False) for c in table.columns]
        schema, slot = self.targets[name].schema, self.options.slot
        writer = EventWriter(schema, table.namespace, table.name, self._database, slot, columns, types)
        micros, count, reported = time.time_ns() // 1000, 0, time.monotonic()
        self.log.info(f"{name}: snapshot at {lsn_text(snapshot.lsn)}, about {table.about_rows:,} rows", table=name)
        if self.options.snapshots_again and name not in self._begun_again:
            # what the source lost meanwhile must not stay: just below the snapshot's rows everything goes
            content = writer.truncated(Place(Begin(snapshot.lsn - 1, micros, 0), _LAST_ORDER))
            emit(Emitted(name, self.snapshot_stream, Position(snapshot.lsn, 0), content))
            self._begun_again.add(name)
        with reading(snapshot) as connection:
            for row in read_rows(connection, table):
                if stop.is_set():
                    return
                count += 1
                content = writer.read(row, lsn=snapshot.lsn, micros=micros)
                emit(Emitted(name, self.snapshot_stream, Position(snapshot.lsn, count), content))
                self.metrics.snapshot_rows(name).inc()
                if time.monotonic() - reported > _REPORT_EVERY:
                    reported = time.monotonic()
                    self.log.info(f"{name}: snapshot: {count:,} of about {table.about_rows:,} rows", table=name, rows=count)
        emit(Emitted(name, self.snapshot_stream, Position(snapshot.lsn, _WHOLE)))
        self.log.info(f"{name}: snapshot: read all {count:,} rows", table=name, rows=count)

    def _follow(self, emit: Emit, stop: Event, types: Types, connection: Any) -> None:
        options = self.options
        self._watch = Watch(options.slot, options.held_bytes_warning, self.log)
        stream = SlotStream(options.slot, options.publication, options.heartbeat_seconds, self._progress)
        transactions = Transactions(
            targets={table.full_name: self.targets[name] for name, table in self._tables.items()},
            database=self._database,
            stream=options.slot,
            types=types,
            reread=lambda relation, key, names: reread(connection, relation, key, names),
            log=self.log,
            emit=emit,
        )
        stream.open()
        self._stream = stream
        self.log.info(f"following slot {options.slot}", slot=options.slot)
        try:
            with self._watch.running():
                stream.follow(stop, transactions.take)
        except EngineError:
            if (slot := find_slot(connection, options.slot)) is not None and slot.is_lost:
                check_alive(slot, options.slot)
            raise

    def keep_alive(self) -> None:
        """See `Source.keep_alive`."""
        if self._stream is not None:
            self._stream.keep_alive()

    def landed(self, token: object) -> None:
        """See `Source.landed`; a token is where a transaction ends."""
        if isinstance(token, int):
            self._progress.land(token)

    def standing(self) -> Standing:
        """See `Source.standing`."""
        stream, watch = self._stream, self._watch
        if stream is None or watch is None:
            return Standing()
        return Standing(lsn_text(stream.read_to), watch.behind_bytes, watch.held_bytes, stream.heard)

    def close(self) -> None:
        """See `Source.close`."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
