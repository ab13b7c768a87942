"""The MariaDB source: the rows of its tables and its binlog as events of the format `debezium`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from cdc_producers.mariadb import binlog, catalog
from cdc_producers.mariadb.catalog import MariaDbTable, Server
from cdc_producers.mariadb.connections import Access, connect, rows
from cdc_producers.mariadb.gtids import Gtid, Mark, read_gtids
from cdc_producers.mariadb.logged_tables import LoggedTables
from cdc_producers.mariadb.options import MariaDbOptions
from cdc_producers.mariadb.snapshots import MariaDbSnapshots, reading, reread
from cdc_producers.mariadb.stream import BinlogStream, BinlogWatcher
from cdc_producers.mariadb.transactions import MariaDbTransactions
from cdc_producers.metrics import Metrics
from cdc_producers.source import Emit, Emitted, LostError, Source, SourceStatus
from cdc_views.errors import TransientError
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget, shown_nowhere

_CATCHES_UP_WITHIN = 60.0
"""Seconds of patience with a server that lacks what has landed: a replica that takes over first applies what it received."""


@dataclass
class MariaDbSource(Source):
    """Reads the tables that have no snapshot yet, then follows the binlog."""

    targets: Mapping[str, StreamTarget]
    options: MariaDbOptions
    log: ProducerLog
    metrics: Metrics
    progress: SnapshotProgress = shown_nowhere
    _access: Access | None = None
    _tables: dict[str, MariaDbTable] = field(default_factory=dict)
    _marks: dict[str, Mark] = field(default_factory=dict)
    _begun_again: set[str] = field(default_factory=set)
    _stream: BinlogStream | None = None
    _watch: BinlogWatcher | None = None
    _lacking_since: float = 0.0

    def run(self, emit: Emit, stop: Event) -> None:
        self.close()
        self._access = access = self._access or Access.of_environment()
        with closing(connect(access)) as connection:
            server = self._prepare(connection)
            domain = server.domain if self.options.gtid_domain is None else self.options.gtid_domain
            name = f"{self.options.name}:{domain}"
            self._begin(connection, domain, name=name, emit=emit)
            start = self._start(domain)
            self._check_reach(connection, start)
            self._open(connection, start)
            self._snapshot(access, name, domain, emit=emit, stop=stop)
            if not stop.is_set():
                self._follow(connection, server, start, name=name, emit=emit, stop=stop)

    def _prepare(self, connection: Any) -> Server:
        server = catalog.read_server(connection, log=self.log)
        for name, target in self.targets.items():
            table = self._tables[name] = catalog.read_table(connection, name)
            catalog.check_table(table, target.schema, server, allows_unkeyed=self.options.allows_unkeyed)
            catalog.warn_of_cascades(connection, table, log=self.log)
        catalog.check_filters(connection, sorted({table.database for table in self._tables.values()}))
        return server

    def _begin(self, connection: Any, domain: int, *, name: str, emit: Emit) -> None:
        """Note where each table's changes begin, before its snapshot; positions of this run count even before they land."""
        current = self._current(connection).get(domain, Gtid(domain, 0, 0))
        for table, target in self.targets.items():
            position = target.lander(name).position()
            known = self._marks.get(table)
            if position is not None:
                known = max(Mark.of(position), known or Mark.of(position), key=lambda mark: mark.position)
            is_again = self.options.snapshots_again and table not in self._begun_again
            if known is None or is_again:
                known = Mark.after(current, epoch=0 if known is None else known.epoch + 1)
                emit(Emitted(table, name, known.position))
            self._begun_again.add(table)
            self._marks[table] = known

    @staticmethod
    def _current(connection: Any) -> dict[int, Gtid]:
        ((text,),) = rows(connection, "SELECT @@gtid_binlog_pos", doing="asking for its GTIDs")
        return read_gtids(str(text or ""))

    def _start(self, domain: int) -> Gtid:
        """Return the transaction after which all unread changes of all tables come."""
        return min(self._marks.values(), key=lambda mark: mark.sequence).start(domain)

    def _check_reach(self, connection: Any, start: Gtid) -> None:
        """Wait for a server that lacks what has landed: it may be a replica that takes over."""
        furthest = max(mark.sequence - (0 if mark.ordinal else 1) for mark in self._marks.values())
        current = self._current(connection).get(start.domain, Gtid(start.domain, 0, 0))
        if current.sequence >= furthest:
            self._lacking_since = 0.0
            return
        self._lacking_since = self._lacking_since or time.monotonic()
        said = f"the server's binlog ends at {current}, before {start.domain}-…-{furthest}, which has landed"
        if time.monotonic() - self._lacking_since > _CATCHES_UP_WITHIN:
            raise LostError(
                f"{said}: it is another server, was restored from a backup, began to count anew (RESET MASTER), or took over "
                "before it had everything. Name the right one in CDC_VIEWS_MARIADB_HOST, or start once with --snapshot-again: "
                "the views empty, and fill from the tables as they are"
            )
        if self._access is not None:
            # a former primary that came back never catches up, so the next host is asked
            self._access = self._access.turned()
        raise TransientError(f"{said}; a replica that takes over gets there by itself")

    def _open(self, connection: Any, start: Gtid) -> None:
        """Ask for the binlog before a snapshot is read, so that a refused or purged start is reported at once."""
        stream = self._stream_of(connection, start)
        try:
            while stream.read().kind != binlog.FORMAT:
                pass
            stream.read()
        finally:
            stream.close()

    def _stream_of(self, connection: Any, start: Gtid) -> BinlogStream:
        assert self._access is not None
        # nothing of other domains is wanted, but a domain without a start would come from its beginning
        others = {domain: gtid for domain, gtid in self._current(connection).items() if domain != start.domain}
        wanted = [gtid for gtid in (start, *others.values()) if gtid.sequence]
        return BinlogStream(self._access, self.options.replica_number, self.options.heartbeat_seconds, wanted)

    def _snapshot(self, access: Access, name: str, domain: int, *, emit: Emit, stop: Event) -> None:
        snapshots = MariaDbSnapshots(
            self.targets, self._tables, f"{name}:snapshot", self.options, self.log, self.metrics, self.progress
        )
        wanted = [] if self.options.skips_snapshot else snapshots.wanted(self._marks)
        if not wanted:
            return
        with reading(access, domain) as snapshot:
            for table in wanted:
                if not stop.is_set():
                    snapshots.read(table, snapshot, epoch=self._marks[table].epoch, emit=emit, stop=stop)

    def _follow(self, connection: Any, server: Server, start: Gtid, *, name: str, emit: Emit, stop: Event) -> None:
        stream = self._stream = self._stream_of(connection, start)
        targets = {self._tables[table].full_name: target for table, target in self.targets.items()}
        tables = LoggedTables(
            targets,
            catalog.read_collations(connection),
            catalog=lambda table: {column.name: column.type for column in catalog.read_columns(connection, table)},
            reread=lambda table, key, names: reread(connection, self._tables[table], key, names),
            log=self.log,
            nulls_zero_dates=self.options.nulls_zero_dates,
        )
        transactions = MariaDbTransactions(
            targets, dict(self._marks), start.domain, start, name, tables, self.log, emit, ignores_case=server.ignores_case
        )
        watch = self._watch = BinlogWatcher(stream.access, lambda: (stream.file, stream.position))
        self.log.info(f"following the binlog from GTID {start}", gtid=str(start), name=name)
        try:
            with watch.running():
                while not stop.is_set():
                    transactions.take(stream.read(), stream.file)
        finally:
            # what was emitted waits to land, even after an error: the next attempt begins behind it
            self._marks |= {table: Mark.of(position) for table, position in transactions.marked.items()}

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
