"""Rows in Avro; schemas are registered after the registry found them compatible with the topic's earlier ones.

Every column outside the key is nullable with null as its default, so columns can be added and removed; the registry refuses
a changed type. Avro cannot leave a field out, so a large value that an update did not change is Debezium's placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro

from cdc_producers.kafka.avro import physical
from cdc_producers.kafka.registry import Registry
from cdc_producers.kafka.rows import Encoder
from cdc_views.errors import MalformedEventError, UnsupportedError
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, VectorOf
from cdc_views.rules.codec.times import duration_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRECISION = 64
_MARK = "__debezium_unavailable_value"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
Json = dict[str, Any] | str
Convert = Callable[[Any], Any]


class AvroEncoder(Encoder):
    """Keys and rows of one topic, framed with their schemas' ids."""

    def __init__(self, schema: TableSchema, topic: str, registry: Registry) -> None:
        """Register both schemas; raises as `Registry.register` does, and `UnsupportedError` for a type that Avro lacks."""
        space = re.sub(r"[^A-Za-z0-9_.]", "_", topic)
        self._key_names = [column.name for column in schema.row_key]
        self._key = _Framed(schema, schema.row_key, f"{space}.Key", f"{topic}-key", registry)
        self._row = _Framed(schema, schema.columns, f"{space}.Value", f"{topic}-value", registry)
        self._absent = {c.name: _placeholder(c.type) for c in schema.columns if not c.is_key}

    def key(self, values: Sequence[Any]) -> bytes:
        return self._key.framed(dict(zip(self._key_names, values, strict=True)))

    def row(self, values: dict[str, Any]) -> bytes:
        return self._row.framed(values, absent=self._absent)


class _Framed:
    """One registered record schema of some columns; writes their values in the wire format."""

    def __init__(self, table: TableSchema, columns: Sequence[Column], name: str, subject: str, registry: Registry) -> None:
        self._table = table.full_name
        self._has_variable = False
        self._converts: dict[str, Convert] = {}
        space, _, last = name.rpartition(".")
        schema = {"type": "record", "name": last, "namespace": space, "fields": [self._field(column) for column in columns]}
        self._parsed = fastavro.parse_schema(physical(schema))
        self._head = b"\0" + registry.register(subject, schema).to_bytes(4, "big")

    def framed(self, values: dict[str, Any], *, absent: Mapping[str, Any] | None = None) -> bytes:
        """Return a record's bytes; `absent` has the Avro values of columns without a value."""
        record = {**(absent or {}), **{name: _or_null(self._converts[name], value) for name, value in values.items()}}
        stream = BytesIO(self._head)
        stream.seek(len(self._head))
        try:
            fastavro.schemaless_writer(stream, self._parsed, record)
        except (ValueError, TypeError, OverflowError) as error:
            raise MalformedEventError(f"a value does not fit the Avro schema: {error}") from error
        return stream.getvalue()

    def _field(self, column: Column) -> Json:
        if not _NAME.match(column.name):
            raise UnsupportedError(
                f"{self._table}: column {column.name!r} has a name that Avro has not",
                remedy="publish it with --output-format json",
            )
        kind, self._converts[column.name] = self._type(column.type, column.name)
        if column.is_key:
            return {"name": column.name, "type": kind}
        return {"name": column.name, "type": ["null", kind], "default": None}

    def _type(self, kind: LogicalType, name: str) -> tuple[Json, Convert]:
        if isinstance(kind, ListOf | SetOf | VectorOf):
            inner, convert = self._type(kind.element, name)
            return {"type": "array", "items": ["null", inner]}, lambda items: [_or_null(convert, item) for item in items]
        if isinstance(kind, MapOf) and kind.key == Scalar(Kind.TEXT):
            inner, convert = self._type(kind.value, name)
            return {"type": "map", "values": ["null", inner]}, lambda pairs: {k: _or_null(convert, v) for k, v in pairs}
        if not isinstance(kind, Scalar):
            raise UnsupportedError(f"{self._table}: column {name!r} is a {kind}", remedy="publish it with --output-format json")
        if kind.kind is Kind.DECIMAL:
            return self._decimal(kind.scale)
        return _SCALARS[kind.kind]

    def _decimal(self, scale: int | None) -> tuple[Json, Convert]:
        if scale is not None:
            schema: Json = {"type": "bytes", "logicalType": "decimal", "precision": _PRECISION, "scale": scale}
            return schema, lambda value: _unscaled(value, scale)
        if self._has_variable:
            return _VARIABLE, _variable
        self._has_variable = True
        space, _, name = _VARIABLE.rpartition(".")
        parts = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
        return {"type": "record", "name": name, "namespace": space, "connect.name": _VARIABLE, "fields": parts}, _variable


def _or_null(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _placeholder(kind: LogicalType) -> Any:
    """Return the value of a column that was not changed; logs leave out only large values."""
    if isinstance(kind, Scalar):
        return {Kind.TEXT: _MARK, Kind.ASCII: _MARK, Kind.JSON: _MARK, Kind.BLOB: _MARK.encode()}.get(kind.kind)
    return [_MARK] if isinstance(kind, ListOf) and kind.element == Scalar(Kind.TEXT) else None


def _signed(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _unscaled(value: Decimal, scale: int) -> bytes:
    number = value.scaleb(scale) if value.adjusted() < 1000 else value
    if number != int(number):
        raise MalformedEventError(f"a decimal has more than {scale} digits after the point")
    return _signed(int(number))


def _variable(value: Decimal) -> dict[str, Any]:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    return {"scale": -int(exponent), "value": _signed(-number if sign else number)}


def _same(value: Any) -> Any:
    return value


_SCALARS: dict[Kind, tuple[Json, Convert]] = {
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT), ("int", _same)),
    Kind.BIGINT: ("long", _same),
    Kind.VARINT: ({"type": "bytes", "logicalType": "decimal", "precision": _PRECISION, "scale": 0}, _signed),
    Kind.FLOAT: ("float", _same),
    Kind.DOUBLE: ("double", _same),
    Kind.BOOLEAN: ("boolean", _same),
    **dict.fromkeys((Kind.TEXT, Kind.ASCII, Kind.INET), ("string", _same)),
    Kind.JSON: ({"type": "string", "connect.name": "io.debezium.data.Json"}, _same),
    **dict.fromkeys((Kind.UUID, Kind.TIMEUUID), ({"type": "string", "logicalType": "uuid"}, str)),
    Kind.BLOB: ("bytes", _same),
    Kind.DATE: ({"type": "int", "logicalType": "date"}, _same),
    Kind.TIME: ({"type": "long", "connect.name": "io.debezium.time.NanoTime"}, _same),
    Kind.TIMESTAMP: ({"type": "long", "logicalType": "timestamp-millis"}, _same),
    Kind.DATETIME: ({"type": "long", "logicalType": "local-timestamp-micros"}, _same),
    Kind.INSTANT: ({"type": "long", "logicalType": "timestamp-micros"}, _same),
    Kind.DURATION: ("string", lambda value: duration_text(value) or "0s"),
}
