"""Build the plan of a view or a query from a raw relation and an `Ask`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Flag, auto

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.model.strategy import Strategy
from cdc_views.plan import names
from cdc_views.plan.events import are_events, event_rows
from cdc_views.plan.expr import Expr, Lit, Named, UserSql, col, cols
from cdc_views.plan.history import versions
from cdc_views.plan.newer import rows_by_cell, shows_by_cell
from cdc_views.plan.nodes import Node, Ordered, Select, noted, together
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.parts import Parts, Source
from cdc_views.plan.reduce import (
    kept_elements,
    reduce_partitions,
    reduce_rows,
    reduce_table,
    single_cells,
    stored_keys,
    with_elements,
)
from cdc_views.plan.reduction import FactsFrom, Reduction, WholeEvents
from cdc_views.plan.representation import Representation, exact_key, exact_name
from cdc_views.plan.rewrites import choose, lowered
from cdc_views.plan.show import Showing, show
from cdc_views.plan.timeline import Timeline
from cdc_views.plan.walk import columns_used
from cdc_views.plan.where import on_partition
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

_OF_STATE = {
    Source.PLAIN: ("lasting_rows", "rows of the state that never expire"),
    Source.JUDGED: ("expiring_rows", "rows of the state that may expire"),
}
"""Names and notes of the steps that show a state's rows."""


class Tells(Flag):
    """Further columns of a view's rows, which a user does not see."""

    NOTHING = 0
    EXPIRY = auto()
    """The time when expiry next changes the row (`plan.order`), and the identity of its partition."""
    IDENTITY = auto()
    """The identity of the row, and whether it is a row or statics alone (rule W3)."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for rows of a merged table.

    `as_of` None means the engine's clock at each read (rule M3). `columns` are user names, empty for all; `where` uses physical
    names. `is_exact` asks for the exact forms that `query` prints instead of friendly types; `is_ordered` for its order, after
    that of `order_by` (user name, whether descending); `offset` rows are left out.
    `split` has the parts of a state with a base. `is_history` asks for one row per version of a row, up to `as_of`.
    `events` is what is known of facts that are events of whole rows; None if some are none. `facts_from` has the facts instead
    of a raw table.
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
    events: WholeEvents | None = None
    facts_from: FactsFrom | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    offset: int = 0


def of_raw(ask: Ask) -> Ask:
    """Return `ask` of nothing but the events of a raw table: what landed, and no facts of a state."""
    return replace(ask, events=WholeEvents() if ask.relation.has_unique_writes else None)


def planned(ask: Ask, *, strategy: str, joins_fully: bool = False) -> Node:
    """Return the plan of `ask` lowered by a strategy, as renderers and compilers require it; raises like `build` and `choose`."""
    chosen = choose(strategy).strategy
    # the other strategies are ways to reduce cells
    asked = ask if chosen == Strategy.AGGREGATE.value else replace(ask, events=None)
    return lowered(build(asked, joins_fully=joins_fully), strategy=chosen)


def build(ask: Ask, *, joins_fully: bool = False) -> Node:
    """Return the plan; `output_names` lists its output columns. Raises `UnknownColumnError`.

    `joins_fully` prefers full joins. They are faster in an engine that moves no rows for them. But a condition on keys does
    not reach the files below them, so a plan with `where` has none.
    """
    schema = ask.relation.shown
    asked = tuple(schema.column(name) for name in ask.columns) or schema.columns
    tested = _tested(ask)
    needed = tuple(c for c in schema.columns if c in asked or c in tested)
    representation = Representation(is_friendly=not ask.is_exact or bool(tested), is_exact=ask.is_exact)
    reduction = Reduction(
        ask.relation,
        wanted=frozenset(c.name for c in needed),
        payload=representation.payload,
        landed_as_of=ask.landed_as_of,
        written_as_of=ask.written_as_of,
        partition_where=on_partition(ask.relation.schema, ask.where) if ask.where is not None else None,
        skips_unwanted=ask.relation.is_whole_row,  # S1: its rows exist by their markers alone
        split=ask.split,
        events=ask.events,
        facts_from=ask.facts_from,
    )
    now: Expr = col(names.NOW_RANK) if ask.as_of is None else Lit(ask.as_of)
    showing = Showing(ask.relation, needed, now, representation, tells_expiry=Tells.EXPIRY in ask.tells)
    if ask.is_history:
        assert ask.as_of is not None, "a history ends at an instant"
        shown = versions(Timeline.of(reduction, as_of=ask.as_of), replace(showing, now=col(names.NOW_RANK)))
    else:
        shown = _shown(reduction, showing, joins_fully=joins_fully and ask.where is None)
    return _finished(ask, shown, asked=asked)


def _tested(ask: Ask) -> tuple[Column, ...]:
    """The columns that the condition or the order reads in their friendly form."""
    used = set() if ask.where is None else {c.name for c in columns_used(ask.where)}
    ordering = {name for name, _ in ask.order_by}
    return tuple(
        c
        for c in ask.relation.shown.columns
        if (names.view_key(c) if c.is_key else physical_name(c.name)) in used or (c.name in ordering and not c.is_key)
    )


def _shown(reduction: Reduction, showing: Showing, *, joins_fully: bool) -> Node:
    split = reduction.split
    if are_events(reduction):
        return event_rows(reduction, showing)
    if split is not None and shows_by_cell(showing, reduction, joins_fully=joins_fully):
        without_fresh = replace(reduction, split=split.without(*Source.FRESH.value))
        telling = replace(showing, tells_parts=True)
        return rows_by_cell(telling, reduction, _untouched(telling, without_fresh), joins_fully=joins_fully)
    parts = _untouched(showing, reduction)
    if not parts or reduction.is_touched:
        # the footers of state and tail may show that no fact covers more than a row
        has_none = split is not None and not split.of(Source.ALL).statistics.has_scopes
        partitions = None if has_none and not reduction.schema.statics else reduce_partitions(reduction)
        has_table = reduction.relation.is_whole_row and (reduction.events is None or reduction.events.have_truncates)
        table = reduce_table(reduction) if has_table else None  # S6
        parts.insert(0, show(showing, rows=reduce_rows(reduction), partitions=partitions, table=table))
    return together("touched_and_untouched", parts, grain="row of the view")


def _untouched(showing: Showing, reduction: Reduction) -> list[Node]:
    """Rows of the base that need no reducing: all deletions were applied to them."""
    if reduction.split is None:
        return []
    settled = replace(showing, is_settled=True)
    shown: list[Node] = []
    for place in reduction.split.places():
        part = replace(settled, is_plain=place.is_plain)
        # show before joining: Spark reads whole structs that pass through a join
        rows = show(part, rows=_stored_rows(reduction, place), partitions=None, table=None)
        name, note = _OF_STATE[place]
        shown.append(replace(rows, name=name, notes=noted(note, rows.notes)))
    if not shown:
        return []
    # one join for both: the other side is read once; Spark joins each part, but broadcasts the other side once
    rows = together("base_rows", shown)
    left = reduction.untouched(rows)
    return shown if left is rows else [left]


def _stored_rows(request: Reduction, source: Source) -> Node:
    """All rows of a part of the base, touched or not, in the columns of `reduce_rows`."""
    keys = stored_keys(request.row_keys(), request.schema.row_key)
    columns = (*keys, (names.LIVE, col(names.LIVE)), (names.DELETED, col(names.DELETED)[WRITTEN]), *_stored_cells(request))
    return request.scan(f"{source.label}_rows", kinds=[FactKind.ROW], columns=columns, source=source)


def _stored_cells(request: Reduction) -> Named:
    # W3: rows have no static cells; these columns are null, but have their types
    columns: list[tuple[str, Expr]] = []
    for column in request.reducible(request.schema.regulars + request.schema.statics):
        stored = col(physical_name(column.name))
        columns += [(name, request.cell(column, cell)) for name, cell, _ in single_cells(column, stored)]
        if column.type.is_multicell:
            columns.append((names.deletion_of(column.name), stored["deletion"][WRITTEN]))
    for column in with_elements(request, request.schema.regulars + request.schema.statics):
        elements = kept_elements(request, column, col(physical_name(column.name))["cells"])
        columns.append((names.cells_of(column.name), elements))
    return tuple(columns)


def output_names(ask: Ask) -> tuple[tuple[str, str], ...]:
    """Return (user name, output column of `build`) of each requested column, in order."""
    schema = ask.relation.schema
    asked = tuple(schema.column(name) for name in ask.columns) or schema.columns
    return tuple((c.name, _output_name(ask, c)) for c in asked)


def _output_name(ask: Ask, column: Column) -> str:
    if column.is_key:
        return exact_key(column) if ask.is_exact else names.view_key(column)
    return exact_name(column.name) if ask.is_exact else physical_name(column.name)


def _finished(ask: Ask, shown: Node, *, asked: tuple[Column, ...]) -> Node:
    schema = ask.relation.schema
    spans = tuple(name for name in (names.VALID_FROM, names.VALID_TO, names.LANDED_FROM) if name in shown.output())
    wanted = [_output_name(ask, c) for c in asked] + [names.IS_ROW] * ask.is_exact
    if Tells.EXPIRY in ask.tells:
        wanted += [names.SOONEST, *map(names.identity, schema.partition)]
    if Tells.IDENTITY in ask.tells:
        wanted += [names.IS_ROW, *map(names.identity, schema.row_key)]
    outputs = dict(cols((*wanted, *spans)))
    by = tuple((f"_sort_{i}", descending) for i, (_, descending) in enumerate(ask.order_by))
    outputs |= {f"_sort_{i}": col(_sorted_by(schema.column(name))) for i, (name, _) in enumerate(ask.order_by)}
    if ask.is_ordered:
        outputs |= {f"_order_{i}": col(names.identity(c)) for i, c in enumerate(schema.row_key)}
    result: Node = Select("result", "row of the view", shown, tuple(outputs.items()), ask.where)
    if ask.is_ordered:
        by += tuple((f"_order_{i}", c.descending) for i, c in enumerate(schema.row_key))
        by += tuple((name, False) for name in spans[:1])
        result = Ordered("ordered", "row of the view", result, by, ask.limit, ask.offset)
    elif ask.limit is not None:
        result = Ordered("limited", "row of the view", result, (), ask.limit)
    return result


def _sorted_by(column: Column) -> str:
    return names.identity(column) if column.is_key else physical_name(column.name)
