"""Plans as SQL text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from cdc_views.errors import UnsupportedError
from cdc_views.model.style import Style
from cdc_views.plan.build import Ask, of_raw, output_names, planned
from cdc_views.plan.nodes import Node
from cdc_views.plan.parts import Parts, Source
from cdc_views.plan.reduction import WholeEvents
from cdc_views.plan.rewrites import note_on, prune
from cdc_views.plan.state_and_tail import RAW, STATE, StateAndTail, over_both
from cdc_views.sql.dialects import Dialect, dialect
from cdc_views.sql.dialects.writing import identifier
from cdc_views.sql.render import Renderer
from cdc_views.sql.statements import envelope
from cdc_views.storage.relation import LAYOUT_VERSION, Relation
from cdc_views.storage.shown_relation import casts_of

__all__ = ["StateSql", "ViewSql", "check_names", "events_sql", "generate", "outputs_sql", "query_sql", "rows_sql", "shared_sql"]


def query_sql(
    ask: Ask,
    *,
    dialect_name: str,
    strategy: str,
    table: str,
    tables: Mapping[Source, str] | None = None,
    is_pretty: bool = True,
    holds_any_field: bool = True,
) -> str:
    """Return the SQL of `ask` over FROM clauses of the raw table and its parts.

    If not `is_pretty`: one line, no comments. `holds_any_field`: see `Dialect`.
    """
    target = dialect(dialect_name)
    target.holds_any_field = holds_any_field
    plan = planned(ask, strategy=strategy, joins_fully=target.joins_fully)
    return Renderer(target, table=table, tables=tables).sql(plan, is_pretty=is_pretty)


@dataclass(frozen=True, slots=True)
class ViewSql:
    """The unquoted name of a view; with a `catalog`, `owner` becomes the view's property `cdc_views.view`.

    An empty name: no view, but the query that it would be.
    """

    schema: str
    name: str
    catalog: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class StateSql:
    """The FROM clause of a state, and how a view reads it and the raw table."""

    table: str
    reads: StateAndTail


def generate(
    relation: Relation,
    *,
    dialect_name: str,
    strategy: str,
    view: ViewSql,
    table: str,
    stand_in: str = "",
    note: str = "",
    tables: Mapping[Source, str] | None = None,
    split: Parts | None = None,
    state: StateSql | None = None,
    events: Node | None = None,
    whole: WholeEvents | None = None,
    style: Style = Style.PLAIN,
) -> str:
    """Return the CREATE VIEW statement of a merged view, with a header that explains it; for an empty name its query alone.

    `stand_in` is a name for the raw table that nobody knows to be right; `note` a further line of the header. `tables`, `split`
    belong to a state, of which they name files; `state` is one that the view reads by its name, beside what landed since.
    `events` is the plan over the events of an external table, `table`; `whole` what is known of those in the files of `table`.
    With style `macros`, the statements of the definitions in the view's schema stand before the view's. Raises
    `UnsupportedError` for names that the dialect's views cannot hold, and for a dialect without macros.
    """
    target, ask = dialect(dialect_name), Ask(relation, split=split)
    macros = target.share(view.schema) if style is Style.MACROS else None
    check_names(relation, dialect_name, others=tuple(filter(None, (view.catalog, view.schema, view.name))))
    if view.catalog and macros is not None:
        told = f"catalog {view.catalog} holds no definitions that views share"
        raise UnsupportedError(told, remedy="leave out `--style macros`, or `catalog` in the project file")
    if events is not None:
        merged = _of_events(events, target, table)
    elif state is not None:
        merged = _over_state(ask, target, strategy, table, state)
    else:
        merged = _query(_of_files(ask, whole), target, strategy, table, tables)
    notes, layout = ((note,), None) if events is not None else ((note_on(strategy), note), LAYOUT_VERSION)
    query = target.printed(_named(ask, merged, output_names(ask)))
    created = _created(view, target, query, relation=relation, notes=notes, layout=layout, stand_in=stand_in)
    return created if macros is None else ";\n\n".join([*macros.statements(target).values(), created])


def _of_files(ask: Ask, whole: WholeEvents | None) -> Ask:
    """What a view asks of files: of a state's, or of raw events, of which `whole` is known."""
    if ask.split is not None:
        return ask
    return of_raw(ask) if whole is None else replace(ask, events=whole)


def _created(
    view: ViewSql, target: Dialect, query: str, *, relation: Relation, notes: Sequence[str], layout: int | None, stand_in: str
) -> str:
    """The statement that creates a view of a query; without a name for it, the query."""
    if not view.name:
        return query
    around = {part: identifier(name) for part, name in (("db", view.schema), ("catalog", view.catalog)) if name}
    place = exp.Table(this=identifier(view.name), **around)
    return envelope(
        "create_view.sql.j2",
        view=place.sql(dialect=target.sqlglot_name),
        owner=exp.Literal.string(view.owner).sql(dialect=target.sqlglot_name) if view.catalog else "",
        schema_name=identifier(view.schema).sql(dialect=target.sqlglot_name) if view.schema else "",
        query=query,
        table=_comment(relation.schema.full_name),
        grain=_comment(", ".join(c.name for c in relation.schema.row_key)),
        has_statics=bool(relation.schema.statics),
        layout=layout,
        stand_in=_comment(stand_in),
        notes=[_comment(text) for text in notes if text],
    )


def _over_state(ask: Ask, target: Dialect, strategy: str, table: str, state: StateSql) -> exp.Select:
    plan = over_both(planned(ask, strategy=strategy), ask.relation, state.reads)
    return Renderer(target, table=table, tables={STATE: state.table, RAW: table}).query(plan)


def rows_sql(ask: Ask, *, dialect_name: str, strategy: str, table: str, clock: str, is_pretty: bool = True) -> str:
    """Return the query inside the CREATE VIEW statement of `generate`, for another `Ask`; raises like `generate`.

    `clock` is SQL that replaces the engine's clock, in seconds since the epoch. If not `is_pretty`: one line, no comments.
    """
    check_names(ask.relation, dialect_name)
    return _rows(ask, dialect(dialect_name), strategy, table, output_names(ask), clock=clock, is_pretty=is_pretty)


def events_sql(relation: Relation, events: Node, *, dialect_name: str, table: str, clock: str = "") -> str:
    """Return the query of a view of the events of an external table, `table`, by the plan `events`; `clock`: see `rows_sql`."""
    check_names(relation, dialect_name)
    target, ask = dialect(dialect_name), Ask(relation)
    target.clock = clock
    return target.printed(_named(ask, _of_events(events, target, table), output_names(ask)))


def shared_sql(
    relation: Relation, *, dialect_name: str, strategy: str, table: str, schema: str, events: Node | None = None
) -> tuple[str, dict[str, str]]:
    """Return the query of a view that calls definitions of a schema, and the statements that make these, name → text.

    Otherwise as `rows_sql`, or with `events` as `events_sql`.
    """
    check_names(relation, dialect_name)
    target, ask = dialect(dialect_name), of_raw(Ask(relation))
    macros = target.share(schema)
    merged = _query(ask, target, strategy, table) if events is None else _of_events(events, target, table)
    return target.printed(_named(ask, merged, output_names(ask))), macros.statements(target)


def outputs_sql(ask: Ask, *, dialect_name: str, strategy: str, table: str, more: Sequence[tuple[str, str]]) -> str:
    """Return `rows_sql` on one line, with further outputs of the plan as (name, output column)."""
    names = (*output_names(ask), *more)
    return _rows(ask, dialect(dialect_name), strategy, table, names, clock="", is_pretty=False)


def _rows(
    ask: Ask, target: Dialect, strategy: str, table: str, names: tuple[tuple[str, str], ...], *, clock: str, is_pretty: bool
) -> str:
    target.clock = clock
    query = Renderer(target, table=table).query(planned(ask, strategy=strategy), comments=is_pretty)
    return target.printed(_named(ask, query, names), is_pretty=is_pretty)


def _query(ask: Ask, target: Dialect, strategy: str, table: str, tables: Mapping[Source, str] | None = None) -> exp.Select:
    return Renderer(target, table=table, tables=tables).query(planned(ask, strategy=strategy))


def _of_events(events: Node, target: Dialect, table: str) -> exp.Select:
    return Renderer(target, table=table).query(prune(events))


def _named(ask: Ask, query: exp.Select, names: tuple[tuple[str, str], ...]) -> exp.Select:
    """The query with user names; `names` are (user name, output column) in order.

    The query fails, and shows no null, for a value that does not fit the type that the user gave its column.
    """
    columns, casts = list[exp.Expr](), casts_of(ask.relation)
    shown = {column.alias_or_name: column.unalias() for column in query.selects}
    for name, output in names:
        value = shown[output]
        shown_as = exp.cast(value, casts[name]) if name in casts else value
        is_named = isinstance(shown_as, exp.Column) and shown_as.name == name
        columns.append(shown_as if is_named else exp.alias_(shown_as, identifier(name), copy=False))
    query.set("expressions", columns)
    return query


def _comment(text: str) -> str:
    """Text that cannot end a line comment early."""
    return " ".join(text.split())


def check_names(relation: Relation, dialect_name: str, *, others: tuple[str, ...] = ()) -> None:
    """Raise `UnsupportedError` for names that a dialect's view cannot hold; `others` are names of views and schemas."""
    target, seen = dialect(dialect_name), dict[str, str]()
    for column in relation.schema.columns:
        other = seen.setdefault(column.name.casefold(), column.name)
        if target.ignores_case and other != column.name:
            raise UnsupportedError(
                f"{relation.schema.full_name} has columns {other!r} and {column.name!r}, which {target.name} cannot tell apart",
                remedy="use `cdc-views query`, whose output keeps both",
            )
    target.check_names([c.name for c in relation.schema.columns], others=others)
