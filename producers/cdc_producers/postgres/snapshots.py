"""Reads rows from the tables: all rows, the rows that an earlier snapshot left, only some columns or partitions, or one row."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from threading import Event
from typing import Any

from psycopg import IsolationLevel

from cdc_producers.metrics import Metrics
from cdc_producers.postgres.catalog import PostgresColumn, PostgresTable
from cdc_producers.postgres.connections import connect, current_lsn, identifier, literal, lsn_text, postgres_errors, rows
from cdc_producers.postgres.events import ChangePosition, PostgresEventWriter
from cdc_producers.postgres.marks import Marks
from cdc_producers.postgres.messages import Begin, Field, Relation
from cdc_producers.postgres.shapes import Covered, Landed, Reading, Shapes
from cdc_producers.postgres.slots import ExportedSnapshot
from cdc_producers.postgres.values import BPCHAR, INT2, INT4, INT8, NUMERIC, TEXT, UUID, VARCHAR, TypeCatalog
from cdc_producers.row_log import CHUNK_ROWS, WHOLE, about, emit_rows, in_chunks
from cdc_producers.source import Emit, Emitted
from cdc_views.errors import EngineError, TransientError
from cdc_views.landing import Position, exists
from cdc_views.landing.raw_table import last_read_keys
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget

_SEEN_WITHIN = 10.0
"""Seconds; longer than the time from a commit's write to the log until others see it."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""Source: PostgreSQL 17, COPY, "Text Format"."""
_READING = "reading the snapshot"
_LAST_ORDER = (1 << 32) - 2
_SAMPLED_KEYS = 500
_COMPARABLE = frozenset({INT2, INT4, INT8, TEXT, VARCHAR, BPCHAR, UUID, NUMERIC})
"""Types of keys that a raw table stores in a form that PostgreSQL reads as the same value."""


@dataclass
class PostgresSnapshots:
    """Reads the tables of one slot; what it knows about them outlives a connection.

    The stream `SLOT:snapshot` has a snapshot's LSN and the number of the last row that landed, `WHOLE` once all rows have;
    `SLOT:columns` has what the snapshot covers.
    """

    slot: str
    targets: Mapping[str, StreamTarget]
    log: ProducerLog
    metrics: Metrics
    progress: SnapshotProgress
    marks: Marks
    shapes: Shapes
    _emitted: dict[str, Landed] = field(default_factory=dict)

    def landed(self, name: str) -> Landed:
        """Return what has landed of a table's snapshots, or will land from the queue."""
        if name in self._emitted:
            return self._emitted[name]
        target = self.targets[name]
        snapshot = target.lander(f"{self.slot}:snapshot").position()
        covered = target.lander(f"{self.slot}:columns").position()
        found = Landed(snapshot, None if covered is None else Covered.at(covered))
        if found.is_whole and covered is not None:
            self._emitted[name] = found
        return found

    def cover(self, table: PostgresTable, name: str, connection: Any, emit: Emit) -> None:
        """Note that a whole snapshot covers the table in its present form, if an earlier version read it without such a note."""
        landed = self.landed(name)
        if landed.is_whole and landed.covered is None:
            self._cover(name, landed.snapshot, Covered.by(table), lsn=current_lsn(connection), emit=emit)

    def _cover(self, name: str, snapshot: Position | None, covered: Covered, *, lsn: int, emit: Emit) -> None:
        emit(Emitted(name, f"{self.slot}:columns", covered.position(lsn)))
        self._emitted[name] = Landed(snapshot, covered)

    def read(
        self, table: PostgresTable, name: str, wanted: Reading, *, snapshot: ExportedSnapshot, types: TypeCatalog,
        database: str, confirmed: int, emit: Emit, stop: Event,
    ) -> None:  # fmt: skip
        """Emit what is wanted of a table as of the snapshot; its changes come from `confirmed` on, the slot's position."""
        landed, target = self.landed(name), self.targets[name]
        lsn, stream = snapshot.lsn, f"{self.slot}:snapshot"
        columns = _columns(table, target, wanted)
        names = tuple(column.name for column in columns)
        writer = PostgresEventWriter(target.schema, table.namespace, table.name, database, self.slot, columns, types)
        why = f", {wanted.why}" if wanted.why else ""
        told = f"{name}: snapshot at {lsn_text(lsn)}, {about(table.about_rows)}{why}"
        self.log.info(told, table=name, rows=table.about_rows)
        if wanted.empties:
            # rows that the source lost meanwhile must not stay: a TRUNCATE just below the snapshot's rows removes everything
            below = ChangePosition(Begin(lsn - 1, time.time_ns() // 1000, 0), _LAST_ORDER)
            emit(Emitted(name, stream, Position(lsn, 0), writer.event("t", below)))
        if wanted.empties or landed.snapshot is None:
            emit(self.marks.emitted(name, confirmed))
            self.shapes.note(name, table, lsn=lsn, emit=emit)
        # if the connection breaks before the end, the snapshot resumes from here, whether or not this has landed by then
        self._cover(name, Position(lsn, 0), _begun(table, wanted, landed), lsn=lsn, emit=emit)
        with reading(snapshot) as connection:
            after = self._after(connection, table, target, landed) if wanted.resumes else None
            any_set = wanted.columns if wanted.only_set else ()
            read = partial(read_rows, connection, table, names, after=after, any_set=any_set)
            found = chain.from_iterable(read(partition=partition) for partition in wanted.partitions or ("",))
            place = ChangePosition(Begin(lsn, time.time_ns() // 1000, 0), 0)
            events = (writer.event("r", place, after=row) for row in found)
            items = (Emitted(name, stream, Position(lsn, nth), event) for nth, event in enumerate(events, 1))
            count = emit_rows(name, items, table.about_rows, self.metrics, self.progress, emit=emit, stop=stop)
        if count is None:
            return
        emit(Emitted(name, stream, Position(lsn, WHOLE)))
        self._cover(name, Position(lsn, WHOLE), Covered.by(table), lsn=lsn, emit=emit)
        rest = " that were left" if after is not None else ""
        self.log.info(f"{name}: snapshot: read all {count:,} rows{rest}", table=name, rows=count)

    def _after(
        self, connection: Any, table: PostgresTable, target: StreamTarget, landed: Landed
    ) -> tuple[str | None, ...] | None:
        """Return the key after which rows are left to read, None if no raw table can tell.

        Rows land in the order of the key, so every row before a landed one has landed, too. The slot began earlier and has
        what changed since.
        """
        raw = target.lander(f"{self.slot}:snapshot").raw
        types = {column.name: column.type_id for column in table.columns}
        keys = {column.name for column in target.schema.row_key}
        can_resume = table.primary_key and all(name in keys and types[name] in _COMPARABLE for name in table.primary_key)
        if raw is None or landed.snapshot is None or not can_resume or not exists(raw):
            return None
        sampled = last_read_keys(raw, position=landed.snapshot.at, names=table.primary_key, most=_SAMPLED_KEYS)
        return greatest(connection, table, [tuple(map(str, key)) for key in sampled])


def _begun(table: PostgresTable, wanted: Reading, landed: Landed) -> Covered:
    """Return the coverage while a snapshot runs: no column of a table that is read whole, as the snapshot may never end."""
    if (wanted.columns or wanted.partitions) and landed.covered is not None:
        return landed.covered
    return Covered(table.number, 0)


def _columns(table: PostgresTable, target: StreamTarget, wanted: Reading) -> Sequence[PostgresColumn]:
    if not wanted.columns:
        return table.columns
    keys = [column.name for column in target.schema.row_key]
    there = {column.name: column for column in table.columns}
    return [there[name] for name in dict.fromkeys([*table.primary_key, *keys, *wanted.columns]) if name in there]


@contextmanager
def reading(snapshot: ExportedSnapshot) -> Iterator[Any]:
    """Open a connection that sees the database as of the snapshot."""
    with closing(connect()) as connection:
        connection.autocommit, connection.read_only = False, True
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        rows(connection, "SET TRANSACTION SNAPSHOT %s", (snapshot.name,), doing="taking the snapshot")
        yield connection


def read_rows(
    connection: Any, table: PostgresTable, names: Sequence[str], *, after: tuple[str | None, ...] | None = None,
    any_set: Sequence[str] = (), partition: str = "", chunk_rows: int = CHUNK_ROWS,
) -> Iterator[tuple[str | None, ...]]:  # fmt: skip
    """Return each row once, as printed, in the order of the primary key if there is one.

    `connection` sees the database as of a snapshot. `names` gives the order of the values and contains the primary key. Return
    only rows behind the key `after`, with one of `any_set` not null, in `partition` (SQL's form); None and empty: no limit.
    """
    key = table.primary_key
    text = f"SELECT {_listed(names)} FROM {partition or table.sql_rows}"
    if any_set:
        text += f" WHERE ({' OR '.join(f'{identifier(name)} IS NOT NULL' for name in any_set)})"
    if not key:
        yield from printed_rows(connection, text, doing=_READING)
        return
    places = [names.index(name) for name in key]

    def behind(last: tuple[str | None, ...] | None) -> Iterator[tuple[str | None, ...]]:
        from_here = ""
        if last is not None:
            from_here = f" {'AND' if any_set else 'WHERE'} ({_listed(key)}) > ({_literals(connection, last)})"
        return printed_rows(connection, f"{text}{from_here} ORDER BY {_listed(key)} LIMIT {chunk_rows}", doing=_READING)

    yield from in_chunks(behind, lambda row: tuple(row[i] for i in places), after=after, size=chunk_rows)


def greatest(connection: Any, table: PostgresTable, keys: Sequence[tuple[str, ...]]) -> tuple[str | None, ...] | None:
    """Return the last of these keys, in the order of the primary key, that the table has; None if it has none of them."""
    if not keys:
        return None
    key = _listed(table.primary_key)
    listed = ", ".join(f"({_literals(connection, one)})" for one in keys)
    descending = ", ".join(f"{identifier(name)} DESC" for name in table.primary_key)
    text = f"SELECT {key} FROM {table.sql_rows} WHERE ({key}) IN ({listed}) ORDER BY {descending} LIMIT 1"
    return next(printed_rows(connection, text, doing=_READING), None)


def reread(
    connection: Any, relation: Relation, key: Mapping[str, Field], names: Sequence[str], transaction: int
) -> dict[str, Field]:
    """Return columns of the row that has this key now, as printed; empty if the row, a column or the table is gone.

    The row may have been written or deleted since. That change comes later in the log and wins, so the view ends equal to the
    source. A row from before `transaction` would be wrong: the log may send a transaction before others see it.
    """
    _wait_until_seen(connection, transaction)
    table = f"{identifier(relation.namespace)}.{identifier(relation.name)}"
    try:
        with postgres_errors("reading a row again"):
            where = " AND ".join(f"{identifier(name)} = {literal(connection, value)}" for name, value in key.items())
            text = f"SELECT {_listed(names)} FROM {table} WHERE {where}"
            found = [*printed_rows(connection, text, doing="reading a row again")]
    except TransientError:
        raise
    except EngineError:
        return {}  # the table or a column is gone or another one by now
    return dict(zip(names, found[0], strict=True)) if found else {}


def _wait_until_seen(connection: Any, transaction: int) -> None:
    """Wait until a transaction holds no lock on its own number: it releases the lock once others see its changes."""
    text = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND transactionid::text = %s AND granted LIMIT 1"
    deadline = time.monotonic() + _SEEN_WITHIN
    while rows(connection, text, (str(transaction),), doing="waiting for a commit") and time.monotonic() < deadline:
        time.sleep(0.005)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(identifier, names))


def _literals(connection: Any, values: Sequence[str | None]) -> str:
    return ", ".join(literal(connection, value) for value in values)


def printed_rows(connection: Any, text: str, *, doing: str) -> Iterator[tuple[str | None, ...]]:
    """Return a query's rows, each value as the server prints it; only what libpq has received is in memory."""
    with postgres_errors(doing), connection.cursor() as cursor, cursor.copy(f"COPY ({text}) TO STDOUT") as lines:
        for received in lines:
            line = bytes(received).decode()
            found = line[:-1].split("\t")
            yield tuple(map(_unescaped, found) if "\\" in line else found)


def _unescaped(value: str) -> str | None:
    return None if value == "\\N" else _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value)
