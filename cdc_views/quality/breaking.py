"""The first keys where a test that only counted does not hold: a second query, of failed tests alone."""

from __future__ import annotations

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.exact import rows_of
from cdc_views.plan import names
from cdc_views.plan.build import Ask, build
from cdc_views.plan.expr import Expr, UserSql, cols
from cdc_views.plan.nodes import Aggregate, Ordered, Scan
from cdc_views.plan.parts import Source
from cdc_views.plan.where import negated
from cdc_views.quality.checks import MOST_PLACES, key_text
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation
from cdc_views.storage.relation_read import key_of

_TABLE = "the whole table (a truncate)"


def keys_of_facts(engine: Engine, sources: Sources, source: Source, broken: Expr) -> list[str]:
    """Return the keys of at most `MOST_PLACES` rows or partitions with facts in `source` for which `broken` is true, as JSON."""
    relation = sources.raw.relation
    schema, shown = relation.schema, _key_columns(relation)
    scan = Scan("broken_facts", "fact", cols((names.KIND, *shown)), broken, source)
    each = Aggregate("broken_keys", "kind and key", scan, (names.KIND, *shown), ())
    first = Ordered("first_keys", "kind and key", each, tuple((name, False) for name in each.keys), MOST_PLACES)
    found = []
    for row in engine.rows(first, sources).to_pylist():
        kind = FactKind(row[names.KIND])
        key = schema.row_key if kind is FactKind.ROW else schema.partition
        found.append(_TABLE if kind is FactKind.TABLE else key_text(key, key_of(key, row)))
    return found


def keys_of_rows(engine: Engine, sources: Sources, test: UserSql, *, as_of: int) -> list[str]:
    """Return the keys of the first `MOST_PLACES` rows of the view for which `test` is false, as JSON."""
    relation = sources.raw.relation
    key = tuple(column.name for column in relation.schema.row_key)
    ask = Ask(
        relation,
        as_of=as_of,
        columns=key,
        where=negated(test),
        limit=MOST_PLACES,
        is_exact=True,
        is_ordered=True,
        split=sources.split(),
    )
    rows = rows_of(relation, key, engine.rows(build(ask), sources))
    return [key_text(relation.schema.row_key, [row[name] for name in key]) for row in rows]


def _key_columns(relation: Relation) -> tuple[str, ...]:
    """The stored columns that identify and show a row's key."""
    return tuple(dict.fromkeys(n for c in relation.schema.row_key for n in (*names.grouping(c), *names.shown_as(c))))
