"""Follows a raw table: yields its facts as JSON texts as they land, commit by commit; without an engine or a JVM. Reads files in
the order they were added. It repeats facts that `OPTIMIZE` rewrites only if it had not read them yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.landing import raw_log
from cdc_views.landing.delta import delta_errors
from cdc_views.model.schema import Column
from cdc_views.model.types import LogicalType, Udt
from cdc_views.operations.context import TableContext
from cdc_views.operations.explained import json_object
from cdc_views.operations.ingest import adapted
from cdc_views.rules.cells import Cell, Deletion
from cdc_views.rules.codec.jsontext import quote, to_json
from cdc_views.rules.facts import Bound, Elements, Fact
from cdc_views.rules.oracle import path_type
from cdc_views.state.tail import tail_of
from cdc_views.storage.places import arrow_source
from cdc_views.storage.relation import Relation, element_value_type
from cdc_views.storage.relation_read import facts_of
from cdc_views.storage.table_log import TableLog

BEFORE_ALL = -1


@dataclass(frozen=True, slots=True)
class LandedFacts:
    """The new facts up to a version of a raw table: one JSON object per fact, read lazily; `note`: why some may be missing."""

    version: int
    lines: Iterator[str]
    note: str = ""


def current_version(table: TableContext) -> int:
    """Return the raw table's version, `BEFORE_ALL` if nothing has landed."""
    raw = _opened(table)
    return BEFORE_ALL if raw is None else raw.version


def landed_after(table: TableContext, version: int) -> LandedFacts:
    """Return the facts that landed after a version of the raw table."""
    raw = _opened(table)
    if raw is None:
        return LandedFacts(BEFORE_ALL, iter(()))
    if version == BEFORE_ALL:
        return LandedFacts(raw.version, _lines(table.relation, raw.location, _by_age(raw)))
    tail = tail_of(raw, after=version)
    note = f"{table.name}: {tail.rebuild}; what landed meanwhile may be missing here" if tail.rebuild else ""
    mine = set(tail.files)
    return LandedFacts(tail.version, _lines(table.relation, raw.location, (path for path in _by_age(raw) if path in mine)), note)


def _opened(table: TableContext) -> TableLog | None:
    table.project.check_raw_tables_are_local()
    adapted(table)
    return raw_log(table.raw)


def _by_age(raw: TableLog) -> list[str]:
    return [file.at(raw.location) for file in sorted(raw.added.values(), key=lambda file: (file.modified, file.path))]


def _lines(relation: Relation, location: str, files: Iterable[str]) -> Iterator[str]:
    wanted = set(relation.arrow_schema().names)
    for path in files:
        with delta_errors(location), pq.ParquetFile(arrow_source(path)) as file:
            columns = [name for name in file.schema_arrow.names if name in wanted]
            for rows in map(pa.Table.from_batches, ([batch] for batch in file.iter_batches(10_000, columns=columns))):
                for fact, landed_at in zip(facts_of(relation, rows), rows.column("_landed_at").to_pylist(), strict=True):
                    yield _fact_text(relation, fact, landed_at)


def _fact_text(relation: Relation, fact: Fact, landed_at: datetime | None) -> str:
    schema = relation.schema
    members: list[tuple[str, str]] = [("table", quote(schema.full_name)), ("kind", quote(fact.kind.value))]
    key = [*_named(schema.partition, fact.partition), *_named(schema.clustering, fact.clustering)]
    if key:
        members.append(("key", json_object(key)))
    if live := fact.liveness:
        members.append(("live", json_object(_numbers(written=live.written, ttl=live.ttl, expires_at=live.expires_at))))
    members += [("deleted", _deletion(fact.deletion))] if fact.deletion else []
    members += [(name, _bound(schema.clustering, end)) for name, end in (("from", fact.start), ("to", fact.end)) if end]
    cells = [(name, _cell(schema.column(name).type, cell)) for name, cell in fact.cells.items()]
    cells += [(name, _elements(schema.column(name).type, elements)) for name, elements in fact.elements.items()]
    members += [("cells", json_object(cells))] if cells else []
    origin = fact.origin
    places = [("node", quote(origin.node)), ("segment", quote(origin.segment)), ("position", str(origin.position))]
    members.append(("origin", json_object(places)))
    if landed_at is not None:
        members.append(("landed_at", quote(landed_at.isoformat(timespec="microseconds").replace("+00:00", "Z"))))
    return json_object(members)


def _named(columns: Iterable[Column], values: Iterable[Any]) -> list[tuple[str, str]]:
    return [(column.name, to_json(column.type, value)) for column, value in zip(columns, values, strict=False)]


def _numbers(**members: int | None) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in members.items() if value is not None]


def _deletion(deletion: Deletion) -> str:
    return json_object(_numbers(written=deletion.written, deleted_at=deletion.deleted_at))


def _bound(clustering: Iterable[Column], bound: Bound) -> str:
    is_inclusive = "true" if bound.inclusive else "false"
    return json_object([("clustering", json_object(_named(clustering, bound.prefix))), ("inclusive", is_inclusive)])


def _cell(kind: LogicalType | None, cell: Cell) -> str:
    """Return one cell; `kind` is None for a set's element, whose value is its path."""
    members = _numbers(written=cell.written, ttl=cell.ttl, expires_at=cell.expires_at, deleted_at=cell.deleted_at)
    if kind is not None and cell.deleted_at is None:
        members.append(("value", to_json(kind, cell.value)))
    return json_object(members)


def _elements(kind: LogicalType, elements: Elements) -> str:
    members = [("deletion", _deletion(elements.deletion))] if elements.deletion else []
    cells = []
    for path, cell in elements.cells:
        if isinstance(kind, Udt):
            place, value = quote(path), kind.field_type(path)
        else:
            place, value = to_json(path_type(kind), path), element_value_type(kind)
        cells.append(f'{{"path": {place}, {_cell(value, cell)[1:]}')
    return json_object([*members, ("cells", f"[{', '.join(cells)}]")])
