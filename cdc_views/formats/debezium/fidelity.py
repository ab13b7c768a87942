"""What Debezium's relational events can carry of each column, and under which condition."""

from __future__ import annotations

from cdc_views.formats.base import Fidelity, Verdict
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar, contains

_ROWS = (
    Fidelity(
        "*",
        Verdict.EXACT_IF,
        "the source never fails over to a log that starts again below its old positions, and all events of the table "
        "come from one log: the order is source.lsn (PostgreSQL) or binlog file, position and row (MySQL, MariaDB)",
        "S2",
    ),
    Fidelity(
        "*",
        Verdict.EXACT_IF,
        "unwrapped events (ExtractNewRecordState) carry their position (add.fields=op,lsn or op,file,pos,row); without, the "
        "order is the Kafka offset, and without that the line, which orders one file only; deletions need "
        "delete.tombstone.handling.mode=rewrite, or tombstones",
        "debezium_pg_ExtractNewRecordState",
    ),
    Fidelity(
        "*",
        Verdict.EXACT_IF,
        "no transaction that changed the row was open when the snapshot began (its changes can lie before the snapshot's "
        "position), and no statement moves several rows along one deferrable key (each move is a deletion and an insert)",
        "S5, S3",
    ),
)

_TOAST = (
    "no update both changes the row's key and leaves a value over 2 kB unchanged: PostgreSQL does not send such a value, and "
    "the new key's row then has none (REPLICA IDENTITY FULL sends it)"
)
_UNITS = (
    "the unit of its numbers is declared: schemas enabled, time.precision.mode=isostring, or `units` given; else magnitude "
    "decides, wrongly for "
)
_SCALARS: dict[Kind, tuple[Verdict, str, str]] = {
    Kind.TEXT: (
        Verdict.EXACT_IF,
        _TOAST + "; an interval is the number or text that was sent, a timetz in UTC",
        "S4: debezium_pg_default, toast",
    ),
    **dict.fromkeys((Kind.ASCII, Kind.JSON), (Verdict.EXACT_IF, _TOAST, "S4")),
    Kind.BLOB: (
        Verdict.EXACT_IF,
        "schemas are enabled or `binary` is given: else text of pairs of lower-case hex digits is read as hex, which base64 of "
        "3 bytes is once in 256; BIT(n) holds Debezium's little-endian bytes, a geometry its well-known binary; and " + _TOAST,
        "debezium_pg_decimal_string_time_isostring_binary_hex, by",
    ),
    Kind.DECIMAL: (
        Verdict.EXACT_IF,
        "decimal.handling.mode is not double (double rounds to 15 to 17 digits and loses the scale). Always: base64 without a "
        "scale (from enabled schemas, the schema file or the option `scales`), NaN and infinities go to quarantine",
        "debezium_pg_ExtractNewRecordState, n_unb",
    ),
    Kind.VARINT: (
        Verdict.EXACT_IF,
        "it is an unsigned bigint: a negative number is read as one that wrapped at 2^64",
        "debezium_mariadb_default, ubig",
    ),
    Kind.TIME: (
        Verdict.EXACT_IF,
        _UNITS + "PostgreSQL's µs of the day's first 86 s; MySQL's are µs unless declared; isostring and connect turn "
        "24:00:00 into 00:00:00 or cut µs",
        "debezium_pg_ExtractNewRecordState, tm",
    ),
    Kind.DATETIME: (
        Verdict.EXACT_IF,
        _UNITS + "µs of November 1966 to March 1973; mode connect cuts it to ms",
        "debezium_pg_ExtractNewRecordState, ts",
    ),
    Kind.INSTANT: (Verdict.EXACT_IF, _UNITS + "numbers (zoned timestamps come as text)", "debezium_pg_default, tstz"),
    Kind.DURATION: (
        Verdict.APPROXIMATE,
        "interval.handling.mode=numeric counts a month as 30.4375 days; mode string is exact",
        "debezium_pg_default, iv",
    ),
}
_MODE_DOUBLE = "decimal.handling.mode is not double (double rounds to 15 to 17 digits). Every mode quarantines NaN and infinities"
_SCALED = (Verdict.EXACT_IF, _MODE_DOUBLE, "debezium_pg_default, n")
_WHOLE = (
    Verdict.EXACT_IF,
    _MODE_DOUBLE + ", and so is a text of digits that is also the base64 of another number, unless schemas are enabled or the "
    "option `decimals` says which",
    "debezium_pg_default, n",
)
_EXACT = (Verdict.EXACT, "the value as the source printed it", "S1")
_NESTED = (Verdict.UNSAFE, "a type that relational sources do not have; read as the key-value format would", "S1")
_DEEP_LIST = (
    Verdict.UNSAFE,
    "Debezium sends null for each inner array: {{1,2},{3,4}} came as [null,null]",
    "debezium_pg_default, ai",
)
_LIST = (
    Verdict.EXACT_IF,
    "no value has more than one dimension (PostgreSQL does not enforce the declared one; Debezium sends null for each inner "
    "array); its elements are as far to be trusted as a column of their type; and " + _TOAST,
    "debezium_pg_default, ai",
)


def debezium_fidelity(schema: TableSchema) -> list[Fidelity]:
    """Return the verdicts of `debezium` for a table: first `*`, then one per column."""
    return [*_ROWS, *(Fidelity(column.name, *_of_type(column.type)) for column in schema.columns)]


def _of_type(kind: LogicalType) -> tuple[Verdict, str, str]:
    if isinstance(kind, Scalar) and kind.scale is not None:
        return _SCALED if kind.scale > 0 else _WHOLE
    if isinstance(kind, Scalar):
        return _SCALARS.get(kind.kind, _EXACT)
    if not isinstance(kind, ListOf):
        return _NESTED
    if isinstance(kind.element, ListOf):
        return _DEEP_LIST
    # intervals lose their months inside an array, too
    return _SCALARS[Kind.DURATION] if contains(kind, Kind.DURATION) else _LIST
