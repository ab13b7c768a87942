"""The cell facts that only some nodes have shown, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cdc_views.operations.explained import FactPart
from cdc_views.operations.replication.counting import Reader
from cdc_views.operations.replication.places import CellStructs
from cdc_views.operations.replication.statements import NODES, OWNERS, field_name
from cdc_views.plan import names
from cdc_views.plan.order import RANK, WRITTEN
from cdc_views.rules.cells import unrank
from cdc_views.rules.facts import FactKind
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation_read import Record, bound_of, key_of, path_of


@dataclass(frozen=True, slots=True)
class PartialFact(FactPart):
    """A cell fact that not every node has shown; write times are µs."""

    nodes: tuple[str, ...]
    """Those that have shown it, by name."""
    lacking: tuple[str, ...]
    """Those that should hold it and have not, by name."""


def partial_facts(
    reader: Reader, *, fewer_than: int | None = None, only_on: str | None = None, known: tuple[str, ...], factor: int
) -> Iterator[PartialFact]:
    """Yield facts seen on `fewer_than` so many nodes, or on `only_on` alone; closes the reader at the end.

    Goes place by place (markers, deletions, columns in schema order), in each in the order of keys.
    """
    with_owners = len(known) > factor
    with reader:
        for place in reader.places():
            sql = reader.statements.listing(place, fewer_than=fewer_than, only_on=only_on, with_owners=with_owners)
            for batch in reader.rows(sql).to_batches(max_chunksize=10_000):
                for record in batch.to_pylist():
                    yield _fact(reader, place, record, known)


def _fact(reader: Reader, place: CellStructs, record: Record, known: tuple[str, ...]) -> PartialFact:
    relation = reader.raw.relation
    schema = relation.schema
    columns = schema.row_key if place.kind is FactKind.ROW else schema.partition
    start, end = record.get(names.FROM), record.get(names.TO)
    nodes = reader.members(record[NODES])
    owners = reader.members(record[OWNERS]) if OWNERS in record else known
    path: Any = place.field
    if place.column is not None and place.is_array:
        path = path_of(path_type(place.column.type), {name: record[field_name(name)] for name in place.fields})
    return PartialFact(
        dict(zip((column.name for column in columns), key_of(columns, record), strict=True)),
        _what(place, record),
        place.column,
        path,
        None if start is None else bound_of(relation, start),
        None if end is None else bound_of(relation, end),
        int(record[field_name(WRITTEN)]),
        nodes,
        tuple(node for node in owners if node not in nodes),
    )


def _what(place: CellStructs, record: Record) -> str:
    rank = record.get(field_name(RANK))
    if rank is None:
        return "column deletion" if place.column is not None else f"{place.kind.value} deletion"
    if place.column is None:
        return "row marker"
    return "cell" if unrank(rank)[2] is None else "tombstone"
