"""Tables into events: whole, from where an earlier snapshot stopped, or only columns that came later."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from threading import Event
from typing import Any

from cdc_producers.metrics import Metrics
from cdc_producers.postgres.catalog import PostgresTable
from cdc_producers.postgres.connections import lsn_text
from cdc_producers.postgres.coverage import WHOLE, Covered, Landed, Reading
from cdc_producers.postgres.events import ChangePosition, PostgresEventWriter
from cdc_producers.postgres.marks import Marks
from cdc_producers.postgres.pgoutput import Begin, RelationColumn
from cdc_producers.postgres.shapes import Shapes
from cdc_producers.postgres.slots import ExportedSnapshot
from cdc_producers.postgres.snapshot import Part, greatest, read_rows, reading
from cdc_producers.postgres.values import BPCHAR, INT2, INT4, INT8, NUMERIC, TEXT, UUID, VARCHAR, TypeCatalog
from cdc_producers.source import Emit, Emitted
from cdc_views.landing import Position, exists
from cdc_views.landing.raw_table import last_read_keys
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget

_LAST_ORDER = (1 << 32) - 2
_SAMPLED_KEYS = 500
_PROGRESS_ROWS = 1000
_INTEGERS, _TEXTS = frozenset({INT2, INT4, INT8}), frozenset({TEXT, VARCHAR, BPCHAR, UUID, NUMERIC})
"""Types of keys that a raw table stores in a form PostgreSQL reads as the same value."""


@dataclass
class PostgresSnapshots:
    """Reads the tables of one slot; what it knows of them outlives a connection.

    Positions of snapshots are kept under the stream `SLOT:snapshot`, an LSN and a row's number there, `WHOLE` once all
    rows have landed; what they cover under `SLOT:columns`.
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
        """Return what has landed of a table's snapshots, or will from the queue."""
        if name in self._emitted:
            return self._emitted[name]
        target = self.targets[name]
        snapshot = target.lander(f"{self.slot}:snapshot").position()
        covered = target.lander(f"{self.slot}:columns").position()
        found = Landed(snapshot, None if covered is None else Covered.at(covered))
        if found.is_whole and covered is not None:
            self._emitted[name] = found
        return found

    def cover(self, table: PostgresTable, name: str, *, lsn: int, emit: Emit) -> None:
        """Take the table as it is for what its whole snapshot covered: one that an earlier version made did not say."""
        covered = Covered.by(table)
        emit(Emitted(name, f"{self.slot}:columns", covered.position(lsn)))
        self._emitted[name] = Landed(self.landed(name).snapshot, covered)

    def read(
        self, table: PostgresTable, name: str, wanted: Reading, *, snapshot: ExportedSnapshot, types: TypeCatalog,
        database: str, confirmed: int, emit: Emit, stop: Event,
    ) -> None:  # fmt: skip
        """Emit what is wanted of a table as it was at the snapshot.

        `confirmed` is where the slot is: from there on the table's changes come.
        """
        landed, target = self.landed(name), self.targets[name]
        names = _columns(table, target, wanted)
        writer = PostgresEventWriter(
            target.schema, table.namespace, table.name, database, self.slot, _described(table, names), types
        )
        why = f", {wanted.why}" if wanted.why else ""
        about = f"{name}: snapshot at {lsn_text(snapshot.lsn)}, about {table.about_rows:,} rows{why}"
        self.log.info(about, table=name, rows=table.about_rows)
        if wanted.empties:
            self._empty(name, writer, snapshot, emit)
        if wanted.empties or landed.snapshot is None:
            emit(self.marks.emitted(name, confirmed))
            self.shapes.note(name, table, lsn=snapshot.lsn, emit=emit)
        begun = _begun(table, wanted, landed)
        emit(Emitted(name, f"{self.slot}:columns", begun.position(snapshot.lsn)))
        # where the connection breaks before the end, it goes on from here, whether or not this has landed by then
        self._emitted[name] = Landed(Position(snapshot.lsn, 0), begun)
        with reading(snapshot) as connection:
            after = self._after(connection, table, target, landed) if wanted.resumes else None
            any_set = wanted.columns if wanted.only_set else ()
            parts = [Part(table, names, after, any_set, partition) for partition in wanted.partitions or ("",)]
            rows = chain.from_iterable(read_rows(connection, part) for part in parts)
            count = self._emit_rows(name, rows, writer, about=table.about_rows, lsn=snapshot.lsn, emit=emit, stop=stop)
        if stop.is_set():
            return
        covered = Covered.by(table)
        emit(Emitted(name, self._stream, Position(snapshot.lsn, WHOLE)))
        emit(Emitted(name, f"{self.slot}:columns", covered.position(snapshot.lsn)))
        self._emitted[name] = Landed(Position(snapshot.lsn, WHOLE), covered)
        rest = " that were left" if after is not None else ""
        self.log.info(f"{name}: snapshot: read all {count:,} rows{rest}", table=name, rows=count)

    @property
    def _stream(self) -> str:
        return f"{self.slot}:snapshot"

    def _empty(self, name: str, writer: PostgresEventWriter, snapshot: ExportedSnapshot, emit: Emit) -> None:
        """What the source lost meanwhile must not stay: just below the snapshot's rows everything goes."""
        place = ChangePosition(Begin(snapshot.lsn - 1, time.time_ns() // 1000, 0), _LAST_ORDER)
        emit(Emitted(name, self._stream, Position(snapshot.lsn, 0), writer.truncated(place)))

    def _emit_rows(
        self,
        name: str,
        rows: Iterator[Sequence[str | None]],
        writer: PostgresEventWriter,
        *,
        about: int,
        lsn: int,
        emit: Emit,
        stop: Event,
    ) -> int:
        micros, count = time.time_ns() // 1000, 0
        counted = self.metrics.snapshot_rows(name)
        try:
            for row in rows:
                if stop.is_set():
                    break
                count += 1
                emit(Emitted(name, self._stream, Position(lsn, count), writer.read(row, lsn=lsn, micros=micros)))
                counted.inc()
                if count % _PROGRESS_ROWS == 0:
                    self.progress(name, done=count, total=about or None)
        finally:
            self.progress(name, done=count, total=about or None, is_over=True)
        return count

    def _after(
        self, connection: Any, table: PostgresTable, target: StreamTarget, landed: Landed
    ) -> tuple[str | None, ...] | None:
        """Return the key that rows are left after, None where no raw table can tell.

        Rows landed in the order of the key, so whatever comes before one that landed has landed, too, as it was then;
        what changed since comes from the slot, which began before.
        """
        raw = target.lander(self._stream).raw
        if raw is None or landed.snapshot is None or not _can_resume(table, target) or not exists(raw):
            return None
        keys = last_read_keys(raw, position=landed.snapshot.at, names=table.primary_key, most=_SAMPLED_KEYS)
        return greatest(connection, table, [tuple(map(str, key)) for key in keys])


def _begun(table: PostgresTable, wanted: Reading, landed: Landed) -> Covered:
    """What is covered while the snapshot runs: of a table that is read whole no column yet, as it may never end."""
    if (wanted.columns or wanted.partitions) and landed.covered is not None:
        return landed.covered
    return Covered(table.number, 0)


def _can_resume(table: PostgresTable, target: StreamTarget) -> bool:
    types = {column.name: column.type_id for column in table.columns}
    keys = {column.name for column in target.schema.row_key}
    return bool(table.primary_key) and all(name in keys and types[name] in _INTEGERS | _TEXTS for name in table.primary_key)


def _columns(table: PostgresTable, target: StreamTarget, wanted: Reading) -> tuple[str, ...]:
    if not wanted.columns:
        return tuple(column.name for column in table.columns)
    keys = [column.name for column in target.schema.row_key]
    there = {column.name for column in table.columns}
    return tuple(name for name in dict.fromkeys([*table.primary_key, *keys, *wanted.columns]) if name in there)


def _described(table: PostgresTable, names: Sequence[str]) -> list[RelationColumn]:
    columns = {column.name: column for column in table.columns}
    return [RelationColumn(name, columns[name].type_id, columns[name].modifier, is_identity=False) for name in names]
