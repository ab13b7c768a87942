"""The columns of a table: types, roles, fidelity and policy; where each comes from; the view's SQL."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.errors import UnsupportedError
from cdc_views.operations.context import TableContext
from cdc_views.operations.fidelity import FidelityLine, fidelity_of
from cdc_views.operations.generating import generate_view
from cdc_views.pages.lineage import Lineage, lineage_of
from cdc_views.pages.texts import masked_columns

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
class ColumnsPage:
    """The columns; `of_rows` are verdicts on whole rows. `sql` is the view's text, or empty with the reason in `refusal`."""

    columns: tuple[ColumnLine, ...]
    of_rows: tuple[FidelityLine, ...]
    lineage: Lineage
    dialect: str
    sql: str
    refusal: str
    description: str


def columns_page(table: TableContext) -> ColumnsPage:
    """Return the page; reads no rows."""
    lines = fidelity_of(table)
    verdicts = {line.column: line for line in lines}
    masked = masked_columns(table)
    columns = tuple(
        ColumnLine(c.name, str(c.type), c.role.value, c.description, verdicts.get(c.name), c.name in masked)
        for c in table.schema.columns
    )
    known = {column.name for column in columns}
    others = tuple(line for line in lines if line.column not in known)
    dialect, sql, refusal = table.project.config.engine, "", ""
    try:
        sql = generate_view(table, dialect)
    except UnsupportedError as error:
        refusal = str(error)
    drawn = tuple(column.name for column in columns[:DRAWN])
    return ColumnsPage(columns, others, lineage_of(table.relation, drawn), dialect, sql, refusal, table.schema.description)
