"""What Debezium's Cassandra connector cannot carry, by column, with the captured statements that show it."""

from __future__ import annotations

from cdc_views.formats.base import Fidelity, Verdict
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, SetOf, Udt, contains

_ROWS = (
    Fidelity(
        "*",
        Verdict.UNSAFE,
        "a batch that deletes a row and writes it again sends only the deletion: the row is missing",
        "insert_and_delete_same_row",
    ),
    Fidelity(
        "*",
        Verdict.APPROXIMATE,
        "one write time for all of a row: the latest of its cells and marker, so that an older cell of a batch with several "
        "wins over what was written since",
        "batch_mixed_ts",
    ),
    Fidelity(
        "*",
        Verdict.APPROXIMATE,
        "a row marker's expiry is taken from the row's cells: an INSERT with a TTL of only the key, or of nulls, never expires",
        "insert_ttl",
    ),
    Fidelity(
        "*",
        Verdict.APPROXIMATE,
        "snapshot reads have the time of the read, not of the write: they rank below everything streamed and fill gaps only, "
        "so a deletion streamed later hides them even where it is the older write",
        "S5",
    ),
)
_MULTICELL_UDT = Fidelity(
    "*",
    Verdict.UNSAFE,
    "the connector throws on a row whose table has a user type that is not frozen: its events never arrive",
    "none",
)
_ONE_TIME = (
    "every partition update has one write time, and no two writes tie on write time and expiry with different times to live "
    "(rule C2.5; a time to live is not carried, what is left of the expiry stands for it)"
)
_STATIC = (Verdict.UNSAFE, "static columns are never sent: the value never arrives", "static, static_and_row")
_SHAPES: dict[type[LogicalType], tuple[Verdict, str, str]] = {  # multi-cell columns
    SetOf: (
        Verdict.UNSAFE,
        "UPDATE sends the elements it added, removed or set alike: read as added, so a removed element shows again and a "
        "replaced set keeps its older elements; INSERT and null are exact",
        "set_remove, set_overwrite",
    ),
    ListOf: (
        Verdict.UNSAFE,
        "UPDATE sends the elements it appended, prepended, set or removed alike and without their places: read as appended; "
        "INSERT and null are exact",
        "list_set_idx",
    ),
    MapOf: (
        Verdict.EXACT_IF,
        "no UPDATE assigns the whole map: it looks like one that adds entries, so older keys stay (as set_overwrite shows of a "
        "set); and " + _ONE_TIME,
        "map_put, map_remove",
    ),
    Udt: (Verdict.UNSAFE, "the connector throws on a user type that is not frozen: no event of the row arrives", "none"),
}
_KINDS: dict[Kind, tuple[Verdict, str, str]] = {
    Kind.DECIMAL: (
        Verdict.APPROXIMATE,
        "a double by default: 15 to 17 digits, and the scale is lost (12.340 came as 12.34); decimal.handling.mode=precise or "
        "string keeps both",
        "types",
    ),
    Kind.DURATION: (Verdict.APPROXIMATE, "a duration comes as nanoseconds, a month as 30.4375 days", "none"),
    Kind.VARINT: (Verdict.EXACT_IF, "it fits 64 bits, or varint.handling.mode is not long; and " + _ONE_TIME, "batch_mixed_ts"),
}
_SIMPLE = (Verdict.EXACT_IF, _ONE_TIME, "batch_mixed_ts, insert_ttl, update_ttl")
_KEY = (Verdict.EXACT, "the key names the row", "insert")


def cassandra_fidelity(schema: TableSchema) -> list[Fidelity]:
    """Return the verdicts of `debezium-cassandra` for a table: first `*`, then one per column."""
    rows = list(_ROWS)
    if any(isinstance(c.type, Udt) and c.type.is_multicell for c in schema.columns):
        rows.insert(0, _MULTICELL_UDT)
    return [*rows, *(Fidelity(column.name, *_verdict(column)) for column in schema.columns)]


def _verdict(column: Column) -> tuple[Verdict, str, str]:
    if column.role is Role.STATIC:
        return _STATIC
    if column.type.is_multicell:
        return _SHAPES[type(column.type)]
    found = next((verdict for kind, verdict in _KINDS.items() if contains(column.type, kind)), None)
    return found or (_KEY if column.is_key else _SIMPLE)
