"""The rows of a table, a page at a time: the engine filters, sorts and leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import UsageError
from cdc_views.model.conditions import Condition
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.operations.context import TableContext
from cdc_views.operations.explained import json_object
from cdc_views.operations.querying import query_table
from cdc_views.operations.reading import is_sortable
from cdc_views.pages.texts import MASKED, ShownValue, masked_columns, shown_value
from cdc_views.plan.names import view_key
from cdc_views.plan.walk import columns_used
from cdc_views.plan.where import parse_where

PAGE = 50
"""Rows of a page."""
ACROSS = 40
"""Columns of a page besides the key: more are on pages of their own."""
LONGEST_KEY = 3_000
"""Letters of a key that a link can hold."""


@dataclass(frozen=True, slots=True)
class RowsAsked:
    """What a reader asked for; instants as `query` takes them, empty for none. `order` is a column, `-` before it: descending."""

    where: str = ""
    order: str = ""
    offset: int = 0
    first_column: int = 0
    as_of: str = ""
    landed_as_of: str = ""
    written_as_of: str = ""

    def clocks(self) -> dict[str, str]:
        """Return the instants that were given, by the names of `query`'s arguments."""
        found = {"as_of": self.as_of, "landed_as_of": self.landed_as_of, "written_as_of": self.written_as_of}
        return {name: instant for name, instant in found.items() if instant}


@dataclass(frozen=True, slots=True)
class RowsColumn:
    """A column of the page; `order` is what a click on its name asks for, empty if rows cannot be sorted by it."""

    name: str
    type: str
    is_key: bool
    order: str = ""
    sorted: str = ""


@dataclass(frozen=True, slots=True)
class PageRow:
    """One row: its key as JSON, empty if it is too long for a link, and its values in the order of the page's columns."""

    key: str
    values: tuple[ShownValue, ...]


@dataclass(frozen=True, slots=True)
class RowsPage:
    """A page of rows at the instant `as_of` (epoch seconds); `columns_in_all` counts those besides the key."""

    asked: RowsAsked
    as_of: int
    columns: tuple[RowsColumn, ...]
    columns_in_all: int
    rows: tuple[PageRow, ...]
    has_more: bool
    note: str


def rows_page(table: TableContext, asked: RowsAsked, *, as_of: int, page: int = PAGE) -> RowsPage:
    """Return the page; raises as `query` does, and `UsageError` for a condition or order that reads a masked column."""
    masked, schema = masked_columns(table), table.schema
    _check_seen(table, asked, masked)
    others = [column for column in schema.columns if not column.is_key]
    start = min(max(asked.first_column, 0), max(len(others) - 1, 0)) // ACROSS * ACROSS
    columns = [*schema.row_key, *others[start : start + ACROSS]]
    clocks: dict[str, Any] = {"as_of": as_of, **asked.clocks()}
    found = query_table(
        table,
        where=asked.where or None,
        columns=[column.name for column in columns],
        limit=page + 1,
        offset=asked.offset,
        order_by=[asked.order] if asked.order else [],
        **clocks,
    )
    rows = [_page_row(schema, columns, row, masked) for row in found.json_rows()]
    shown = tuple(_column(table, column, asked.order, masked) for column in columns)
    return RowsPage(asked, found.as_of, shown, len(others), tuple(rows[:page]), len(rows) > page, found.note)


def key_text(schema: TableSchema, row: Mapping[str, str]) -> str:
    """Return the key of a row of JSON texts, as `explain` takes it: of the partition alone for statics without a row (W3)."""
    is_static = any(row[column.name] == "null" for column in schema.clustering)
    return json_object((c.name, row[c.name]) for c in (schema.partition if is_static else schema.row_key))


def _page_row(schema: TableSchema, columns: Iterable[Column], row: Mapping[str, str], masked: frozenset[str]) -> PageRow:
    key = key_text(schema, row)
    values = tuple(MASKED if c.name in masked and row[c.name] != "null" else shown_value(row[c.name]) for c in columns)
    return PageRow(key if len(key) <= LONGEST_KEY else "", values)


def _column(table: TableContext, column: Column, order: str, masked: frozenset[str]) -> RowsColumn:
    can = column.name not in masked and (column.is_key or is_sortable(table.relation.shown.column(column.name)))
    now = {column.name: "ascending", f"-{column.name}": "descending"}.get(order, "")
    following = {"": column.name, "ascending": f"-{column.name}", "descending": ""}[now]
    return RowsColumn(column.name, str(column.type), column.is_key, following if can else "", now if can else "")


def _check_seen(table: TableContext, asked: RowsAsked, masked: frozenset[str]) -> None:
    """Refuse what would tell values of masked columns by which rows it finds."""
    if not masked:
        return
    used = set()
    if asked.where:
        used = {column.name for column in columns_used(parse_where(table.relation.shown, Condition(asked.where)))}
    for column in table.schema.columns:
        stored = view_key(column) if column.is_key else physical_name(column.name)
        if column.name in masked and (stored in used or asked.order in (column.name, f"-{column.name}")):
            raise UsageError(
                f"{table.name}: column {column.name!r} is masked; rows can be neither filtered nor sorted by it here"
            )
