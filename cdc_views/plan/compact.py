"""Raw facts → the facts of a state: every winner with its metadata, in the raw layout (rule M1).

For every split of raw into a and b, view(raw) = view(compact(a) + b). So nothing here reads a clock or drops a deletion. A
state has one fact per row key, partition with static cells, partition with a deletion, range tombstone, and truncated table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.model.types import Kind, LogicalType, Scalar, carries_comparable, carries_order_bytes, reads_from_bytes
from cdc_views.plan import names
from cdc_views.plan.expr import (
    Bucket,
    Call,
    Case,
    Each,
    Expr,
    IsEmpty,
    Item,
    Keep,
    Lit,
    Named,
    Op,
    Struct,
    any_of,
    col,
    cols,
    either,
    is_null,
    largest,
    maxima,
    not_null,
    when,
)
from cdc_views.plan.nodes import Aggregate, LatestCells, Node, Select, UnionAll, replaced
from cdc_views.plan.order import BYTES, RANK, VALUE, WRITTEN, is_eternal, is_tombstone, survives
from cdc_views.plan.parts import Part, Parts, Source
from cdc_views.plan.purge import PURGED_KIND, KnownBy, Purge, late_facts, without_ended
from cdc_views.plan.reduce import (
    Cells,
    attach,
    display_folds,
    reduce_partitions,
    reduce_rows,
    reduce_table,
    single_cells,
    stored_keys,
    with_elements,
)
from cdc_views.plan.reduction import Reduction
from cdc_views.plan.show import with_covers
from cdc_views.rules.facts import FactKind
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import Relation, element_value_type

PART = "_part"
"""The state's partition column: a part's value, then the first binary digits of the partition key's digest."""
FEWER_DIGITS = 2
"""The base has fewer other facts than plain rows, so it splits them by this many digits fewer."""
GROUP_DIGITS = 3
"""Every file of a base with at least as many digits is about buckets that share these, so that a group is rewritten alone."""

IS_PLAIN = "_is_plain"


class Step(Enum):
    """A commit of a state, which adds the compacted facts of its sources."""

    RUN = "run"
    """Appends the winners of new facts, or replaces runs by one."""
    MERGE = "merge"
    """Adds the rows of the base that newer facts touch, reduced with these, and hides their old versions."""
    BUCKETS = "buckets"
    """Rewrites some buckets of the base, without the rows that were hidden."""
    BASE = "base"
    """Writes a whole base."""


def compact(
    relation: Relation,
    *,
    digits: int,
    step: Step = Step.RUN,
    split: Parts | None = None,
    purge: Purge | None = None,
    late: KnownBy | None = None,
    prefix: str = "",
    with_table: bool = True,
) -> UnionAll:
    """Return the plan of one commit of a state, in the column order of `state_columns`.

    Args:
        relation: The layout of the facts.
        digits: The number of binary digits by which rows are split into buckets.
        step: `RUN`: the winners alone. `BASE`: all facts, with deletions applied. `MERGE`: the same for rows with newer facts.
            `BUCKETS`: the base's rows as they are.
        split: The parts of a state that has a base; its untouched rows stay as they are.
        purge: The parts of facts that a base leaves out.
        late: How to recognize late facts; None if there can be none.
        prefix: The value of `_part` before the digits; empty: the part's.
        with_table: Whether the facts about the whole table are among the rows; others count them in any case (S6).
    """
    request = Reduction(relation, payload=_whole, is_whole=True, split=split)
    # a merge leaves the base's deletions and statics where they are
    scoped = replace(request, others_from=Source.FRESH) if step is Step.MERGE else request
    of_keys = [*_statics(scoped), *_deletions(scoped), *([_tables(scoped)] if with_table else [])]
    parts = [*_kept_rows(request, step), *_rows(request, step), *of_keys]
    few = digits if step is Step.RUN else coarser(digits)
    others = [] if late is None else [_late(relation, late)]
    if purge is not None:
        # M2: a base that purges remembers, per partition, the newest write time that it purged
        parts, purged = without_ended(request, parts, purge)
        others.insert(0, _shaped(relation, purged, PURGED_KIND, part_of(relation, prefix=Part.PURGED.value, digits=few)))
    part = part_of(relation, prefix=prefix or (Part.RUN if step is Step.RUN else Part.BASE).value, digits=few)
    plain = None if step is Step.RUN else part_of(relation, prefix=Part.PLAIN.value, digits=digits)
    shaped = [_shaped(relation, node, kind.value, part, plain=plain) for kind, node in parts]
    return UnionAll("state", "fact of the state", (*shaped, *others))


def _late(relation: Relation, known_by: KnownBy) -> Select:
    """The facts in quarantine, as they landed (M2)."""
    found = late_facts(relation, known_by)
    return Select("late_of_state", found.grain, found, (*cols(found.output()), (PART, Lit(Part.LATE.value))))


def replaced_rows(relation: Relation, split: Parts) -> Node:
    """Return file and position of the base's rows that a merge replaces; a row may occur twice."""
    return Reduction(relation, is_whole=True, split=split).touched_rows_of_base()


def state_columns(relation: Relation) -> tuple[str, ...]:
    """Return the columns of the raw layout, and `_part`."""
    return (*relation.arrow_schema().names, PART)


def part_of(relation: Relation, *, prefix: str, digits: int) -> Bucket:
    """Return the bucket for `_part`: `prefix`, then the first `digits` binary digits of the partition key's digest."""
    keys = tuple((col(names.identity(c)), is_bytes(c)) for c in relation.schema.partition)
    return Bucket(keys, Lit(prefix), digits)


def coarser(digits: int) -> int:
    """Return the digits of a smaller set of facts, so that its files are not tiny; a group of buckets keeps files of its own."""
    return max(digits - FEWER_DIGITS, min(digits, GROUP_DIGITS))


def is_bytes(column: Column) -> bool:
    """Whether the identity of a partition column (rule K1) is stored as bytes."""
    return carries_comparable(column.type) or (isinstance(column.type, Scalar) and column.type.kind is Kind.BLOB)


def _whole(kind: LogicalType) -> tuple[str, ...]:
    return (VALUE, BYTES) if carries_order_bytes(kind) else (VALUE,)


def _shaped(relation: Relation, node: Node, kind: str, part: Bucket, *, plain: Bucket | None = None) -> Select:
    """The node's columns in the state's order, null if this kind of fact lacks them; plain rows get the bucket `plain`."""
    have = set(node.output())
    values: dict[str, Expr] = {name: col(name) if name in have else Lit(None) for name in state_columns(relation)}
    mine: Expr = part if kind != FactKind.TABLE.value else replace(part, keys=())
    if IS_PLAIN in have and plain is not None:
        mine = Case(((col(IS_PLAIN), plain),), part)
    values |= {names.KIND: Lit(kind), PART: mine}
    return Select(f"{node.name}_of_state", node.grain, node, tuple(values.items()))


def _kept_rows(request: Reduction, step: Step) -> list[tuple[FactKind, Node]]:
    """Untouched rows of the base, as they are, where it is written anew."""
    if request.split is None or step not in (Step.BASE, Step.BUCKETS):
        return []
    stored = cols(request.relation.arrow_schema().names)
    kept: list[tuple[FactKind, Node]] = []
    for place in request.split.places():
        columns = (*stored, (IS_PLAIN, Lit(place.is_plain)))
        rows = request.scan(f"kept_{place.label}_rows", kinds=[FactKind.ROW], columns=columns, source=place)
        kept.append((FactKind.ROW, request.untouched(rows)))
    return kept


def _rows(request: Reduction, step: Step) -> list[tuple[FactKind, Node]]:
    if request.split is not None and not request.split.has(Source.FRESH):
        return []  # without newer facts, every row of the base stays as it is
    rows = reduce_rows(request)
    if step is not Step.RUN:
        rows = _settled(request, rows)
    columns = (*_keys(rows), (names.LIVE, _cell(col(names.LIVE), None)), (names.DELETED, col(names.DELETED)))
    if step is Step.RUN:
        return [(FactKind.ROW, _columns_of(rows, request.schema.regulars, columns, name="row_state"))]
    shown = _columns_of(rows, request.schema.regulars, (*columns, (IS_PLAIN, _is_plain(request))), name="row_state")
    # D1: hidden cells never show again; a wider deletion is a fact of its own, so a row without parts may go
    says = any_of([names.LIVE, names.OWN_DELETED, *(physical_name(c.name) for c in request.schema.regulars)])
    return [(FactKind.ROW, replaced("rows_that_say_something", shown, {}, where=says))]


def _is_plain(request: Reduction) -> Expr:
    """Whether a settled row is *plain*: it exists at any time (W2), and each single cell has a value at any time or never.

    So no single cell expires (C4). Reads still judge elements. If a column is dropped, a plain row may cease to exist (W2, W6).
    """
    cells = [
        (col(name)[RANK], [not_null(col(name)[field]) for field in _whole(kind)])
        for column in request.schema.regulars
        for name, _, kind in single_cells(column, col(physical_name(column.name)))
    ]
    shows = [Call(Op.AND, (not_null(rank), is_eternal(rank), *values)) for rank, values in cells]
    marker = col(names.LIVE)[RANK]
    exists = either(not_null(marker) & is_eternal(marker), *shows)
    settled = [either(is_null(rank), is_tombstone(rank), shown) for (rank, _), shown in zip(cells, shows, strict=True)]
    return Call(Op.AND, (exists, *settled)) if settled else exists


def _settled(request: Reduction, rows: Node) -> Node:
    """Rows with the largest deletion that covers them (D2), without the cells that it (D1) or the column's own (D3) hides.

    Hidden cells never show again, because the deletion stays. `_own_deleted` is null if a wider deletion hides the row's own.
    """
    own: Expr = col(names.DELETED)
    mine = deleted = own
    # D2: deletions of partitions and ranges, S6: of the table
    partitions = reduce_partitions(request, with_statics=False)
    table = reduce_table(request) if request.relation.is_whole_row else None
    covered, covers = with_covers(request.schema, rows, partitions=partitions, table=table)
    if covers:
        columns = (*cols(rows.output()), (names.COVER, largest(*covers)))
        covered, cover = Select("covered_row_state", "row key", covered, columns), col(names.COVER)
        deleted, mine = largest(own, cover), when(survives(own[WRITTEN], cover[WRITTEN]), own)
    scope = deleted[WRITTEN]
    values: dict[str, Expr] = {name: col(name) for name in rows.output()}
    values |= {names.LIVE: _surviving(col(names.LIVE), scope), names.DELETED: deleted, names.OWN_DELETED: mine}
    for column in request.schema.regulars:
        values |= _surviving_cells(column, scope)
    return Select("settled_rows", "row key", covered, tuple(values.items()))


def _surviving(cell: Expr, scope: Expr) -> Expr:
    return when(survives(cell[WRITTEN], scope), cell)


def _surviving_cells(column: Column, scope: Expr) -> dict[str, Expr]:
    if not column.type.is_multicell:
        name = physical_name(column.name)
        return {name: _surviving(col(name), scope)}
    deletion = names.deletion_of(column.name)
    inner: Expr = largest(scope, col(deletion)[WRITTEN])
    values: dict[str, Expr] = {deletion: _surviving(col(deletion), scope)}
    if fields := names.cells(column):
        return values | {name: _surviving(col(name), inner) for name, _, _ in fields}
    cells = names.cells_of(column.name)
    left = Keep(col(cells), survives(Item()[WRITTEN], inner))
    return values | {cells: when(~IsEmpty(left), left)}


def _statics(request: Reduction) -> list[tuple[FactKind, Node]]:
    schema = request.schema
    if not schema.statics:
        return []
    keys = request.partition_keys()
    cells = Cells.of(request, schema.statics)
    columns = (*stored_keys(keys, schema.partition), *cells.inputs)
    source = request.facts("static_facts", kinds=[FactKind.STATIC], columns=columns)
    folds = (*display_folds(schema.partition, keys), *cells.folds)
    statics: Node = LatestCells("latest_statics", "partition", source, keys, cells.cells, folds)
    for column in with_elements(request, schema.statics):
        statics = attach(request, statics, column, keys=keys, kind=FactKind.STATIC)
    return [(FactKind.STATIC, _columns_of(statics, schema.statics, _keys(statics), name="static_state"))]


def _deletions(request: Reduction) -> Iterator[tuple[FactKind, Node]]:
    """Deletions of partitions and ranges; without clustering columns they are the rows' own (D2)."""
    keys, shown = request.partition_keys(), request.schema.partition
    for kind, bounds in ((FactKind.PARTITION, ()), (FactKind.RANGE, (names.FROM, names.TO))) if request.schema.clustering else ():
        columns = (*stored_keys(keys, shown), *cols(bounds), (names.DELETED, request.deletion(col(names.DELETED))))
        source = request.facts(f"{kind.value}_facts", kinds=[kind], columns=columns, where=not_null(col(names.DELETED)))
        folds = (*display_folds(shown, keys), *maxima(names.DELETED))
        yield kind, Aggregate(f"latest_{kind.value}s", kind.value, source, (*keys, *bounds), folds)


def _tables(request: Reduction) -> tuple[FactKind, Node]:
    """The table's deletion (S6). A group-by without keys returns a row even if there is no deletion."""
    source = request.facts("table_facts", kinds=[FactKind.TABLE], columns=cols([names.DELETED]))
    latest = Aggregate("latest_truncate", "table", source, (), maxima(names.DELETED))
    return FactKind.TABLE, replaced("table_state", latest, {}, where=not_null(col(names.DELETED)))


def _keys(node: Node) -> Named:
    ours = ("_key_", "_bytes_")
    return cols(name for name in node.output() if not name.startswith("_") or name.startswith(ours))


def _columns_of(node: Node, columns: tuple[Column, ...], kept: Named, *, name: str) -> Node:
    stored = {physical_name(column.name): _stored(column) for column in columns}
    if names.OWN_DELETED in node.output():
        stored[names.OWN_DELETED] = col(names.OWN_DELETED)
    return Select(name, node.grain, node, tuple({**dict(kept), **stored}.items()))


def _stored(column: Column) -> Expr:
    if not column.type.is_multicell:
        return _cell(col(physical_name(column.name)), column.type)
    deletion = col(names.deletion_of(column.name))
    cells: Expr
    if fields := names.cells(column):
        present = either(*(not_null(col(name)[WRITTEN]) for name, _, _ in fields))
        cells = when(present, Struct(tuple((field, _cell(col(name), kind)) for name, field, kind in fields)))
    else:
        elements = col(names.cells_of(column.name))
        present, cells = not_null(elements), Each(elements, _element(column.type))
    return when(either(not_null(deletion), present), Struct((("deletion", deletion), ("cells", cells))))


def _cell(cell: Expr, kind: LogicalType | None) -> Expr:
    """A winner as a raw cell; null if there is no cell (C5: absent is not a tombstone)."""
    fields = (WRITTEN, RANK) if kind is None else (WRITTEN, RANK, *_whole(kind))
    return when(not_null(cell[WRITTEN]), Struct(tuple((name, cell[name]) for name in fields)))


def _element(kind: LogicalType) -> Expr:
    path, value = path_type(kind), element_value_type(kind)
    fields = ["path", *["key"] * carries_comparable(path), *["path_bytes"] * reads_from_bytes(path), WRITTEN, RANK]
    fields += _whole(value) if value is not None else ()
    return Struct(tuple((name, Item()[name]) for name in fields))
