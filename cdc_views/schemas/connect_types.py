"""Kafka Connect's types, plain and by semantic name, into logical types; shared by the Connect and Avro readers.

Source: Debezium 3.x documentation, "Data type mappings" of the Postgres, MySQL, MariaDB and Cassandra connectors;
Kafka 3.x, org.apache.kafka.connect.data.
"""

from __future__ import annotations

from cdc_views.model.types import Kind, LogicalType, Scalar

_DEBEZIUM = {
    "data.Bits": Kind.BLOB,
    "data.Enum": Kind.TEXT,
    "data.EnumSet": Kind.TEXT,
    "data.Json": Kind.JSON,
    "data.Ltree": Kind.TEXT,
    "data.TsVector": Kind.TEXT,
    "data.Uuid": Kind.UUID,
    "data.VariableScaleDecimal": Kind.DECIMAL,
    "data.Xml": Kind.TEXT,
    "data.geometry.Geography": Kind.BLOB,
    "data.geometry.Geometry": Kind.BLOB,
    "data.geometry.Point": Kind.BLOB,
    "time.Date": Kind.DATE,
    "time.Interval": Kind.TEXT,
    "time.IsoDate": Kind.DATE,
    "time.IsoTime": Kind.TIME,
    "time.IsoTimestamp": Kind.DATETIME,
    "time.MicroDuration": Kind.BIGINT,
    "time.MicroTime": Kind.TIME,
    "time.MicroTimestamp": Kind.DATETIME,
    "time.NanoDuration": Kind.BIGINT,
    "time.NanoTime": Kind.TIME,
    "time.NanoTimestamp": Kind.DATETIME,
    "time.Time": Kind.TIME,
    "time.Timestamp": Kind.DATETIME,
    "time.Year": Kind.INT,
    "time.ZonedTime": Kind.TEXT,
    "time.ZonedTimestamp": Kind.INSTANT,
}
_KAFKA = {"Date": Kind.DATE, "Decimal": Kind.DECIMAL, "Time": Kind.TIME, "Timestamp": Kind.DATETIME}
_BY_NAME = {f"io.debezium.{name}": kind for name, kind in _DEBEZIUM.items()} | {
    f"org.apache.kafka.connect.data.{name}": kind for name, kind in _KAFKA.items()
}

PRECISION = "connect.decimal.precision"
"""The parameter in which Debezium tells a decimal's precision; Connect itself has none."""
_FIXED_DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""The decimal whose schema has the scale; a `VariableScaleDecimal` tells it with each value."""

PLAIN = {
    "boolean": Kind.BOOLEAN,
    "bytes": Kind.BLOB,
    "double": Kind.DOUBLE,
    "float": Kind.FLOAT,
    "float32": Kind.FLOAT,
    "float64": Kind.DOUBLE,
    "int16": Kind.SMALLINT,
    "int32": Kind.INT,
    "int64": Kind.BIGINT,
    "int8": Kind.TINYINT,
    "string": Kind.TEXT,
}
"""Connect's plain types."""


def named_type(name: str, *, parameters: object = None, is_cassandra: bool = False) -> LogicalType | None:
    """Return the type that a schema's semantic `name` means, or None when the name adds nothing to the plain type.

    `parameters` are the schema's own, if it has any: of a `Decimal` they hold the scale.
    A Cassandra `timestamp` goes by `io.debezium.time.Timestamp`, which is a zoneless date-time everywhere else.
    """
    if is_cassandra and name == "io.debezium.time.Timestamp":
        return Scalar(Kind.TIMESTAMP)
    kind = _BY_NAME.get(name)
    if kind is None:
        return None
    return Scalar(kind, scale_of(parameters), number_of(parameters, PRECISION)) if name == _FIXED_DECIMAL else Scalar(kind)


def scale_of(parameters: object) -> int | None:
    """Return the `scale` among a schema's parameters, which Connect writes as text and Avro as a number, or None."""
    return number_of(parameters, "scale")


def number_of(parameters: object, name: str) -> int | None:
    """Return a whole number among a schema's parameters, or None; see `scale_of`."""
    found = parameters.get(name) if isinstance(parameters, dict) else None
    if isinstance(found, str) and found.removeprefix("-").isdecimal():
        return int(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def table_of_envelope(name: str) -> tuple[str, str]:
    """Return (keyspace, table) of a Debezium schema's name, `<topic prefix>.<keyspace>.<table>.Envelope`.

    Both are empty where the name has another form.
    """
    parts = name.split(".")
    if len(parts) < 3 or parts[-1] not in {"Envelope", "Value", "Key"}:
        return "", ""
    return parts[-3], parts[-2]
