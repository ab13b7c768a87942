"""The SQL of the generated macros, one text a dialect: the view's, the keys of live rows, and the facts of a state.

Nothing here decides which cell wins: the texts are `cdc_views.sql`'s, with places for what dbt knows when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from cdc_views.engines.duckdb.types import type_text
from cdc_views.export.dbt.jinja import filled, free_word
from cdc_views.plan import names
from cdc_views.plan.build import Ask
from cdc_views.plan.compact import PART, compact, part_of
from cdc_views.plan.expr import Call, Case, Lit, Op, col
from cdc_views.plan.parts import Part
from cdc_views.plan.rewrites import lower, prune
from cdc_views.rules.facts import FactKind
from cdc_views.sql import rows_sql
from cdc_views.sql.dialects import dialect
from cdc_views.sql.dialects.base import Sql, function, identifier
from cdc_views.sql.render import Renderer
from cdc_views.storage.relation import Relation

DIALECTS = ("duckdb", "spark", "bigquery")
"""The adapters that macros are generated for; `databricks` takes Spark's."""
PART_DIGITS = 4
"""A state is split into 2^4 parts by partition key: an incremental run rewrites those that something landed for."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """Renders the bodies of one table. Each raises `UnsupportedError` where the dialect cannot do it."""

    relation: Relation
    strategy: str

    def now(self, name: str) -> str:
        """Return the dialect's clock, in seconds since the epoch: SQL without places."""
        return dialect(name).now().sql(dialect=dialect(name).sqlglot_name)

    def latest_row(self, name: str) -> str:
        """Return the view's query over `relation` at `now`."""
        return self._rows(Ask(self.relation), name)

    def live_rows(self, name: str) -> str:
        """Return the key columns of the view's rows over `relation` at `now`."""
        keys = tuple(column.name for column in self.relation.schema.row_key)
        return self._rows(Ask(self.relation, columns=keys), name)

    def _rows(self, ask: Ask, name: str) -> str:
        table, clock = self._word("cdc_views_relation"), self._word("cdc_views_now")
        sql = rows_sql(ask, dialect_name=name, strategy=self.strategy, table=table, clock=clock)
        return filled(sql, {table: "relation", clock: "now"})

    def latest_cells(self, name: str) -> str:
        """Return the query of the state's facts over `facts`, in the raw layout and with `_part`.

        `_landed_at` is when the newest of the facts landed: the watermark that an incremental run goes on from.
        """
        target, table = dialect(name), self._word("cdc_views_facts")
        plan = compact(self.relation, part=part_of(self.relation, prefix=Part.RUN.value, digits=PART_DIGITS))
        reduced = Renderer(target, table=table).query(prune(lower(plan, strategy="aggregate")))
        newest = exp.select(function("MAX", _column(names.LANDED))).from_(exp.to_table(table))
        columns = [self._typed(field, newest) for field in self.relation.arrow_schema().names]
        query = exp.select(*columns, _column(PART)).from_(reduced.subquery(identifier("_reduced"), copy=False))
        sql = query.sql(dialect=target.sqlglot_name, copy=False, pretty=True, max_text_width=110)
        return filled(sql, {table: "facts"})

    def _typed(self, name: str, newest: exp.Select) -> Sql:
        """A column in the type that the raw table has it in: a step's bare null may have any."""
        found = newest.subquery() if name == names.LANDED else _column(name)
        kind = type_text(self.relation.arrow_schema().field(name).type)
        return exp.alias_(exp.cast(found, exp.DataType.build(kind, dialect="duckdb")), identifier(name))

    def part(self, name: str) -> str:
        """Return the expression of the part of the state that a fact belongs to."""
        of_key = part_of(self.relation, prefix=Part.RUN.value, digits=PART_DIGITS)
        is_table = Call(Op.EQ, (col(names.KIND), Lit(FactKind.TABLE.value)))
        of_fact = Case(((is_table, replace(of_key, keys=())),), of_key)
        return filled(dialect(name).render(of_fact).sql(dialect=dialect(name).sqlglot_name), {})

    def layout(self, name: str) -> str:
        """Return the raw table's columns, quoted and parted by commas."""
        quoted = (identifier(n).sql(dialect=dialect(name).sqlglot_name) for n in self.relation.arrow_schema().names)
        return filled(", ".join(quoted), {})

    def _word(self, word: str) -> str:
        return free_word(word, self._names())

    def _names(self) -> Iterator[str]:
        yield from (column.name for column in self.relation.schema.columns)
        yield from self.relation.arrow_schema().names


def _column(name: str) -> exp.Column:
    return exp.column(identifier(name))
