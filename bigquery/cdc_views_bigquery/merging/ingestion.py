"""BigQuery's own change data capture, for sources of whole rows: its changes, and their order.

BigQuery keeps, for each primary key, the row of the largest `_CHANGE_SEQUENCE_NUMBER`. That is rule S1 if every event is a whole
row. It is not rule C2: nothing is merged cell by cell (docs/internals/bigquery-merge.md lists what it cannot do).

Source: BigQuery, Stream table updates with change data capture ingestion, `_CHANGE_SEQUENCE_NUMBER` format: up to four
sections of hexadecimal digits with `/` between them, at most 16 digits each, compared as unsigned numbers from the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import UnsupportedError
from cdc_views.formats.base import WriteOrder
from cdc_views.model.naming import held_name
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.storage.relation import Relation

CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"
UPSERT, DELETE = "UPSERT", "DELETE"
MOST_KEY_COLUMNS = 16
"""Source: as above, Limitations."""
MOST_COLUMNS = 2_000
"""Source: as above, Limitations: top-level columns of a table with active change data capture."""
_SECTION = 1 << 64
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class Change:
    """One change: UPSERT or DELETE, its sequence number, and the row by the users' column names (for a DELETE, the key)."""

    kind: str
    sequence: str
    row: dict[str, Any]


def sequence_number(written: int, order: WriteOrder, *, deletes: bool = False) -> str:
    """Return the `_CHANGE_SEQUENCE_NUMBER` of a write time: larger if it is later, and in a tie if it deletes (D1).

    Log positions take two sections: the epoch with the high half of the position, then the rest. Write times in µs may be
    negative, so their sign bit is flipped. The last section decides ties.

    >>> sequence_number(5, WriteOrder.LOG_POSITION), sequence_number((1 << 96) + 5, WriteOrder.LOG_POSITION, deletes=True)
    ('0/5/0', '100000000/5/1')
    >>> sequence_number(-1, WriteOrder.MICROS)
    '7FFFFFFFFFFFFFFF/0'
    """
    if order is WriteOrder.MICROS:
        return f"{written + _SIGN:X}/{deletes:X}"
    high, low = divmod(written, _SECTION)
    return f"{high:X}/{low:X}/{deletes:X}"


def check_whole_rows(relation: Relation) -> None:
    """Raise `UnsupportedError` for a table that BigQuery's change data capture would get wrong."""
    schema, found = relation.schema, ""
    if relation.order is not WriteOrder.LOG_POSITION:
        found = "has write times cell by cell, and of two writes of a row BigQuery keeps the columns of one alone"
    elif len(schema.row_key) > MOST_KEY_COLUMNS:
        found = f"has {len(schema.row_key)} key columns, and BigQuery takes {MOST_KEY_COLUMNS}"
    elif len(schema.columns) > MOST_COLUMNS:
        found = f"has {len(schema.columns):,} columns, and BigQuery takes {MOST_COLUMNS:,} with change data capture"
    if found:
        raise UnsupportedError(f"{schema.full_name} {found}", remedy="land raw events and keep the state by the merge script")


def changes_of(relation: Relation, fact: Fact) -> Iterator[Change]:
    """Yield the change of a whole-row source's fact, if the fact concerns a row.

    Raises `UnsupportedError` for what UPSERT and DELETE cannot express: a truncate, and a row with absent columns (an unchanged
    TOAST value, rule S4), which BigQuery would overwrite with NULL.
    """
    check_whole_rows(relation)
    schema = relation.schema
    if fact.kind is FactKind.TABLE:
        raise UnsupportedError(
            f"{schema.full_name} was truncated, which is no change of a row", remedy="empty the table by TRUNCATE TABLE"
        )
    key = {held_name(c.name): v for c, v in zip(schema.row_key, fact.partition + fact.clustering, strict=True)}
    if fact.deletion is not None and not fact.cells:
        yield Change(DELETE, sequence_number(fact.deletion.written, relation.order, deletes=True), key)
        return
    absent = [column.name for column in schema.regulars if column.name not in fact.cells]
    if absent:
        raise UnsupportedError(
            f"an event of {schema.full_name} lacks column {absent[0]!r}, and BigQuery would put NULL in its place",
            remedy="set REPLICA IDENTITY FULL at the source, or land raw events and keep the state by the merge script",
        )
    if fact.cells or fact.liveness is not None:
        cells = {held_name(c.name): fact.cells[c.name].value for c in schema.regulars}
        written = max(part.written for part in (*fact.cells.values(), fact.liveness) if part is not None)
        yield Change(UPSERT, sequence_number(written, relation.order), key | cells)
