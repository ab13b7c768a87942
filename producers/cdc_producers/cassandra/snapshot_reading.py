"""Reads the cluster for a snapshot: pages of undecoded rows, one page ahead. Also reads one row's lists again (see `lists`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple

from cassandra import AuthenticationFailed, ConsistencyLevel, InvalidRequest, ProtocolVersion, Unauthorized
from cassandra.cluster import ExecutionProfile, ResponseFuture, Session
from cassandra.policies import DCAwareRoundRobinPolicy
from cassandra.protocol import ProtocolHandler, ResultMessage, read_int
from cassandra.query import SimpleStatement, tuple_factory

from cdc_producers.cassandra.addresses import PASSWORD, USER
from cdc_producers.cassandra.lists import SETTLES_AFTER, ListRow, lists_of
from cdc_producers.cassandra.node import AWAY, TLS, cluster_at, message_of, refused_by_tls
from cdc_producers.cassandra.node_schema import quoted
from cdc_producers.cassandra.options import SnapshotOptions
from cdc_producers.cassandra.snapshot_events import Moment, event_of, replaced_list
from cdc_producers.cassandra.snapshot_query import RawRow, Selected, Selection, TokenRange, primary_ranges, whole_ring
from cdc_views.errors import TransientError, UsageError
from cdc_views.landing import Position
from cdc_views.model.schema import Role, TableSchema

_REREADS = 5
_NEVER = Moment(0)
_PAGE_SECONDS = 60.0
_TELLS_ELEMENTS = 5
"""The first version of Cassandra with WRITETIME and TTL of collection elements."""


class _RawResult(ResultMessage):  # type: ignore[misc]  # the driver has no types
    """Undecoded rows: rule C2.6 compares their bytes, and the driver cannot decode nulls in a list."""

    def recv_results_rows(self, f: Any, protocol_version: int, user_type_map: Any, result_metadata: Any, policy: Any) -> None:
        self.recv_results_metadata(f, user_type_map)
        columns = self.column_metadata or result_metadata
        self.parsed_rows = [tuple(self.recv_row(f, len(columns))) for _ in range(read_int(f))]
        self.column_names = [column[2] for column in columns]
        self.column_types = [column[3] for column in columns]


class _RawHandler(ProtocolHandler):  # type: ignore[misc]
    message_types_by_opcode = {**ProtocolHandler.message_types_by_opcode, ResultMessage.opcode: _RawResult}  # noqa: RUF012


class Page(NamedTuple):
    """The rows of a page, when they were read, and their range; `is_last` in that range."""

    rows: list[RawRow]
    moment: Moment
    tokens: TokenRange
    is_last: bool


@dataclass
class SnapshotReader:
    """A reader at the chosen consistency level; `tells_elements`: the server returns write times of collection elements."""

    options: SnapshotOptions
    session: Session
    host_id: str
    tells_elements: bool

    @classmethod
    @contextmanager
    def connected(cls, options: SnapshotOptions) -> Iterator[SnapshotReader]:
        """Yield a reader; raises `TransientError` if no node answers, `UsageError` if a node refuses."""
        profile = ExecutionProfile(
            load_balancing_policy=DCAwareRoundRobinPolicy(),
            consistency_level=getattr(ConsistencyLevel, options.consistency),
            request_timeout=_PAGE_SECONDS,
            row_factory=tuple_factory,
        )
        # every version from 4.0 on supports V4, which has all that is needed
        cluster = cluster_at(options.host, options.port, options.account, profile, protocol_version=ProtocolVersion.V4)
        try:
            with cassandra_errors(options, "connecting"):
                session = cluster.connect()
                version = str(session.execute("SELECT release_version FROM system.local").one()[0])
                host_id = str(cluster.get_control_connection_host().host_id)
            session.client_protocol_handler = _RawHandler
            yield cls(options, session, host_id, int(version.split(".")[0]) >= _TELLS_ELEMENTS)
        finally:
            with suppress(Exception):
                cluster.shutdown()

    def ranges(self) -> list[TokenRange]:
        """Return the ranges of this snapshot: everything, or those whose first replica is its node."""
        if not self.options.own_ranges:
            return whole_ring()
        tokens = self.session.cluster.metadata.token_map
        owners = [(int(token.value), str(host.host_id)) for token, host in tokens.token_to_host_owner.items()]
        return primary_ranges(owners, self.host_id)

    def is_logged_whole(self, table: TableSchema) -> bool:
        """Return whether the table has had CDC since its creation, by the write times of its settings.
        Always False if the node deletes segments that nobody has read (`cdc_block_writes: false`).
        """
        if not self._blocks_writes():
            return False
        where, place = "WHERE keyspace_name = %s AND table_name = %s", (table.keyspace, table.name)
        with cassandra_errors(self.options, f"looking at {table.full_name}"):
            found = self.session.execute(f"SELECT WRITETIME(cdc), cdc FROM system_schema.tables {where}", place).one()
            columns = self.session.execute(f"SELECT kind, WRITETIME(kind) FROM system_schema.columns {where}", place)
            created = [written for kind, written in columns if kind == b"partition_key"]
        if found is None:
            # the log's part sets the table aside or refuses it
            raise TransientError(f"the cluster has no table {table.full_name}; correct the project file, or create the table")
        # CREATE TABLE writes all of it at one time, and no ALTER writes the keys again
        return found[1] == b"\x01" and found[0] is not None and created == [found[0]] * len(table.partition)

    def _blocks_writes(self) -> bool:
        """Return the node's `cdc_block_writes`; 4.0 has no such setting and always blocks."""
        text = "SELECT value FROM system_views.settings WHERE name = 'cdc_block_writes'"
        with cassandra_errors(self.options, "looking at settings"):
            try:
                found = self.session.execute(text).one()
            except InvalidRequest:
                return True
        return found is None or found[0] != b"false"

    def pages(self, selection: Selection, ranges: Iterable[TokenRange], stop: Event) -> Iterator[Page]:
        """Yield every page of these ranges in order; requests each page while the caller works on the one before."""
        wanted = iter(ranges)
        first = next(wanted, None)
        ahead = None if first is None else _Request.of(self, selection, first)
        begun, count = time.monotonic(), 0
        while ahead is not None and not stop.is_set():
            request = ahead
            rows = request.rows()
            following = request.tokens if request.paging_state is not None else next(wanted, None)
            ahead = None if following is None else _Request.of(self, selection, following, state=request.paging_state)
            moment = request.moment
            if rows and not moment.is_certain and selection.has_expiring(rows):
                rows, moment = self._reread(selection, request, rows)
            yield Page(rows, moment, request.tokens, request.paging_state is None)
            count += len(rows)
            if self.options.rows_per_second:
                stop.wait(max(0.0, begun + count / self.options.rows_per_second - time.monotonic()))

    def _reread(self, selection: Selection, request: _Request, rows: list[RawRow]) -> tuple[list[RawRow], Moment]:
        """Read a page again until that takes place within one second, so that the seconds left give each cell's expiry."""
        for _ in range(_REREADS):
            again = _Request.of(self, selection, request.tokens, state=request.begun_at)
            found = again.rows()
            if again.paging_state != request.paging_state:
                break  # rows came or went, but the next page is already requested
            if again.moment.is_certain or not found:
                return found, again.moment
        return rows, request.moment


@dataclass
class _Request:
    options: SnapshotOptions
    tokens: TokenRange
    begun_at: bytes | None
    future: ResponseFuture
    begun: float
    ended: float = 0.0
    paging_state: bytes | None = None
    moment: Moment = _NEVER

    @classmethod
    def of(cls, reader: SnapshotReader, selection: Selection, tokens: TokenRange, *, state: bytes | None = None) -> _Request:
        """Request a range's page that begins at `state`; None for the first."""
        statement = SimpleStatement(selection.over(tokens), fetch_size=reader.options.page_rows)
        begun = time.monotonic()
        with cassandra_errors(reader.options, f"reading {selection.table.full_name}"):
            future = reader.session.execute_async(statement, paging_state=state)
        made = cls(reader.options, tokens, state, future, begun)
        future.add_callbacks(made._note, made._note)
        return made

    def rows(self) -> list[RawRow]:
        """Wait for the rows, and note when they were read."""
        with cassandra_errors(self.options, "reading the snapshot"):
            found = self.future.result()
        self.paging_state = found.paging_state
        rows: list[RawRow] = list(found.current_rows)
        if rows:
            # the second in which the server began to read; certain if the first row falls into the same second
            clock, took = int.from_bytes(rows[0][1] or b"", "big"), ((self.ended or time.monotonic()) - self.begun) * 1000
            self.moment = Moment(clock // 1000, clock % 1000 >= took)
        return rows

    def _note(self, _: object) -> None:
        self.ended = self.ended or time.monotonic()


@contextmanager
def cassandra_errors(options: SnapshotOptions, doing: str) -> Iterator[None]:
    """Raise errors of a server, or of its absence, as `UsageError` or `TransientError` with what was being done."""
    where = f"{options.host}:{options.port}"
    try:
        yield
    except (Unauthorized, AuthenticationFailed) as error:
        raise UsageError(f"{where}: {doing}: {error}; {USER} and {PASSWORD} name an account that may SELECT") from error
    except InvalidRequest as error:
        # the project's schema will soon have a column that was just dropped or added
        raise TransientError(f"{where}: {doing}: {error}; does the project's schema match the cluster's?") from error
    except AWAY as error:
        hint = f"; is it up, are host, port and {TLS} right?" if doing == "connecting" else ""
        away = TransientError(f"{where}: {doing} at {options.consistency}: {message_of(error)}{hint}")
        raise (refused_by_tls(f"{where}: {doing}", error) or away) from error


def list_event(reader: SnapshotReader, table: TableSchema, key: ListRow, *, node: str, position: Position) -> tuple[bytes, int]:
    """Return an event that replaces a row's lists, and up to when (µs); a row that is gone loses its elements.
    The server must return write times of elements.
    """
    wanted = Role.REGULAR if key.row else Role.STATIC
    names = set(lists_of(table))
    columns = [column for column in table.columns if column.name in names and column.role is wanted]
    chosen = [Selected(column, 1 + 3 * number, has_times=True) for number, column in enumerate(columns)]
    row, moment = _read_row(reader, table, _select(table, key, chosen))
    until = moment.seconds * 1_000_000 - int(SETTLES_AFTER * 1_000_000)
    cells = [text for selected in chosen for text in replaced_list(selected, row, until, moment)]
    kind = f'"kind":"row","clustering":{key.row}' if key.row else '"kind":"static"'
    return event_of(table, key.part, [f'{{{kind},"cells":[{",".join(cells)}]}}'], node=node, position=position), until


def _read_row(reader: SnapshotReader, table: TableSchema, text: str) -> tuple[RawRow | None, Moment]:
    """Read the row within one second if possible, so that the seconds left give each cell's expiry."""
    for attempt in range(_REREADS):
        begun = time.time()
        with cassandra_errors(reader.options, f"reading lists of {table.full_name} again"):
            rows = list(reader.session.execute(SimpleStatement(text)))
        took = (time.time() - begun) * 1000
        if not rows:
            return None, Moment(int(begun))
        clock = int.from_bytes(rows[0][0] or b"", "big")
        if clock % 1000 >= took or attempt == _REREADS - 1:
            break
    return rows[0], Moment(clock // 1000)


def _select(table: TableSchema, key: ListRow, chosen: Sequence[Selected]) -> str:
    names = [quoted(selected.column.name) for selected in chosen]
    parts = ["toUnixTimestamp(now())", *(f"{name}, WRITETIME({name}), TTL({name})" for name in names)]
    values = json.loads(key.part) | (json.loads(key.row) if key.row else {})
    where = " AND ".join(f"{quoted(name)} = fromJson({_literal(value)})" for name, value in values.items())
    return f"SELECT {', '.join(parts)} FROM {quoted(table.keyspace, table.name)} WHERE {where} LIMIT 1"


def _literal(value: object) -> str:
    return "'" + json.dumps(value, ensure_ascii=False).replace("'", "''") + "'"
