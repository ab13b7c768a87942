"""The generated macro files: the plan's SQL for each table and adapter, behind one name that dbt dispatches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from cdc_views.engines.duckdb.types import type_text
from cdc_views.errors import UnsupportedError
from cdc_views.export.dbt.jinja import filled, free_word, literal, value
from cdc_views.export.exporting import mark_of
from cdc_views.operations.raw_files import plain_name
from cdc_views.plan import names
from cdc_views.plan.build import Ask
from cdc_views.plan.compact import PART, compact, part_of
from cdc_views.plan.expr import Call, Case, Lit, Op, col
from cdc_views.plan.rewrites import lowered
from cdc_views.rules.facts import FactKind
from cdc_views.sql import rows_sql
from cdc_views.sql.dialects import dialect
from cdc_views.sql.dialects.writing import Sql, function, identifier
from cdc_views.sql.render import Renderer
from cdc_views.storage.relation import Relation

COMMAND = "cdc-views dbt export"
MARK = mark_of(COMMAND)
_ADAPTERS = ("duckdb", "spark", "bigquery")
"""The adapters with macros; `databricks` uses Spark's."""
_PART_DIGITS = 4
_PREFIX = "r"  # of `_part`; tables that dbt has written have it
"""A state has 2^4 parts by partition key; an incremental run rewrites those with new facts."""
_RENDERED = {"latest_row": "now", "live_rows": "now", "latest_cells": "state"}
"""The macros of each table, and their second argument: the clock, or an earlier state."""
_STATE_FACTS = """\
WITH {facts} AS (
{{%- if state is none %}}
  SELECT {layout} FROM {{{{ relation }}}}
{{%- else %}}
  SELECT {layout} FROM {{{{ relation }}}} AS {landed}
  UNION ALL
  SELECT {layout} FROM {{{{ state }}}}
  WHERE {part_column} IN (SELECT {part} FROM {{{{ relation }}}} AS {landed})
{{%- endif %}}
)
SELECT {layout}, {part_column} FROM (
"""


@dataclass(frozen=True, slots=True)
class _Bodies:
    """Renders the macros of one table for one adapter. Raises `UnsupportedError` if the dialect cannot express one."""

    relation: Relation
    strategy: str
    adapter: str

    def of(self, what: str) -> str:
        if what == "latest_cells":
            return self._state()
        table, clock = self._word("cdc_views_relation"), self._word("cdc_views_now")
        keys = tuple(column.name for column in self.relation.schema.row_key)
        ask = Ask(self.relation, columns=keys if what == "live_rows" else ())
        sql = rows_sql(ask, dialect_name=self.adapter, strategy=self.strategy, table=table, clock=clock)
        now = value(self._sql(dialect(self.adapter).now()))
        return f"{{%- set now = {now} if now is none else now -%}}\n{filled(sql, {table: 'relation', clock: 'now'})}"

    def _state(self) -> str:
        """Return the state's SQL, from all facts, or from the new facts and the state's facts in the parts that they touch."""
        reduced, quote = self._latest_cells(), "`" if self.adapter != "duckdb" else '"'
        of_key = part_of(self.relation, prefix=_PREFIX, digits=_PART_DIGITS)
        is_table = Call(Op.EQ, (col(names.KIND), Lit(FactKind.TABLE.value)))
        of_fact = Case(((is_table, replace(of_key, keys=())),), of_key)
        facts = _STATE_FACTS.format(
            facts="_cdc_views_facts",
            layout=literal(", ".join(self._sql(identifier(name)) for name in self.relation.arrow_schema().names)),
            part=literal(self._sql(dialect(self.adapter).render(of_fact))),
            part_column=f"{quote}_part{quote}",
            landed="_landed",
        )
        return f'{{%- set facts = "_cdc_views_facts" -%}}\n{facts}{reduced}\n) AS _cdc_views_state'

    def _latest_cells(self) -> str:
        """Return the query of the state's facts over `facts`, in the raw layout and with `_part`. `_landed_at` is the newest
        landing of the facts: the watermark from which an incremental run continues.
        """
        target, table = dialect(self.adapter), self._word("cdc_views_facts")
        plan = compact(self.relation, digits=_PART_DIGITS, prefix=_PREFIX)
        reduced = Renderer(target, table=table).query(lowered(plan))
        newest = exp.select(function("MAX", _column(names.LANDED))).from_(exp.to_table(table))
        columns = [self._typed(field, newest) for field in self.relation.arrow_schema().names]
        query = exp.select(*columns, _column(PART)).from_(reduced.subquery(identifier("_reduced"), copy=False))
        sql = query.sql(dialect=target.sqlglot_name, copy=False, pretty=True, max_text_width=110)
        return filled(sql, {table: "facts"})

    def _typed(self, name: str, newest: exp.Select) -> Sql:
        """Return a column in the type of the raw table, since a bare null in a plan has no certain type."""
        found = newest.subquery() if name == names.LANDED else _column(name)
        kind = type_text(self.relation.arrow_schema().field(name).type)
        return exp.alias_(exp.cast(found, exp.DataType.build(kind, dialect="duckdb")), identifier(name))

    def _sql(self, tree: Sql) -> str:
        return tree.sql(dialect=dialect(self.adapter).sqlglot_name)

    def _word(self, word: str) -> str:
        return free_word(word, [*(column.name for column in self.relation.schema.columns), *self.relation.arrow_schema().names])


def _column(name: str) -> exp.Column:
    return exp.column(identifier(name))


def _macro_name(what: str, table: str) -> str:
    return f"cdc_views__{what}__{plain_name(table)}"


def table_macros(relation: Relation, *, strategy: str) -> str:
    """Return the file of one table's macros; each dispatches to one macro per adapter."""
    table, macros = relation.schema.full_name, []
    for what, argument in _RENDERED.items():
        name, signature = _macro_name(what, table), f"relation, {argument}=none"
        macros.append(_macro(name, signature, f"{{{{ return(adapter.dispatch({value(name)})(relation, {argument})) }}}}"))
        for adapter in _ADAPTERS:
            try:
                body = _Bodies(relation, strategy, adapter).of(what)
            except UnsupportedError as error:
                body = _refusal(f"cdc_views: {error}")
            macros.append(_macro(f"{adapter}__{name}", signature, body))
        lacking = f"cdc_views: there is no {what} of {table} for this adapter; there is one for {', '.join(_ADAPTERS)}"
        macros.append(_macro(f"default__{name}", signature, _refusal(lacking)))
    return "\n\n".join([_header(f"{table}: the SQL of its plan"), *macros]) + "\n"


def registry(relations: Iterable[Relation]) -> str:
    """Return the file of macros that the package calls: which tables exist, and the SQL of one of them. It calls each macro by
    its name, because dbt reads the text to find which macros a generic test needs.
    """
    tables = {relation.schema.full_name: relation.arrow_schema().names for relation in relations}
    known = {table: {"name": plain_name(table), "layout": layout} for table, layout in tables.items()}
    branches = [
        f"{{%- if table == {value(table)} and what == {value(what)} -%}}\n"
        f"  {{{{ return({_macro_name(what, table)}(relation, argument)) }}}}\n{{%- endif -%}}"
        for table in tables
        for what in _RENDERED
    ]
    parts = [
        _header("the tables that there are macros of"),
        _macro("default__cdc_views_tables", "", f"{{{{ return({value(known)}) }}}}"),
        _macro("default__cdc_views_rendered", "what, table, relation, argument", "\n".join(branches)),
    ]
    return "\n\n".join(parts) + "\n"


def _header(text: str) -> str:
    return f"{{#- {commented(text)}; {MARK}, do not edit -#}}"


def commented(text: str) -> str:
    """Return a text in a form that is safe in a comment of Jinja."""
    return " ".join(text.split()).replace("#}", "# }")


def _macro(name: str, signature: str, body: str) -> str:
    return f"{{% macro {name}({signature}) -%}}\n{body}\n{{%- endmacro %}}"


def _refusal(message: str) -> str:
    return f"{{{{ exceptions.raise_compiler_error({value(message)}) }}}}"
