"""The generated macro files: for each table and adapter the plan's SQL, behind one name that dbt dispatches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from cdc_views.engines.duckdb.types import type_text
from cdc_views.errors import UnsupportedError
from cdc_views.export.dbt.jinja import filled, free_word, value
from cdc_views.export.dbt.naming import dbt_name
from cdc_views.export.exporting import mark_of
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


COMMAND = "cdc-views dbt export"
MARK = mark_of(COMMAND)
RENDERED = ("latest_row", "live_rows", "latest_cells")
"""What there is of each table; the second argument of the first two is the clock, of the last an earlier state."""

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


def macro_name(what: str, table: str) -> str:
    """Return the name of a generated macro, the same for every adapter."""
    return f"cdc_views__{what}__{dbt_name(table)}"


def table_macros(relation: Relation, *, strategy: str) -> str:
    """Return the file of one table's macros."""
    bodies, table = Bodies(relation, strategy), relation.schema.full_name
    parts = [
        *_macros("latest_row", table, ("relation", "now"), lambda name: _clocked(bodies, name, bodies.latest_row)),
        *_macros("live_rows", table, ("relation", "now"), lambda name: _clocked(bodies, name, bodies.live_rows)),
        *_macros("latest_cells", table, ("relation", "state"), lambda name: _state(bodies, name)),
    ]
    return "\n\n".join([_header(f"{table}: the SQL of its plan"), *parts]) + "\n"


def registry(relations: Iterable[Relation]) -> str:
    """Return the file of what the package's macros dispatch to: which tables there are, and the SQL of one of them.

    Each macro is called by its name: dbt finds out by reading which ones a generic test needs.
    """
    tables = {relation.schema.full_name: relation.arrow_schema().names for relation in relations}
    known = {table: {"name": dbt_name(table), "layout": layout} for table, layout in tables.items()}
    branches = [
        f"{{%- if table == {value(table)} and what == {value(what)} -%}}\n"
        f"  {{{{ return({macro_name(what, table)}(relation, argument)) }}}}\n{{%- endif -%}}"
        for table in tables
        for what in RENDERED
    ]
    parts = [
        _header("the tables that there are macros of"),
        _macro("default__cdc_views_tables", "", f"{{{{ return({value(known)}) }}}}"),
        _macro("default__cdc_views_rendered", "what, table, relation, argument", "\n".join(branches)),
    ]
    return "\n\n".join(parts) + "\n"


def _header(text: str) -> str:
    plain = " ".join(text.split()).replace("#}", "# }")
    return f"{{#- {plain}; {MARK}, do not edit -#}}"


def _macros(what: str, table: str, arguments: tuple[str, ...], body: Callable[[str], str]) -> list[str]:
    name, listed = macro_name(what, table), ", ".join(arguments)
    signature = ", ".join([arguments[0], *(f"{argument}=none" for argument in arguments[1:])])
    called = f"{{{{ return(adapter.dispatch({value(name)})({listed})) }}}}"
    macros = [_macro(name, signature, called)]
    macros += [_macro(f"{dialect}__{name}", signature, _or_refusal(body, dialect)) for dialect in DIALECTS]
    lacking = f"cdc_views: there is no {what} of {table} for this adapter; there is one for {', '.join(DIALECTS)}"
    return [*macros, _macro(f"default__{name}", signature, _refusal(lacking))]


def _macro(name: str, signature: str, body: str) -> str:
    return f"{{% macro {name}({signature}) -%}}\n{body}\n{{%- endmacro %}}"


def _or_refusal(body: Callable[[str], str], dialect: str) -> str:
    try:
        return body(dialect)
    except UnsupportedError as error:
        return _refusal(f"cdc_views: {error}")


def _refusal(message: str) -> str:
    return f"{{{{ exceptions.raise_compiler_error({value(message)}) }}}}"


def _clocked(bodies: Bodies, dialect: str, body: Callable[[str], str]) -> str:
    clock = value(bodies.now(dialect))
    return f"{{%- set now = {clock} if now is none else now -%}}\n{body(dialect)}"


def _state(bodies: Bodies, dialect: str) -> str:
    """Facts first: all of them, or what landed since and what the state has in the parts that it touches."""
    reduced, quote = bodies.latest_cells(dialect), "`" if dialect != "duckdb" else '"'
    facts = _STATE_FACTS.format(
        facts="_cdc_views_facts",
        layout=bodies.layout(dialect),
        part=bodies.part(dialect),
        part_column=f"{quote}_part{quote}",
        landed="_landed",
    )
    return f'{{%- set facts = "_cdc_views_facts" -%}}\n{facts}{reduced}\n) AS _cdc_views_state'
