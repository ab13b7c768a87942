"""Schema + raw relation + what is asked → the plan of a view or a query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Flag, auto

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.plan import names
from cdc_views.plan.expr import Call, Expr, Field, Lit, Named, Op, UserSql, col, columns_used
from cdc_views.plan.history import versions
from cdc_views.plan.newer import rows_by_cell, shows_by_cell
from cdc_views.plan.nodes import Node, Ordered, Select, UnionAll
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.parts import LEVELS, Parts, Source
from cdc_views.plan.reduce import (
    displayed,
    kept_elements,
    reduce_partitions,
    reduce_rows,
    reduce_table,
    single_cells,
    with_elements,
)
from cdc_views.plan.reduction import Reduction
from cdc_views.plan.representation import Representation, exact_key, exact_name
from cdc_views.plan.show import Showing, show
from cdc_views.plan.split import is_touched, untouched
from cdc_views.plan.timeline import Timeline
from cdc_views.plan.where import on_partition
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation


class Tells(Flag):
    """Columns of a view's rows that a user does not see."""

    NOTHING = 0
    EXPIRY = auto()
    """When expiry next changes the row (`plan.order`), and what identifies its partition."""
    IDENTITY = auto()
    """What identifies the row, and whether it is one (rule W3)."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of a merged table.

    `as_of` None means the engine's clock at each read (rule M3). `columns` are user names in order, empty for all;
    `where` is a parsed user expression over physical column names. `is_exact` asks for what `query` prints instead
    of a view's friendly types; `is_ordered` for the order `query` prints in.
    `split` has the parts of a state with a base; `tells` asks for further columns.
    """

    relation: Relation
    as_of: int | None = None
    columns: tuple[str, ...] = ()
    where: UserSql | None = None
    limit: int | None = None
    landed_as_of: int | None = None
    written_as_of: int | None = None
    is_exact: bool = False
    is_ordered: bool = False
    split: Parts | None = None
    tells: Tells = Tells.NOTHING
    is_history: bool = False
    """One row per version of a row, up to `as_of`, with what it is valid from and to."""


def build(ask: Ask, *, joins_fully: bool = False) -> Node:
    """Return the plan; its output columns are physical names (or exact ones), see `output_names`.

    `joins_fully`: prefer full joins. They are faster in an engine that moves no rows for them, but a condition on keys does
    not reach the files below them, so `where` rules them out.

    Raises `UnknownColumnError` for a column the table does not have.
    """
    schema = ask.relation.shown
    asked = tuple(schema.column(name) for name in ask.columns) or schema.columns
    tested = _tested(ask)
    needed = tuple(c for c in schema.columns if c in asked or c in tested)
    representation = Representation(is_friendly=not ask.is_exact or bool(tested), is_exact=ask.is_exact)
    if ask.is_history:
        shown = _versions(ask, needed, representation)
    else:
        shown = _shown(ask, needed, representation, joins_fully=joins_fully and ask.where is None)
    return _finished(ask, shown, asked=asked)


def _tested(ask: Ask) -> tuple[Column, ...]:
    """The columns that `where` reads."""
    if ask.where is None:
        return ()
    used = {c.name for c in columns_used(ask.where)}
    return tuple(c for c in ask.relation.shown.columns if (names.view_key(c) if c.is_key else physical_name(c.name)) in used)


def _shown(ask: Ask, needed: tuple[Column, ...], representation: Representation, *, joins_fully: bool) -> Node:
    reduction = Reduction(
        ask.relation,
        wanted=frozenset(c.name for c in needed),
        payload=representation.payload,
        landed_as_of=ask.landed_as_of,
        written_as_of=ask.written_as_of,
        partition_where=on_partition(ask.relation.schema, ask.where) if ask.where is not None else None,
        skips_unwanted=ask.relation.is_whole_row,  # S1: its rows exist by their markers alone
        split=ask.split,
    )
    now: Expr = Call(Op.NOW) if ask.as_of is None else Lit(ask.as_of)
    showing = Showing(ask.relation, needed, now, representation, tells_expiry=Tells.EXPIRY in ask.tells)
    if reduction.split is not None and shows_by_cell(showing, reduction, joins_fully=joins_fully):
        without_fresh = replace(reduction, split=reduction.split.without(*Source.FRESH.value))
        telling = replace(showing, tells_parts=True)
        return rows_by_cell(telling, reduction, _untouched(telling, without_fresh), joins_fully=joins_fully)
    table = reduce_table(reduction) if ask.relation.is_whole_row else None  # S6
    parts = _untouched(showing, reduction)
    if not parts or is_touched(reduction):
        parts.insert(0, show(showing, rows=reduce_rows(reduction), partitions=_partitions(reduction), table=table))
    return parts[0] if len(parts) == 1 else UnionAll("touched_and_untouched", parts[0].grain, tuple(parts))


def _partitions(reduction: Reduction) -> Node | None:
    """What covers more than a row; None where the footers of state and tail say that they hold no such fact."""
    split = reduction.split
    has_none = split is not None and not split.of(Source.ALL).statistics.has_scopes
    return None if has_none and not reduction.schema.statics else reduce_partitions(reduction)


def _untouched(showing: Showing, reduction: Reduction) -> list[Node]:
    """Rows of a state's base that show without being reduced again: all deletions were applied to them."""
    if reduction.split is None:
        return []
    settled = replace(showing, is_settled=True)
    parts: list[Node] = []
    for level, of_level in LEVELS.items():
        shown: list[Node] = []
        for place in filter(reduction.split.has, of_level):
            part = replace(settled, is_plain=place.is_plain)
            # shown before they are joined: Spark reads all of a struct that it takes through a join
            shown.append(show(part, rows=_stored_rows(reduction, place), partitions=None, table=None))
        if shown:
            # joined together: what they are joined with is read once; Spark joins each, and sends it to its workers once
            rows = UnionAll(level, shown[0].grain, tuple(shown)) if shown[1:] else shown[0]
            left = untouched(reduction, rows, of_level[0])
            parts += shown if left is rows else [left]
    return parts


def _stored_rows(request: Reduction, source: Source) -> Node:
    """Return the rows of a part of the base or overlay, touched or not, in the columns of `reduce_rows`."""
    return request.scan(f"{source.label}_rows", kinds=[FactKind.ROW], columns=_stored_columns(request), source=source)


def _stored_columns(request: Reduction) -> Named:
    schema = request.schema
    keys = dict.fromkeys(request.row_keys() + displayed(schema.row_key))
    return (
        *((key, col(key)) for key in keys),
        (names.LIVE, col(names.LIVE)),
        (names.DELETED, Field(col(names.DELETED), WRITTEN)),
        *_stored_cells(request),
    )


def _stored_cells(request: Reduction) -> Named:
    # W3: rows have no static cells; these columns are null, but have their types
    columns: list[tuple[str, Expr]] = []
    for column in request.reducible(request.schema.regulars + request.schema.statics):
        stored = col(physical_name(column.name))
        columns += [(name, request.cell(column, cell)) for name, cell, _ in single_cells(column, stored)]
        if column.type.is_multicell:
            columns.append((names.deletion_of(column.name), Field(Field(stored, "deletion"), WRITTEN)))
    for column in with_elements(request, request.schema.regulars + request.schema.statics):
        elements = kept_elements(request, column, Field(col(physical_name(column.name)), "cells"))
        columns.append((names.cells_of(column.name), elements))
    return tuple(columns)


def _versions(ask: Ask, needed: tuple[Column, ...], representation: Representation) -> Node:
    assert ask.as_of is not None, "a history ends at an instant"
    request = Timeline(
        ask.relation,
        wanted=frozenset(c.name for c in needed),
        payload=representation.payload,
        landed_as_of=ask.landed_as_of,
        written_as_of=ask.written_as_of,
        partition_where=on_partition(ask.relation.schema, ask.where) if ask.where is not None else None,
        skips_unwanted=ask.relation.is_whole_row,
        as_of=ask.as_of,
    )
    return versions(request, Showing(ask.relation, needed, col(names.CLOCK), representation))


def output_names(ask: Ask) -> tuple[tuple[str, str], ...]:
    """Return (user name, output column of `build`) for each column asked for, in order."""
    schema = ask.relation.schema
    asked = tuple(schema.column(name) for name in ask.columns) or schema.columns
    return tuple((c.name, _output_name(ask, c)) for c in asked)


def _output_name(ask: Ask, column: Column) -> str:
    if column.is_key:
        return exact_key(column) if ask.is_exact else names.view_key(column)
    return exact_name(column.name) if ask.is_exact else physical_name(column.name)


def _finished(ask: Ask, shown: Node, *, asked: tuple[Column, ...]) -> Node:
    """Filter by the user's expression, keep what was asked for, order and cut."""
    schema = ask.relation.schema
    order = tuple((names.identity(c), c.descending) for c in schema.row_key)
    outputs: dict[str, Expr] = {_output_name(ask, c): col(_output_name(ask, c)) for c in asked}
    if ask.is_exact:
        outputs[names.IS_ROW] = col(names.IS_ROW)
    if Tells.EXPIRY in ask.tells:
        outputs |= {name: col(name) for name in (names.SOONEST, *map(names.identity, schema.partition))}
    if Tells.IDENTITY in ask.tells:
        outputs |= {name: col(name) for name in (names.IS_ROW, *map(names.identity, schema.row_key))}
    spans = tuple(name for name in (names.VALID_FROM, names.VALID_TO, names.LANDED_FROM) if name in shown.output())
    outputs.update((name, col(name)) for name in spans)
    if ask.is_ordered:
        outputs.update({f"_order_{i}": col(name) for i, (name, _) in enumerate(order)})
    columns: Named = tuple(outputs.items())
    result: Node = Select("result", "visible row", shown, columns, ask.where)
    if ask.is_ordered:
        by = tuple((f"_order_{i}", descending) for i, (_, descending) in enumerate(order))
        by += tuple((name, False) for name in spans[:1])
        result = Ordered("ordered", "visible row", result, by, ask.limit)
    elif ask.limit is not None:
        result = Ordered("limited", "visible row", result, (), ask.limit)
    return result
