"""The PostgreSQL source: its slot and its snapshots as events of the format `debezium`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from cdc_producers.metrics import Metrics
from cdc_producers.postgres.catalog import type_catalog
from cdc_producers.postgres.connections import connect, current_lsn, lsn_text, rows
from cdc_producers.postgres.events import PostgresTransactions
from cdc_producers.postgres.marks import Marking, Marks, Reached
from cdc_producers.postgres.options import PostgresOptions, ServerRole, SlotFailover
from cdc_producers.postgres.shapes import Shapes
from cdc_producers.postgres.slots import (
    Slot,
    SlotWatcher,
    StandbyError,
    check_alive,
    check_logical,
    exported_snapshot,
    fail_over,
    find_slot,
)
from cdc_producers.postgres.snapshots import PostgresSnapshots, reread
from cdc_producers.postgres.stream import NoPublicationError, Progress, SlotStream
from cdc_producers.postgres.tables import Tables
from cdc_producers.postgres.values import TypeCatalog
from cdc_producers.source import Emit, LostError, Source, SourceStatus
from cdc_views.errors import EngineError, TransientError
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget, shown_nowhere

_FREE_WITHIN = 3.0


@dataclass
class PostgresSource(Source):
    """Reads the tables that have no snapshot yet, then follows the slot."""

    targets: Mapping[str, StreamTarget]
    options: PostgresOptions
    log: ProducerLog
    metrics: Metrics
    progress: SnapshotProgress = shown_nowhere
    _database: str = ""
    _progress: Progress = field(default_factory=Progress)
    _stream: SlotStream | None = None
    _watch: SlotWatcher | None = None
    _has_followed: bool = False
    _confirmed: int = 0
    _marks: Marks = field(init=False)
    _snapshots: PostgresSnapshots = field(init=False)
    _tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        slot = self.options.slot
        self._marks = Marks(slot, self.targets)
        shapes = Shapes(slot, self.targets)
        self._snapshots = PostgresSnapshots(slot, self.targets, self.log, self.metrics, self.progress, self._marks, shapes)
        self._tables = Tables(self.targets, self.options, self.log, self._marks, self._snapshots, shapes)

    @property
    def _fails_over(self) -> bool:
        return self.options.slot_failover is SlotFailover.ON

    @property
    def _may_be_standby(self) -> bool:
        return self.options.server is ServerRole.STANDBY

    def run(self, emit: Emit, stop: Event) -> None:
        """As `Source.run`; also return when a table has changed so that a part of it must be read."""
        self.close()
        with closing(connect()) as connection:
            self._prepare(connection)
            types = type_catalog(connection)
            self._tables.check_columns(types)
            self._read_tables(emit, stop, types, connection)
            if not stop.is_set():
                self._follow(emit, stop, types, connection)

    def _prepare(self, connection: Any) -> None:
        try:
            check_logical(connection, fails_over=self._fails_over, may_be_standby=self._may_be_standby)
        except StandbyError as error:
            if not self._has_followed:
                raise
            raise TransientError(f"{error}; it may be about to take over") from error
        # before anything else opens the raw tables, because that creates them
        is_decided = self.options.snapshots_again or self.options.skips_snapshot or self._has_followed
        if not is_decided and find_slot(connection, self.options.slot, plugin=self.options.plugin) is not None:
            self._marks.check_there()
        ((self._database,),) = rows(connection, "SELECT current_database()", doing="asking its name")
        self._tables.prepare(connection)

    def _read_tables(self, emit: Emit, stop: Event, types: TypeCatalog, connection: Any) -> None:
        """Create the slot if there is none, then read what is missing of each table.

        The slot exists before any snapshot: a snapshot that stops half way resumes at a later LSN, and the slot has the changes
        in between.
        """
        slot = self._free_slot(connection, stop)
        self._check(slot, connection)
        fails_over = self._fails_over
        if fails_over and slot is not None and not slot.fails_over:
            fail_over(self.options.slot)
        wanted = self._tables.wanted()
        if slot is None:
            self._marks.begin()
            # a standby begins a slot where its primary lists these; an idle one does so when asked
            on_standby = ", until the primary lists them (SELECT pg_log_standby_snapshot() there)" * self._may_be_standby
            self.log.info(f"creating slot {self.options.slot}; this waits for transactions that are running now{on_standby}")
        elif not wanted:
            self._confirmed = slot.confirmed
            self._tables.note(connection, emit)
            return
        name = self.options.slot if slot is None else f"{self.options.slot[:40]}_snapshot_{time.time_ns() % 10**9}"
        plugin = self.options.plugin
        with exported_snapshot(name, plugin=plugin, is_temporary=slot is not None, fails_over=fails_over) as snapshot:
            self._confirmed = snapshot.lsn if slot is None else slot.confirmed
            for table, reading in wanted.items():
                if reading.empties:
                    self._tables.begun_again.add(table)
                self._snapshots.read(
                    self._tables.found[table], table, reading, snapshot=snapshot, types=types, database=self._database,
                    confirmed=self._confirmed, emit=emit, stop=stop,
                )  # fmt: skip
                if stop.is_set():
                    return
        self._tables.note(connection, emit)

    def _free_slot(self, connection: Any, stop: Event) -> Slot | None:
        """Return the slot; wait a moment if the server has not yet noticed that the slot's last reader is gone."""
        deadline = time.monotonic() + _FREE_WITHIN
        while True:
            slot = find_slot(connection, self.options.slot, plugin=self.options.plugin)
            if slot is None or slot.active_process is None or stop.is_set() or time.monotonic() > deadline:
                return slot
            stop.wait(0.1)

    def _check(self, slot: Slot | None, connection: Any) -> None:
        landed = [target.lander(self.options.slot).position() for target in self.targets.values()]
        newest = max((position.at for position in landed if position is not None), default=0)
        if slot is not None:
            check_alive(slot, self.options.slot)
            self._check_marks(slot)
        elif not self.options.snapshots_again and (newest or any(self._snapshots.landed(name).is_whole for name in self.targets)):
            raise LostError(
                f"slot {self.options.slot} is gone, though tables have landed from it: changes since are missing. Name the "
                "right slot or database, or start with --snapshot-again"
            )
        current = current_lsn(connection)
        if newest > current:
            raise LostError(
                f"the server's log ends at {lsn_text(current)}, before what has landed from slot {self.options.slot} "
                f"({lsn_text(newest)}): another server, or one restored from a backup; land it under another --slot and raw table"
            )

    def _check_marks(self, slot: Slot) -> None:
        for name in self.targets:
            if not self._tables.is_read_again(name):
                landed = self._snapshots.landed(name)
                is_read = landed.snapshot is None and not self.options.skips_snapshot
                self._marks.check(name, landed, confirmed=0 if is_read else slot.confirmed)

    def _follow(self, emit: Emit, stop: Event, types: TypeCatalog, connection: Any) -> None:
        slot, plugin, echo = self.options.slot, self.options.plugin, self.options.echo_seconds
        stream = SlotStream(
            slot, self._tables.reader(), self.options.heartbeat_seconds, self._progress, reads_echoes=echo is not None
        )
        watch = self._watch = SlotWatcher(
            slot, self.log, plugin=plugin, has_changed=self._tables.has_changed, done_to=lambda: stream.done_to, echo_seconds=echo
        )
        marking = Marking(self._marks, list(self.targets), self.options.confirm_seconds, emit)
        transactions = self._transactions(connection, types, marking, emit)
        self._tables.partitions.read_to = lambda: stream.read_to
        self._stream, self._has_followed = stream, True
        marking.begin(self._confirmed)
        self.log.info(f"following slot {slot}", slot=slot)

        def is_over() -> bool:
            return stop.is_set() or watch.saw_change.is_set()

        def all_taken(taken_to: int | None) -> None:
            transactions.hand_on()
            if taken_to is not None:
                marking.idle(taken_to, is_last=is_over())

        try:
            with watch.running():
                stream.follow(is_over, transactions.take, all_taken)
        except NoPublicationError as error:
            raise LostError(
                f"{error}: it was made after the log that slot {slot} stands in, so changes are missing. "
                "Start once with --drop slot, then once with --snapshot-again"
            ) from error
        except EngineError:
            if (found := find_slot(connection, slot, plugin=plugin)) is not None and found.is_lost:
                check_alive(found, slot)
            raise

    def _transactions(self, connection: Any, types: TypeCatalog, marking: Marking, emit: Emit) -> PostgresTransactions:
        return PostgresTransactions(
            targets={table.full_name: self.targets[name] for name, table in self._tables.found.items()},
            database=self._database,
            stream=self.options.slot,
            types=types,
            reread=partial(reread, connection),
            log=self.log,
            emit=emit,
            ended=marking.ended,
            truncated=self._tables.partitions.truncated,
        )

    def keep_alive(self) -> None:
        if self._stream is not None:
            self._stream.confirm()

    def landed(self, token: object) -> None:
        if isinstance(token, Reached):
            self._progress.land(token)

    def status(self) -> SourceStatus:
        stream, watch = self._stream, self._watch
        if stream is None or watch is None:
            return SourceStatus()
        trouble = "; ".join(self._tables.partitions.troubles.values())
        return SourceStatus(
            lsn_text(stream.read_to), watch.behind_bytes, watch.held_bytes, stream.heard,
            trouble=trouble, held_limit_bytes=watch.held_limit_bytes,
        )  # fmt: skip

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
