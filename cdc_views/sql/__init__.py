"""Plans as SQL text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc_views.errors import UnsupportedError
from cdc_views.plan.build import Ask, build, output_names
from cdc_views.plan.parts import Parts, Source
from cdc_views.plan.rewrites import choose, lower, prune
from cdc_views.sql.dialects import Dialect, dialect
from cdc_views.sql.render import Renderer
from cdc_views.sql.statements import create_view, named
from cdc_views.storage.relation import Relation
from cdc_views.storage.shown_relation import casts_of

__all__ = ["ViewSql", "check_names", "generate", "outputs_sql", "query_sql", "rows_sql"]


def query_sql(
    ask: Ask, *, dialect_name: str, strategy: str, table: str, tables: Mapping[Source, str] | None = None, is_pretty: bool = True
) -> str:
    """Return the SQL of what is asked, over the raw table `table` (text that stands after FROM) and parts of it.

    Where it has to be short, it is on one line, without comments.
    """
    chosen, target = choose(strategy).strategy, dialect(dialect_name)
    plan = prune(lower(build(ask, joins_fully=target.joins_fully), strategy=chosen))
    return Renderer(target, table=table, tables=tables).sql(plan, is_pretty=is_pretty)


@dataclass(frozen=True, slots=True)
class ViewSql:
    """Where a view goes and what it is called there; both parts unquoted."""

    schema: str
    name: str


def generate(
    relation: Relation,
    *,
    dialect_name: str,
    strategy: str,
    view: ViewSql,
    table: str,
    note: str = "",
    tables: Mapping[Source, str] | None = None,
    split: Parts | None = None,
) -> str:
    """Return the CREATE VIEW statement of a table's merged view in a dialect, with a header that explains it.

    `note` is a further line of the header (a Delta version, say); `tables` and `split` are a state's (`Ask.split`).
    Raises `UnsupportedError` where two column names differ in case alone and the dialect cannot hold both.
    """
    chosen = choose(strategy)
    target = dialect(dialect_name)
    _check_names(relation, target, others=(view.schema, view.name))
    ask = Ask(relation, split=split)
    plan = prune(lower(build(ask), strategy=chosen.strategy))
    query = Renderer(target, table=table, tables=tables).query(plan)
    return create_view(
        target,
        relation,
        view=(view.schema, view.name),
        query=query,
        names=output_names(ask),
        notes=[chosen.why, note],
        casts=casts_of(relation),
    )


def rows_sql(ask: Ask, *, dialect_name: str, strategy: str, table: str, clock: str, is_pretty: bool = True) -> str:
    """Return the query inside the CREATE VIEW statement of `generate`, for columns of its own and a clock of its own.

    `clock` is text that stands wherever the query asks for the time, in seconds since the epoch. Raises as `generate`.
    Where it has to be short, it is on one line, without comments.
    """
    target = dialect(dialect_name)
    _check_names(ask.relation, target)
    target.clock = clock
    plan = prune(lower(build(ask), strategy=choose(strategy).strategy))
    query = named(Renderer(target, table=table).query(plan), output_names(ask), casts=casts_of(ask.relation))
    return query.sql(dialect=target.sqlglot_name, copy=False, pretty=is_pretty, max_text_width=110, comments=is_pretty)


def outputs_sql(
    ask: Ask, *, dialect_name: str, strategy: str, table: str, more: Sequence[tuple[str, str]], clock: str = ""
) -> str:
    """Return `rows_sql` in its short form, with further outputs of the plan as (name, output column)."""
    target = dialect(dialect_name)
    target.clock = clock
    plan = prune(lower(build(ask), strategy=choose(strategy).strategy))
    query = named(Renderer(target, table=table).query(plan), (*output_names(ask), *more), casts=casts_of(ask.relation))
    return query.sql(dialect=target.sqlglot_name, copy=False, comments=False)


def check_names(relation: Relation, dialect_name: str, *, others: tuple[str, ...] = ()) -> None:
    """Raise `UnsupportedError` for names that a dialect's view cannot hold; `others` are those of views and schemas."""
    _check_names(relation, dialect(dialect_name), others=others)


def _check_names(relation: Relation, target: Dialect, *, others: tuple[str, ...] = ()) -> None:
    _refuse_case_clash(relation, target)
    target.check_names([c.name for c in relation.schema.columns], others=others)


def _refuse_case_clash(relation: Relation, target: Dialect) -> None:
    seen: dict[str, str] = {}
    for column in relation.schema.columns:
        other = seen.setdefault(column.name.casefold(), column.name)
        if target.ignores_case and other != column.name:
            raise UnsupportedError(
                f"{relation.schema.full_name} has columns {other!r} and {column.name!r}, which {target.name} cannot tell apart",
                remedy="use `cdc-views query`, whose output keeps both",
            )
