"""What a table was at an instant, and what changed between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cdc_views.formats.base import WriteOrder
from cdc_views.operations.context import TableContext
from cdc_views.operations.querying import streamed_query
from cdc_views.pages.rows import LONGEST_KEY, key_text
from cdc_views.pages.texts import MASKED, ShownValue, masked_columns, shown_value
from cdc_views.rules.instants import Instant
from cdc_views.state.tail import committed_at, last_landed
from cdc_views.storage.table_log import TableLog

MOST_CHANGES = 60
MOST_CELLS = 400_000
"""Cells of each side that are compared: in this process, so that memory stays bounded."""
_Rows = dict[str, dict[str, str]]
"""Rows of JSON texts by their key's, in the order of `query`."""


@dataclass(frozen=True, slots=True)
class CellChange:
    """A column that differs between two instants."""

    column: str
    before: ShownValue
    after: ShownValue


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that differs; `what` is new, gone or changed."""

    key: str
    what: str
    cells: tuple[CellChange, ...]


@dataclass(frozen=True, slots=True)
class InstantsPage:
    """The span of landings (ms; None if unknown), and what changed between two instants if they were given: `compared` rows;
    not `is_whole`: there are more rows, or more changes. `is_micros`: write times are times.
    """

    first: int | None
    last: int | None
    is_micros: bool
    changes: tuple[RowChange, ...] | None = None
    compared: int = 0
    is_whole: bool = True


def instants_page(
    table: TableContext, before: Mapping[str, Instant] | None = None, after: Mapping[str, Instant] | None = None
) -> InstantsPage:
    """Return the page; `before` and `after` are the instants of `query` to compare, by argument."""
    log = None if table.project.is_remote else TableLog.find(table.raw.location)
    first, last = (None, None) if log is None else (committed_at(log, max(0, log.checkpoint_version)), last_landed(log))
    is_micros = table.format.order is WriteOrder.MICROS
    if before is None or after is None:
        return InstantsPage(first, last, is_micros)
    most = max(100, MOST_CELLS // len(table.schema.columns))
    old, new = _rows(table, before, most), _rows(table, after, most)
    is_cut = len(old) > most or len(new) > most
    if is_cut:
        old, new = _until_common(old, new), _until_common(new, old)
    found = list(islice(_changes(table, old, new), MOST_CHANGES + 1))
    compared = len(old.keys() | new.keys())
    return InstantsPage(first, last, is_micros, tuple(found[:MOST_CHANGES]), compared, not is_cut and len(found) <= MOST_CHANGES)


def _rows(table: TableContext, clocks: Mapping[str, Instant], most: int) -> _Rows:
    given: dict[str, Any] = dict(clocks)
    with streamed_query(table, limit=most + 1, **given) as answer:
        return {key_text(table.schema, row): row for row in answer.json_rows()}


def _until_common(rows: _Rows, others: _Rows) -> _Rows:
    """Return the rows up to the last that both have: of what comes after, the other side may just not have been read."""
    last = max((place for place, key in enumerate(rows) if key in others), default=-1)
    return dict(islice(rows.items(), last + 1))


def _changes(table: TableContext, old: _Rows, new: _Rows) -> Iterator[RowChange]:
    masked = masked_columns(table)
    names = [column.name for column in table.schema.columns if not column.is_key]

    def shown(name: str, row: Mapping[str, str] | None) -> ShownValue:
        text = "null" if row is None else row[name]
        return MASKED if name in masked and text != "null" else shown_value(text)

    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        pairs = [(name, (before or {}).get(name, "null"), (after or {}).get(name, "null")) for name in names]
        cells = tuple(CellChange(name, shown(name, before), shown(name, after)) for name, a, b in pairs if a != b)
        what = "new" if before is None else "gone" if after is None else "changed"
        yield RowChange(key if len(key) <= LONGEST_KEY else "", what, cells)
