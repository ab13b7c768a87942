"""Statements around a query: templates hold the envelopes, everything relational comes rendered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

import jinja2
from sqlglot import exp

from cdc_views.sql.dialects.base import Dialect, identifier
from cdc_views.storage.relation import LAYOUT_VERSION, Relation


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def template_folder() -> str:
    """Return where the templates are: inside an installed package, beside it in a checkout."""
    packaged = resources.files("cdc_views") / "_templates"
    beside = Path(str(resources.files("cdc_views"))).parent / "templates"
    return str(packaged) if packaged.is_dir() else str(beside)


def envelope(template: str, **values: object) -> str:
    """Return a statement from its template; relational logic and identifiers come rendered."""
    return _environment().get_template(template).render(**values)


def create_view(
    dialect: Dialect,
    relation: Relation,
    *,
    view: tuple[str, str],
    query: exp.Select,
    names: tuple[tuple[str, str], ...],
    notes: list[str],
    casts: Mapping[str, exp.DataType],
) -> str:
    """Return `CREATE OR REPLACE VIEW` of `query`, its columns under the users' names.

    `casts` are types by user name. A value that does not fit its type fails the query that reads it: never a null.
    """
    shown = named(query, names, casts=casts)
    target = exp.Table(this=identifier(view[1]), db=identifier(view[0]) if view[0] else None)
    schema = relation.schema
    return envelope(
        "create_view.sql.j2",
        view=target.sql(dialect=dialect.sqlglot_name),
        schema_name=identifier(view[0]).sql(dialect=dialect.sqlglot_name) if view[0] else "",
        query=dialect.printed(shown),
        table=_comment(schema.full_name),
        grain=_comment(", ".join(c.name for c in schema.row_key)),
        has_statics=bool(schema.statics),
        layout=LAYOUT_VERSION,
        notes=[_comment(note) for note in notes if note],
    )


def named(query: exp.Select, names: tuple[tuple[str, str], ...], *, casts: Mapping[str, exp.DataType]) -> exp.Select:
    """Return `query` with its columns under the users' names; `names` are (user name, output column) in order."""
    columns: list[exp.Expr] = []
    for name, output in names:
        value = exp.column(identifier(output))
        columns.append(exp.alias_(exp.cast(value, casts[name]) if name in casts else value, identifier(name)))
    return exp.select(*columns).from_(query.subquery(identifier("_merged"), copy=False), copy=False)


def _comment(text: str) -> str:
    """Text that cannot end a line comment early."""
    return " ".join(text.split())
