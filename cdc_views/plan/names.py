"""Names of columns that plans compute; all start with `_`, which no physical column name does."""

from __future__ import annotations

from cdc_views.model.naming import KIND as RAW_KIND
from cdc_views.model.naming import bytes_name, key_name, physical_name
from cdc_views.model.schema import Column, Role
from cdc_views.model.types import LogicalType, Udt, carries_comparable, reads_from_bytes

KIND, LIVE, DELETED, FROM, TO, LANDED = RAW_KIND, "_live", "_deleted", "_from", "_to", "_landed_at"
FILE, POSITION = "_file", "_position"
"""Of a stored row: its file as the engine names it, and its position in the file, from 0."""
SCOPE = "_cutoff"
"""The largest deletion that covers a row: its own, its ranges', its partition's, its table's (rule D2)."""
RANGES = "_ranges"
TABLE_DELETED = "_table_deleted"
PARTITION_DELETED = "_partition_deleted"
COVER, OWN_DELETED = "_cover", "_own_deleted"
"""In a state's row: the largest deletion of its partition and ranges; its own deletion if that is larger."""
IS_ROW = "_is_row"
HAS_ROW = "_has_row"
EXISTS, HAS_MARKER = "_exists", "_has_marker"
"""Whether a row exists (rule W2), and whether its row marker is live (W1)."""
LOG_POSITION = "_log_position"
"""The write time of an event (S1), its place in the source's log (S2)."""
ELEMENT = "_element"
PATH_KEY = "_path_key"
"""The identity of an element of a multi-cell column; null for an element of 0 bytes."""
SOONEST = "_soonest"
"""The time when expiry next changes a row, as a negated rank (`plan.order.cell_expiry`); null for never."""
INSTANT, NOW_RANK = "_instant", "_now_rank"
"""An instant of the source's time in a history (µs, or a position); the least rank that is still live then, or now (rule C4)."""
VALID_FROM, VALID_TO = "_valid_from", "_valid_to"
LANDED_FROM = "_landed_from"
"""In a version: the landing time of the fact that began it."""


def identity(column: Column) -> str:
    """Return the physical column that identifies and orders a key (rules K1, K2)."""
    return key_name(column.name) if carries_comparable(column.type) else physical_name(column.name)


def grouping(column: Column) -> tuple[str, ...]:
    """Return the columns to group by for one key column; for a partition key also its value, whose predicates reach the scan."""
    value, key = physical_name(column.name), identity(column)
    return (value, key) if column.role is Role.PARTITION and value != key else (key,)  # equal bytes have one value


def shown_as(column: Column) -> tuple[str, ...]:
    """Return the columns that show a key: its value, and its bytes where raw tables store them."""
    value = physical_name(column.name)
    return (value, bytes_name(column.name)) if reads_from_bytes(column.type) else (value,)


def view_key(column: Column) -> str:
    """Return the column of a key column's friendly form, which views show and a user's expression reads."""
    return f"_view_{physical_name(column.name)}"


def deletion_of(name: str) -> str:
    """Return the column of a multi-cell column's complex deletion (rule D3)."""
    return f"_deletion_{physical_name(name)}"


def cells_of(name: str) -> str:
    """Return the column of a multi-cell column's reduced elements."""
    return f"_cells_{physical_name(name)}"


def cells(column: Column) -> tuple[tuple[str, str, LogicalType], ...]:
    """Return (plan column, field of the stored struct, value type) of each single cell of a column.

    A simple column is one cell with field `""`. A multi-cell user type has one cell per field. Lists, sets and maps have none.
    """
    name = physical_name(column.name)
    if not column.type.is_multicell:
        return ((name, "", column.type),)
    fields = column.type.fields if isinstance(column.type, Udt) else ()
    return tuple((f"_field_{name}_{i}", physical_name(field), kind) for i, (field, kind) in enumerate(fields))


def shows(name: str) -> str:
    """Return the column that holds whether the winner in column `name` shows."""
    return f"_shows_{name}"
