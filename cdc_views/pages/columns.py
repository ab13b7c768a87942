"""The columns of a table: types, roles, fidelity and policy; where each comes from; the view's SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from cdc_views.errors import UnsupportedError
from cdc_views.operations.context import TableContext
from cdc_views.operations.fidelity import FidelityLine, fidelity_of
from cdc_views.operations.generating import generate_view
from cdc_views.operations.statements import run_statement
from cdc_views.pages.texts import masked_columns
from cdc_views.plan.lineage import Lineage, lineage_of

DRAWN = 40
"""Columns whose origin is drawn."""


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A column: `fidelity` is its verdict, None where the format has none for it."""

    name: str
    type: str
    role: str
    description: str
    fidelity: FidelityLine | None
    is_masked: bool


@dataclass(frozen=True, slots=True)
class ViewText:
    """The statement that creates the view in one dialect, or why there is none."""

    dialect: str
    sql: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class NullCounts:
    """The rows of the view, and in how many of them each column that is no key is null."""

    rows: int
    nulls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ColumnsPage:
    """The columns; `of_rows` are verdicts on whole rows, `texts` the view in each dialect that was asked for. `counted`: None
    unless it was asked for.
    """

    columns: tuple[ColumnLine, ...]
    of_rows: tuple[FidelityLine, ...]
    lineage: Lineage
    texts: tuple[ViewText, ...]
    description: str
    counted: NullCounts | None = None


def columns_page(table: TableContext, dialects: Sequence[str] = (), *, counted: NullCounts | None = None) -> ColumnsPage:
    """Return the page, with the view in these dialects (default: the one of the project's engine); reads no rows."""
    lines = fidelity_of(table)
    verdicts = {line.column: line for line in lines}
    masked = masked_columns(table)
    columns = tuple(
        ColumnLine(c.name, str(c.type), c.role.value, c.description, verdicts.get(c.name), c.name in masked)
        for c in table.schema.columns
    )
    known = {column.name for column in columns}
    others = tuple(line for line in lines if line.column not in known)
    texts = tuple(_text(table, name) for name in dialects or (table.project.config.engine,))
    drawn = tuple(column.name for column in columns[:DRAWN])
    return ColumnsPage(columns, others, lineage_of(table.relation, drawn), texts, table.schema.description, counted)


def null_counts(table: TableContext, *, as_of: int) -> NullCounts:
    """Return the counts; the engine reads the whole view. Raises `UnsupportedError` for an engine that runs no statements."""
    dialect = table.project.engine_plugin.statement_dialect
    others = [column.name for column in table.schema.columns if not column.is_key]
    counts = [exp.alias_(exp.Count(this=exp.column(name, quoted=True)), f"n{n}") for n, name in enumerate(others)]
    parts = [exp.to_identifier(part, quoted=True) for part in reversed(table.name.split("."))]
    place = exp.Table(**dict(zip(("this", "db", "catalog"), parts, strict=False)))
    query = exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows"), *counts).from_(place)
    (row,) = run_statement(table.project, query.sql(dialect=dialect), as_of=as_of)
    return NullCounts(row["rows"], {name: row["rows"] - row[f"n{n}"] for n, name in enumerate(others)})


def _text(table: TableContext, dialect: str) -> ViewText:
    try:
        return ViewText(dialect, generate_view(table, dialect))
    except UnsupportedError as error:
        return ViewText(dialect, "", refusal=str(error))
