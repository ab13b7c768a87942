"""The generated macro files: for each table and adapter the plan's SQL, behind one name that dbt dispatches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdc_views.errors import UnsupportedError
from cdc_views.export.dbt.bodies import DIALECTS, Bodies
from cdc_views.export.dbt.jinja import value
from cdc_views.export.dbt.naming import dbt_name
from cdc_views.export.exporting import mark_of
from cdc_views.storage.relation import Relation

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


__all__ = ["COMMAND", "MARK", "macro_name", "registry", "table_macros"]
