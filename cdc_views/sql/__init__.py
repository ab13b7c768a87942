"""Plans as SQL text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_views.errors import UnsupportedError
from cdc_views.plan.build import Ask, build, output_names
from cdc_views.plan.choose import choose
from cdc_views.plan.nodes import Source
from cdc_views.plan.reduction import Split
from cdc_views.plan.rewrites import lower, prune
from cdc_views.relation import Relation
from cdc_views.sql.casts import casts_of
from cdc_views.sql.dialects import Dialect, dialect
from cdc_views.sql.render import Renderer
from cdc_views.sql.statements import create_view

__all__ = ["ViewSql", "generate", "query_sql"]


def query_sql(
    ask: Ask, *, dialect_name: str, strategy: str, table: str, tables: Mapping[Source, str] | None = None
) -> str:
    """Return the SQL of what is asked, over the raw table `table` (text that stands after FROM) and parts of it."""
    chosen = choose(strategy, engine=dialect_name).strategy
    plan = prune(lower(build(ask), strategy=chosen))
    return Renderer(dialect(dialect_name), table=table, tables=tables).sql(plan)


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
    split: Split | None = None,
) -> str:
    """Return the CREATE VIEW statement of a table's merged view in a dialect, with a header that explains it.

    `note` is a further line of the header (a Delta version, say); `tables` and `split` are a state's (`Ask.split`).
    Raises `UnsupportedError` where two column names differ in case alone and the dialect cannot hold both.
    """
    chosen = choose(strategy, engine=dialect_name)
    target = dialect(dialect_name)
    _refuse_case_clash(relation, target)
    target.check_names([c.name for c in relation.schema.columns], others=(view.schema, view.name))
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


def _refuse_case_clash(relation: Relation, target: Dialect) -> None:
    seen: dict[str, str] = {}
    for column in relation.schema.columns:
        other = seen.setdefault(column.name.casefold(), column.name)
        if target.ignores_case and other != column.name:
            raise UnsupportedError(
                f"{relation.schema.full_name} has columns {other!r} and {column.name!r}, which {target.name} cannot tell apart",
                remedy="use `cdc-views query`, whose output keeps both",
            )
