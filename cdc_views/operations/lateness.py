"""The lateness horizon of a table (rule M2): what its state may purge, and which facts landed too late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc_views.engines.base import Sources
from cdc_views.engines.snapshot import completed, readable
from cdc_views.model.schema import Column
from cdc_views.operations.context import TableContext
from cdc_views.operations.explained import FactPart
from cdc_views.plan import names
from cdc_views.plan.parts import Source
from cdc_views.rules.cells import Cell, Deletion, Liveness, unrank
from cdc_views.rules.codec.comparable import partition_identity
from cdc_views.rules.facts import Fact, FactKind, Origin
from cdc_views.rules.instants import SECONDS_OF, Instant, epoch_seconds
from cdc_views.state import Forgetting
from cdc_views.state.state_table import StateTable, checked, open_state
from cdc_views.storage.places import arrow_source
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.relation_read import facts_of, key_of
from cdc_views.storage.table_log import TableLog


@dataclass(frozen=True, slots=True)
class LatePart(FactPart):
    """One part of a fact that landed too late, at `landed_at` (µs since the epoch). `purged_through` is the largest write time
    that its partition has purged so far; `value` is a cell's native value, else None.
    """

    purged_through: int
    value: Any
    landed_at: int
    origin: Origin


def lateness_seconds(text: str) -> int:
    """Return the seconds of a validated `materialize.lateness`.

    >>> lateness_seconds("10d")
    864000
    """
    return int(text[:-1]) * SECONDS_OF[text[-1]]


def forgetting_of(table: TableContext, *, now: Instant | None = None) -> Forgetting:
    """Return what the table's state may forget at `now` (default: the clock); nothing without `materialize.lateness`."""
    lateness = table.config.materialize.lateness
    if lateness is None:
        return Forgetting()
    clock = epoch_seconds(datetime.now(timezone.utc) if now is None else now, option="now")
    return Forgetting(max(0, clock - lateness_seconds(lateness)))  # nothing ended at 0 or before


def state_of(table: TableContext) -> StateTable | None:
    """Return the table's state, None without one; raises `RawMismatchError` if it belongs to another raw table."""
    raw = TableLog.find(table.raw.location)
    if raw is None:
        return None
    state = checked(open_state(table.state_location, table.relation, raw=raw), raw)
    return None if state is None or state.raw_version is None else state


def late_of(table: TableContext) -> list[LatePart]:
    """See `Table.late`."""
    found: Iterable[LatePart] = ()
    if table.project.is_remote:
        with table.project.remote() as warehouse:
            late, purged = warehouse.late(table.config.slug, table.raw)
        found = _parts_of(table.relation, late, dict(_through(table.relation, purged)))
    elif state := state_of(table):
        found = late_parts(table.raw, state)
    return sorted(found, key=lambda part: (part.landed_at, part.written))


def late_parts(raw: RawTable, state: StateTable) -> Iterator[LatePart]:
    """Yield late parts fact by fact: the row marker, then the deletion, then cells in schema order."""
    purged = purged_through(raw.relation, state)
    for file in state.of(Source.LATE).paths:
        yield from _parts_of(raw.relation, _read(file), purged)


def _parts_of(relation: Relation, rows: pa.Table, purged: Mapping[tuple[bytes, ...], int]) -> Iterator[LatePart]:
    stored = completed(rows, relation)
    landed = stored["_landed_at"].cast(pa.int64()).to_pylist()
    row_key = [column.name for column in relation.schema.row_key]
    for fact, at in zip(facts_of(relation, stored), landed, strict=True):
        through = purged[_identity(relation, fact.partition)]
        key = dict(zip(row_key, fact.partition + fact.clustering, strict=False))
        for what, column, path, part in _parts(relation, fact):
            value = part.value if isinstance(part, Cell) else None
            yield LatePart(key, what, column, path, fact.start, fact.end, part.written, through, value, at, fact.origin)


def purged_through(relation: Relation, state: StateTable) -> dict[tuple[bytes, ...], int]:
    """Return the largest write time that each partition has purged, by the identity of its key (rule K1)."""
    return {known: at for file in state.of(Source.PURGED).paths for known, at in _through(relation, _read(file))}


def _through(relation: Relation, rows: pa.Table) -> Iterator[tuple[tuple[bytes, ...], int]]:
    for record in completed(rows, relation).to_pylist():
        yield _identity(relation, key_of(relation.schema.partition, record)), int(record[names.LIVE]["written"])


def sees_purged(sources: Sources, as_of: int) -> bool:
    """Return whether a read at `as_of` (epoch seconds) would still show cells that the state has purged."""
    until = latest_expiry(sources.paths(Source.PURGED))
    return until is not None and as_of < until


def latest_expiry(files: tuple[str, ...]) -> int | None:
    """Return when the last cell in these files of purged cells expired (epoch seconds); None if none had an expiry."""
    stored = (_read(file, [f"{names.LIVE}.rank"])[names.LIVE] for file in files)
    ranks = [rank for live in stored if (rank := pc.max(pc.struct_field(live, "rank")).as_py()) is not None]
    return unrank(max(ranks))[1] if ranks else None


def _read(file: str, columns: list[str] | None = None) -> pa.Table:
    with readable(file):
        return pq.ParquetFile(arrow_source(file)).read(columns=columns)


def _identity(relation: Relation, partition: tuple[Any, ...]) -> tuple[bytes, ...]:
    return tuple(partition_identity(c.type, v) for c, v in zip(relation.schema.partition, partition, strict=True))


def _parts(relation: Relation, fact: Fact) -> Iterator[tuple[str, Column | None, Any, Cell | Liveness | Deletion]]:
    if fact.liveness is not None:
        yield "row marker", None, None, fact.liveness
    if fact.deletion is not None:
        yield f"{FactKind(fact.kind).value} deletion", None, None, fact.deletion
    for column in relation.schema.statics + relation.schema.regulars:
        if column.name in fact.cells:
            cell = fact.cells[column.name]
            yield _what(cell), column, None, cell
        if column.name in fact.elements:
            elements = fact.elements[column.name]
            if elements.deletion is not None:
                yield "column deletion", column, None, elements.deletion
            for path, cell in elements.cells:
                yield _what(cell), column, path, cell


def _what(cell: Cell) -> str:
    return "tombstone" if cell.is_tombstone else "cell"
