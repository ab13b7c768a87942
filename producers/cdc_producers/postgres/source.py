"""The PostgreSQL source: what its slot and its snapshots say, as events of the format `debezium`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from cdc_producers.metrics import Metrics
from cdc_producers.postgres.catalog import SourceTable, Types, check_key, ensure_publication, read_table
from cdc_producers.postgres.connections import connect, current_lsn, lsn_text, rows
from cdc_producers.postgres.coverage import Reading, needed
from cdc_producers.postgres.options import Options
from cdc_producers.postgres.rereading import reread
from cdc_producers.postgres.slots import Slot, check_alive, check_logical, exported_snapshot, find_slot
from cdc_producers.postgres.snapshots import Snapshots
from cdc_producers.postgres.stream import Progress, SlotStream
from cdc_producers.postgres.transactions import Transactions
from cdc_producers.postgres.watching import Watch
from cdc_producers.source import Emit, LostError, Standing
from cdc_views.errors import EngineError, UsageError
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget, shown_nowhere

_FREE_WITHIN = 3.0


@dataclass
class PostgresSource:
    """Snapshots the tables that have none yet, then follows the slot; see `cdc_producers.source.Source`."""

    targets: Mapping[str, StreamTarget]
    options: Options
    log: ProducerLog
    metrics: Metrics
    progress: SnapshotProgress = shown_nowhere
    _tables: dict[str, SourceTable] = field(default_factory=dict)
    _database: str = ""
    _progress: Progress = field(default_factory=Progress)
    _stream: SlotStream | None = None
    _watch: Watch | None = None
    _begun_again: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)
    _snapshots: Snapshots = field(init=False)

    def __post_init__(self) -> None:
        self._snapshots = Snapshots(self.options.slot, self.targets, self.log, self.metrics, self.progress)

    def run(self, emit: Emit, stop: Event) -> None:
        """See `Source.run`; also returns where a table has changed so that something of it is to be read."""
        self.close()
        connection = connect()
        try:
            self._prepare(connection)
            types = Types(connection)
            self._read_tables(emit, stop, types, connection)
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

    def _read_tables(self, emit: Emit, stop: Event, types: Types, connection: Any) -> None:
        """Make the slot where there is none, then read what is missing of each table.

        The slot exists before any snapshot: one that stops half way goes on at a later LSN, and what changed in between
        comes from the slot.
        """
        slot = self._free_slot(connection, stop)
        self._check(slot, connection)
        wanted = self._wanted()
        if slot is None:
            self.log.info(f"creating slot {self.options.slot}; this waits for transactions that are running now")
        elif not wanted:
            self._cover(connection, emit)
            return
        name = self.options.slot if slot is None else f"{self.options.slot[:40]}_snapshot_{time.time_ns() % 10**9}"
        with exported_snapshot(name, is_temporary=slot is not None) as snapshot:
            for table, reading in wanted.items():
                if reading.empties:
                    self._begun_again.add(table)
                self._snapshots.read(
                    self._tables[table],
                    table,
                    reading,
                    snapshot=snapshot,
                    types=types,
                    database=self._database,
                    emit=emit,
                    stop=stop,
                )
                if stop.is_set():
                    return
        self._cover(connection, emit)

    def _wanted(self) -> dict[str, Reading]:
        """What is to be read of each table, by its name in the project file; tables of which nothing is are not there."""
        if self.options.skips_snapshot:
            return {}
        again = Reading("asked for by --snapshot-again; what was shown goes", empties=True)
        wanted = {name: self._needed(name, table) for name, table in self._tables.items()}
        if self.options.snapshots_again:
            wanted |= {name: again for name in self._tables if name not in self._begun_again}
        return {name: reading for name, reading in wanted.items() if reading is not None}

    def _needed(self, name: str, table: SourceTable) -> Reading | None:
        return needed(table, self._snapshots.landed(name), {column.name for column in self.targets[name].schema.columns})

    def _cover(self, connection: Any, emit: Emit) -> None:
        for name, table in self._tables.items():
            landed = self._snapshots.landed(name)
            if landed.is_whole and landed.covered is None:
                self._snapshots.cover(table, name, lsn=current_lsn(connection), emit=emit)

    def _free_slot(self, connection: Any, stop: Event) -> Slot | None:
        """Return the slot, given a moment where the server has not noticed yet that its last reader went."""
        deadline = time.monotonic() + _FREE_WITHIN
        while True:
            slot = find_slot(connection, self.options.slot)
            if slot is None or slot.active_process is None or stop.is_set() or time.monotonic() > deadline:
                return slot
            stop.wait(0.1)

    def _check(self, slot: Slot | None, connection: Any) -> None:
        """Refuse to go on where changes are missing, or the server is not the one that was followed."""
        landed = [target.lander(self.options.slot).position() for target in self.targets.values()]
        newest = max((position.at for position in landed if position is not None), default=0)
        if slot is not None:
            check_alive(slot, self.options.slot)
        elif (newest or self._has_whole()) and not self.options.snapshots_again:
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

    def _has_whole(self) -> bool:
        return any(self._snapshots.landed(name).is_whole for name in self.targets)

    def _has_changed(self, connection: Any) -> bool:
        """Whether something is to be read of a table as it is by now, or it is another one; called by the watch."""
        for name, known in self._tables.items():
            try:
                table = read_table(connection, name)
            except UsageError:
                if name not in self._gone:
                    self.log.warning(f"{name}: the table is gone at the source; what it had stays shown", table=name)
                self._gone.add(name)
                continue
            self._gone.discard(name)
            if table.number != known.number or (not self.options.skips_snapshot and self._needed(name, table) is not None):
                return True
        return False

    def _follow(self, emit: Emit, stop: Event, types: Types, connection: Any) -> None:
        options = self.options
        self._watch = Watch(
            options.slot, options.held_bytes_warning, self.log, has_changed=self._has_changed, echo_seconds=options.echo_seconds
        )
        stream = SlotStream(
            options.slot, options.publication, options.heartbeat_seconds, self._progress, options.echo_seconds is not None
        )
        transactions = Transactions(
            targets={table.full_name: self.targets[name] for name, table in self._tables.items()},
            database=self._database,
            stream=options.slot,
            types=types,
            reread=lambda relation, key, names, transaction: reread(connection, relation, key, names, transaction=transaction),
            log=self.log,
            emit=emit,
        )
        stream.open()
        self._stream = stream
        self.log.info(f"following slot {options.slot}", slot=options.slot)
        try:
            with self._watch.running():
                stream.follow(lambda: stop.is_set() or self._watch_says_changed(), transactions.take, transactions.hand_on)
        except EngineError:
            if (slot := find_slot(connection, options.slot)) is not None and slot.is_lost:
                check_alive(slot, options.slot)
            raise

    def _watch_says_changed(self) -> bool:
        return self._watch is not None and self._watch.saw_change.is_set()

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
