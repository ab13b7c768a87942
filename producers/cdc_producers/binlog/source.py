"""A source that is read by its binlog: the rows of its tables and its log as events of the format `debezium`."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any, ClassVar

from cdc_producers.binlog import catalog, log_events, log_files
from cdc_producers.binlog.catalog import BinlogTable, Server
from cdc_producers.binlog.connections import Access, Flavour, connect
from cdc_producers.binlog.log_files import LogFile
from cdc_producers.binlog.logged_tables import Describing, LoggedTables
from cdc_producers.binlog.marks import LogPlace, Mark
from cdc_producers.binlog.options import BinlogOptions
from cdc_producers.binlog.snapshots import BinlogSnapshots, ConsistentSnapshot, reread
from cdc_producers.binlog.stream import BinlogStream, BinlogWatcher, DumpRequest
from cdc_producers.binlog.table_maps import Code
from cdc_producers.binlog.transactions import BinlogTransactions
from cdc_producers.metrics import Metrics
from cdc_producers.source import Emit, Emitted, LostError, Source, SourceStatus
from cdc_views.errors import TransientError
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget, shown_nowhere

_CATCHES_UP_WITHIN = 60.0
"""Seconds of patience with a server that lacks what has landed: a replica that takes over first applies what it received."""


@dataclass
class BinlogSource(Source):
    """Reads the tables that have no snapshot yet, then follows the binlog; a subclass is a flavour."""

    targets: Mapping[str, StreamTarget]
    options: BinlogOptions
    log: ProducerLog
    metrics: Metrics
    progress: SnapshotProgress = shown_nowhere
    _access: Access | None = None
    _tables: dict[str, BinlogTable] = field(default_factory=dict)
    _marks: dict[str, Mark] = field(default_factory=dict)
    _begun_again: set[str] = field(default_factory=set)
    _stream: BinlogStream | None = None
    _watch: BinlogWatcher | None = None
    _lacking_since: float = 0.0
    flavour: ClassVar[Flavour]
    character: ClassVar[frozenset[Code]]
    locking: ClassVar[str]
    """The clause of a SELECT that waits for the lock of a row."""

    @abstractmethod
    def _read_server(self, connection: Any) -> Server:
        """Return the server's settings; raises `UsageError` if changes cannot be read with them."""

    @abstractmethod
    def _named(self, server: Server) -> str:
        """Return the name of the stream."""

    @abstractmethod
    def _current(self, connection: Any, server: Server) -> LogPlace:
        """Return the end of the log."""

    @abstractmethod
    def _start(self, server: Server) -> LogPlace:
        """Return the place behind which all unread changes of all tables come."""

    @abstractmethod
    def _check_reach(self, connection: Any, start: LogPlace) -> None:
        """Raise an error if the server lacks what has landed; a `TransientError` where it may get there by itself."""

    @abstractmethod
    def _request(self, connection: Any, start: LogPlace) -> DumpRequest:
        """Return the request for the log behind a place."""

    @abstractmethod
    def _reading(self, access: Access, server: Server) -> AbstractContextManager[ConsistentSnapshot]:
        """Open a snapshot."""

    def _described(self, connection: Any, server: Server, start: LogPlace) -> Describing | None:
        """Return what describes tables where the log does not name their columns; None if it must."""
        return None

    def run(self, emit: Emit, stop: Event) -> None:
        self.close()
        self._access = access = self._access or Access.of_environment(self.flavour)
        with closing(connect(access)) as connection:
            server = self._prepare(connection)
            name = self._named(server)
            self._begin(connection, server, name=name, emit=emit)
            start = self._start(server)
            self._check_log(connection, server)
            self._check_reach(connection, start)
            self._open(connection, start)
            self._snapshot(access, server, name=name, emit=emit, stop=stop)
            if not stop.is_set():
                self._follow(connection, server, start, name=name, emit=emit, stop=stop)

    def _prepare(self, connection: Any) -> Server:
        server = self._read_server(connection)
        for name, target in self.targets.items():
            table = self._tables[name] = catalog.read_table(connection, name)
            catalog.check_table(table, target.schema, server, allows_unkeyed=self.options.allows_unkeyed)
            if not server.logs_cascades:
                catalog.warn_of_cascades(connection, table, log=self.log)
        databases = sorted({table.database for table in self._tables.values()})
        catalog.check_filters(connection, databases, asked=server.asks_end_by)
        return server

    def _begin(self, connection: Any, server: Server, *, name: str, emit: Emit) -> None:
        """Note where each table's changes begin, before its snapshot; positions of this run count even before they land."""
        current = self._current(connection, server)
        for table, target in self.targets.items():
            lander = target.lander(name)
            position = lander.position()
            known = self._marks.get(table)
            if position is not None and (known is None or position > known.position):
                known = Mark.of(position, lander.note())
            is_again = self.options.snapshots_again and table not in self._begun_again
            if known is None or is_again:
                current.log = current.log or self._newest_log(connection, server)
                known = current.mark(0 if known is None else known.epoch + 1)
                emit(Emitted(table, name, known.position, note=known.note))
            self._begun_again.add(table)
            self._marks[table] = known

    def _newest_log(self, connection: Any, server: Server) -> LogFile:
        name = log_files.names_of_logs(connection)[-1]
        return LogFile(server.identity, name, self._began(name))

    def _began(self, name: str) -> int:
        assert self._access is not None
        number, pause = self.options.replica_number ^ 1, self.options.heartbeat_seconds
        return log_files.began_at(self._access, name, replica_number=number, heartbeat_seconds=pause)

    def _check_log(self, connection: Any, server: Server) -> None:
        """Raise `LostError` if the server began its log anew since a table's changes landed, however far it has counted."""
        logs = {mark.log for mark in self._marks.values() if mark.log is not None and mark.log.server == server.identity}
        names = log_files.names_of_logs(connection) if logs else []
        for log in logs:
            is_other = self._began(log.name) != log.began if log.name in names else log_files.is_behind_all(log, names)
            if is_other:
                raise LostError(
                    f"the server began its log anew (RESET MASTER, RESET BINARY LOGS) since changes landed from {log.name}, "
                    "and counts the same GTIDs once more. Start once with --snapshot-again: the views empty, and fill from the "
                    "tables as they are"
                )

    def _wait_for(self, lacking: str) -> None:
        """Raise an error if the server is `lacking` what has landed: it may be a replica that takes over. Empty: it has all."""
        if not lacking:
            self._lacking_since = 0.0
            return
        self._lacking_since = self._lacking_since or time.monotonic()
        if time.monotonic() - self._lacking_since > _CATCHES_UP_WITHIN:
            raise LostError(
                f"{lacking}: it is another server, was restored from a backup, began to count anew (RESET MASTER, RESET BINARY "
                f"LOGS), or took over before it had everything. Name the right one in {self.flavour.prefix}HOST, or start once "
                "with --snapshot-again: the views empty, and fill from the tables as they are"
            )
        if self._access is not None:
            # a former primary that came back never catches up, so the next host is asked
            self._access = self._access.turned()
        raise TransientError(f"{lacking}; a replica that takes over gets there by itself")

    def _open(self, connection: Any, start: LogPlace) -> None:
        """Ask for the binlog before a snapshot is read, so that a refused or purged start is reported at once."""
        stream = self._stream_of(connection, start)
        try:
            stream.read_format()
            stream.read()
        finally:
            stream.close()

    def _stream_of(self, connection: Any, start: LogPlace) -> BinlogStream:
        assert self._access is not None
        request = self._request(connection, start)
        return BinlogStream(self._access, self.options.replica_number, self.options.heartbeat_seconds, request)

    def _snapshot(self, access: Access, server: Server, *, name: str, emit: Emit, stop: Event) -> None:
        snapshots = BinlogSnapshots(
            self.targets, self._tables, self.flavour.connector, f"{name}:snapshot", self.options.nulls_zero_dates, self.log,
            self.metrics, self.progress,
        )  # fmt: skip
        wanted = [] if self.options.skips_snapshot else snapshots.wanted(self._marks)
        if not wanted:
            return
        with self._reading(access, server) as snapshot:
            for table in wanted:
                if not stop.is_set():
                    snapshots.read(table, snapshot, self._marks[table], emit=emit, stop=stop)

    def _follow(self, connection: Any, server: Server, start: LogPlace, *, name: str, emit: Emit, stop: Event) -> None:
        transactions = self._transactions(connection, server, start, name=name, emit=emit)
        self.log.info(f"following the binlog from GTID {start}", gtid=str(start), name=name)
        stream = self._stream = self._stream_of(connection, start)
        watch = self._watch = BinlogWatcher(stream.access, lambda: (stream.file, stream.position))
        try:
            with watch.running():
                while not stop.is_set():
                    event = stream.read()
                    if event.kind == log_events.FORMAT:
                        start.log = LogFile(server.identity, stream.file, event.timestamp)
                    transactions.take(event, stream.file)
        finally:
            # what was emitted waits to land, even after an error: the next attempt begins behind it
            self._marks |= transactions.marked

    def _transactions(self, connection: Any, server: Server, start: LogPlace, *, name: str, emit: Emit) -> BinlogTransactions:
        targets = {self._tables[table].full_name: target for table, target in self.targets.items()}
        tables = LoggedTables(
            targets,
            catalog.read_collations(connection),
            catalog=lambda table: catalog.read_columns(connection, table),
            reread=lambda table, key, names: self._reread(connection, table, key, names),
            log=self.log,
            nulls_zero_dates=self.options.nulls_zero_dates,
            described=self._described(connection, server, start),
            character=self.character,
        )
        return BinlogTransactions(
            targets, dict(self._marks), self.flavour.connector, start, name, tables, self.log, emit,
            ignores_case=server.ignores_case,
        )  # fmt: skip

    def _reread(self, connection: Any, table: str, key: Mapping[str, str], names: Sequence[str]) -> Mapping[str, str]:
        return reread(connection, self._tables[table], key, names, lock=self.locking)

    def keep_alive(self) -> None:
        """Do nothing: the server waits as long as `net_write_timeout`, which is set to a day."""

    def landed(self, token: object) -> None:
        """Do nothing: the server keeps nothing for this reader."""

    def status(self) -> SourceStatus:
        stream, watch = self._stream, self._watch
        if stream is None or watch is None:
            return SourceStatus()
        return SourceStatus(f"{stream.file}:{stream.position}", watch.behind_bytes, None, stream.heard)

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
