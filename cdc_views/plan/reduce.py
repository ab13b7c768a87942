"""The first half of a plan: raw facts → one row per row key and one per partition, winners only.

The result has cells with their metadata, and deletions, as raw has. It does not depend on *now* and hides nothing, so reducing
it again changes nothing (rule M1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.model.types import LogicalType, carries_comparable, reads_from_bytes
from cdc_views.plan import names
from cdc_views.plan.expr import (
    Agg,
    Col,
    Expr,
    Fold,
    Item,
    Keep,
    Named,
    Struct,
    both,
    col,
    cols,
    equal,
    lists,
    maxima,
    not_null,
    when,
)
from cdc_views.plan.nodes import Aggregate, CellColumn, Explode, LatestCells, Node, Select, beside, noted
from cdc_views.plan.order import RANK, WRITTEN
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import cell_fields, element_value_type

_LATEST = "the latest cell of each column by write time, rank and value (C2)"
_LATEST_STATICS = "the latest cell of each static column (C2)"
_COVERS = "the time of its last deletion, and its deleted ranges (D2)"
_DELETIONS = "the latest marker and deletions (W1, D1)"
_LATEST_ELEMENT = "the latest cell of each element (C2, W4)"
_GATHERED = "the elements in the order of their paths (W4)"


def reduce_rows(request: Reduction) -> Node:
    """Return one row per row key: the winners of `_live` and of every regular column, and the largest deletions."""
    rows: Node = reduce_single_cells(request)
    for column in with_elements(request, request.schema.regulars):
        # W4: each element of a list, set or map has a winner of its own
        rows = attach(request, rows, column, keys=request.row_keys(), kind=FactKind.ROW)
    return rows


def reduce_single_cells(request: Reduction) -> LatestCells:
    """Return `reduce_rows` without the elements of lists, sets and maps."""
    schema = request.schema
    simple = Cells.of(request, schema.regulars)
    keys = request.row_keys()
    live = CellColumn(names.LIVE, col(names.LIVE), None, (), (WRITTEN, RANK))  # W1: markers compare like cells without a value
    own = ((names.LIVE, request.written_in_time(col(names.LIVE))), (names.DELETED, request.deletion(col(names.DELETED))))
    columns = (*stored_keys(keys, schema.row_key), *own, *simple.inputs)
    source = request.facts("row_facts", kinds=request.row_kinds, columns=columns)
    # D2: the largest deletion counts
    folds = (*display_folds(schema.row_key, keys), *maxima(names.DELETED), *simple.folds)
    cells = (live, *simple.cells)
    return LatestCells(
        "latest_rows",
        "row key",
        source,
        keys,
        cells,
        folds,
        notes=noted(_LATEST if simple.cells else _DELETIONS, identified(schema.row_key)),
    )


def reduce_partitions(request: Reduction, *, with_statics: bool = True) -> Node | None:
    """Return one row per partition: the winners of its static columns, its largest deletion, all its range tombstones.

    None without clustering columns: such a table has no statics or ranges, and `reduce_rows` reduces its deletions.
    """
    schema = request.schema
    if not schema.clustering:
        return None
    statics = schema.statics if with_statics else ()
    cells = Cells.of(request, statics)
    keys = request.partition_keys()
    kinds = [FactKind.PARTITION, FactKind.RANGE] + ([FactKind.STATIC] if statics else [])
    deleted = request.deletion(col(names.DELETED))
    ranges = when(is_of(FactKind.RANGE) & not_null(deleted), range_of(deleted))
    covers = ((names.PARTITION_DELETED, when(is_of(FactKind.PARTITION), deleted)), (names.RANGES, ranges))
    columns = (*stored_keys(keys, schema.partition), *covers, *cells.inputs)
    source = request.facts("partition_facts", kinds=kinds, columns=columns)
    # D2: which ranges cover a row depends on the row, so keep all
    folds = (*display_folds(schema.partition, keys), *maxima(names.PARTITION_DELETED), *lists(names.RANGES), *cells.folds)
    notes = noted(_LATEST_STATICS if cells.cells else "", _COVERS, identified(schema.partition))
    partitions: Node = LatestCells("latest_partitions", "partition", source, keys, cells.cells, folds, notes=notes)
    for column in with_elements(request, statics):
        partitions = attach(request, partitions, column, keys=keys, kind=FactKind.STATIC)
    return partitions


def reduce_table(request: Reduction) -> Node:
    """Return one row: the largest deletion of the whole table (rule S6), or null."""
    deleted = (names.TABLE_DELETED, request.deletion(col(names.DELETED)))
    source = request.facts("table_facts", kinds=[FactKind.TABLE], columns=(deleted,))
    return Aggregate("latest_table", "table", source, (), maxima(names.TABLE_DELETED), notes=noted("the last truncate"))


def is_of(kind: FactKind) -> Expr:
    """Return whether a fact is of that kind."""
    return equal(col(names.KIND), kind.value)


def range_of(deleted: Expr) -> Expr:
    """Return a range tombstone: its deletion and its bounds."""
    return Struct(((WRITTEN, deleted), (names.FROM, col(names.FROM)), (names.TO, col(names.TO))))


def displayed(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Return the columns that show key columns."""
    return tuple(name for c in columns for name in names.shown_as(c))


def stored_keys(keys: tuple[str, ...], columns: tuple[Column, ...]) -> Named:
    """Return `keys` and the columns that show the key columns."""
    return cols(dict.fromkeys(keys + displayed(columns)))


def display_folds(columns: tuple[Column, ...], keys: tuple[str, ...]) -> Named:
    """Return the least spelling of each key: equal keys may differ in bytes (decimal 1.0 and 1.00, rule K1)."""
    return tuple((name, Agg(Fold.MIN, col(name))) for name in displayed(columns) if name not in keys)


def identified(columns: tuple[Column, ...]) -> str:
    """Return what a comment says of the bytes that identify keys; empty if their values do."""
    found = [names.identity(c) for c in columns if names.identity(c) != physical_name(c.name)]
    return f"{', '.join(found)}: bytes that are equal exactly where keys are (K1)" if found else ""


@dataclass(frozen=True, slots=True)
class Cells:
    """The non-key columns of one role in a reduction: scan inputs, cells to reduce, deletions to fold."""

    inputs: Named
    cells: tuple[CellColumn, ...]
    folds: Named

    @classmethod
    def of(cls, request: Reduction, columns: tuple[Column, ...]) -> Cells:
        """Return the parts of a reduction for `columns`."""
        inputs: list[tuple[str, Expr]] = []
        cells: list[CellColumn] = []
        folds: list[tuple[str, Expr]] = []
        for column in request.reducible(columns):
            stored = col(physical_name(column.name))
            if column.type.is_multicell:
                # D3: the column has deletions of its own; the largest counts
                name = names.deletion_of(column.name)
                inputs.append((name, request.deletion(stored["deletion"])))
                folds += maxima(name)
            for name, cell, kind in single_cells(column, stored):
                inputs.append((name, request.cell(column, cell)))
                cells.append(replace(request.reduced(name, column, cell=col(name), kind=kind), stored=cell_fields(kind)))
        return cls(tuple(inputs), tuple(cells), tuple(folds))


def single_cells(column: Column, stored: Col) -> Iterator[tuple[str, Expr, LogicalType]]:
    """Yield (plan column, cell, value type) for a simple column, or for each field of a multi-cell user type."""
    for name, field, kind in names.cells(column):
        yield name, stored["cells"][field] if field else stored, kind


def with_elements(request: Reduction, columns: tuple[Column, ...]) -> list[Column]:
    """Return the lists, sets and maps of `columns`, which store arrays of elements."""
    return [c for c in request.reducible(columns) if not names.cells(c)]


def path_key(column: Column) -> str:
    """Return the field of an element that identifies and orders paths (rules K1, K2)."""
    return "key" if carries_comparable(path_type(column.type)) else "path"


def attach(request: Reduction, owners: Node, column: Column, *, keys: tuple[str, ...], kind: FactKind) -> Node:
    """Join the reduced elements of one multi-cell column, sorted by path (rule W4), to `owners`.

    Elements have their own group-by: an array aggregate beside the simple columns makes both slow.
    """
    cells = names.cells_of(column.name)
    elements = reduced_elements(request, column, keys=keys, kind=kind)
    lists_of = ((cells, collected(request, column)),)
    gathered = Aggregate(f"{cells[1:]}", f"{owners.grain} with elements", elements, keys, lists_of, notes=noted(_GATHERED))
    name, on = f"{owners.name}_with_{physical_name(column.name)}", request.identities(kind)
    with_elements = beside(name, owners, gathered, on)
    return replace(with_elements, is_null_safe=kind is FactKind.ROW, notes=noted(f"with the elements of {column.name} (W4)"))


def reduced_elements(request: Reduction, column: Column, *, keys: tuple[str, ...], kind: FactKind) -> LatestCells:
    """Return the winner `_cell` of each path (`_path_key`) of one multi-cell column, and the path itself."""
    stored, base = col(physical_name(column.name)), physical_name(column.name)
    array = kept_elements(request, column, stored["cells"])
    columns = (*cols(keys), (base, array))
    source = request.facts(f"{base}_facts", kinds=[kind], columns=columns, where=not_null(stored))
    exploded = Explode(f"{base}_elements", "element of a fact (W4)", source, keys, col(base), names.ELEMENT)
    element, paths = col(names.ELEMENT), _shown_paths(column)
    shown = tuple((f"_{name}", element[name]) for name in paths)
    columns = (*cols(keys), (names.PATH_KEY, element[path_key(column)]), *shown, (names.ELEMENT, element))
    flat = Select(
        f"{base}_paths",
        "element of a fact",
        exploded,
        columns,
        notes=noted(f"_path_key identifies and orders a row's elements{', _path shows them' if paths else ''} (W4, K1)"),
    )
    value = element_value_type(column.type)
    fields = cell_fields(value) if value is not None else (WRITTEN, RANK)
    latest = replace(request.reduced("_cell", column, cell=element, kind=value), stored=fields, is_bare=False)
    folds = tuple((f"_{name}", Agg(Fold.MIN, col(f"_{name}"))) for name in paths)
    grain, by_path = f"{'row key' if kind is FactKind.ROW else 'partition'} and path", (*keys, names.PATH_KEY)
    return LatestCells(f"latest_{base}_elements", grain, flat, by_path, (latest,), folds, notes=noted(_LATEST_ELEMENT))


def kept_elements(request: Reduction, column: Column, array: Expr) -> Expr:
    """Return the elements that count: written after the column's drop (W6), and no later than `written_as_of`."""
    written, dropped_at = Item()[WRITTEN], request.drop_time(column)
    where = both(request.in_time(written), written > dropped_at if dropped_at is not None else None)
    return Keep(array, where) if where is not None else array


def _shown_paths(column: Column) -> tuple[str, ...]:
    """The fields of an element that show its path if `key` cannot."""
    if path_key(column) == "path":
        return ()
    return ("path", "path_bytes") if reads_from_bytes(path_type(column.type)) else ("path",)


def collected(request: Reduction, column: Column) -> Expr:
    """Return an array of struct(key, path[, path_bytes], written, rank[, value | bytes]), ordered by key."""
    cell = col("_cell")
    paths = [(name, col(f"_{name}")) for name in _shown_paths(column)] or [("path", col(names.PATH_KEY))]
    payload = request.reduced("_cell", column, cell=cell, kind=element_value_type(column.type)).payload
    fields = ((name, cell[name]) for name in (WRITTEN, RANK, *payload))
    return Agg(Fold.COLLECT, Struct((("key", col(names.PATH_KEY)), *paths, *fields)))
