"""The reader of Kafka Connect schemas, as the JSON converter writes them with `schemas.enable`.

A JSON file, or each line of a JSON-lines file, is a value's schema (`{"type": "struct", "fields": …}`), a value with its schema
(`{"schema": …, "payload": …}`), or `{"key": …, "value": …}` of either. The columns are the fields of a Debezium envelope's
`after`, else of the struct. The key is the key's schema, or `key_columns`.
Source: Debezium 3.x documentation, "Data type mappings" of the Postgres, MySQL, MariaDB and Cassandra connectors; Kafka 3.x,
org.apache.kafka.connect.data.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from cdc_views.errors import SchemaError, did_you_mean
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, Udt
from cdc_views.schemas.catalog import Catalog, build_catalog, full_name

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
JsonObject: TypeAlias = dict[str, Json]

_NAMES = {
    "io.debezium.data.": {
        Kind.BLOB: "Bits geometry.Geography geometry.Geometry geometry.Point",
        Kind.DECIMAL: "VariableScaleDecimal",
        Kind.JSON: "Json",
        Kind.TEXT: "Enum EnumSet Ltree TsVector Xml",
        Kind.UUID: "Uuid",
    },
    "io.debezium.time.": {
        Kind.BIGINT: "MicroDuration NanoDuration",
        Kind.DATE: "Date IsoDate",
        Kind.DATETIME: "IsoTimestamp MicroTimestamp NanoTimestamp Timestamp",
        Kind.INSTANT: "ZonedTimestamp",
        Kind.INT: "Year",
        Kind.TEXT: "Interval ZonedTime",
        Kind.TIME: "IsoTime MicroTime NanoTime Time",
    },
    "org.apache.kafka.connect.data.": {Kind.DATE: "Date", Kind.DATETIME: "Timestamp", Kind.DECIMAL: "Decimal", Kind.TIME: "Time"},
}
_BY_NAME = {package + name: kind for package, kinds in _NAMES.items() for kind, names in kinds.items() for name in names.split()}

PRECISION = "connect.decimal.precision"  # a parameter of Debezium; Connect itself has none
_FIXED_DECIMAL = "org.apache.kafka.connect.data.Decimal"  # has the scale in its schema, a `VariableScaleDecimal` in each value

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

_CELL_FIELDS = {"value", "deletion_ts", "set"}
_RANGE_FIELDS = {"_range_start", "_range_end"}


def read_connect(text: str, *, keyspace: str = "", where: str = "", key_columns: Sequence[str] = ()) -> Catalog:
    """Return the tables whose Connect schemas `text` holds; of several schemas of one table, the last counts.

    `keyspace` is for schemas without a qualified name; `key_columns` is the key if the file has no key schema; messages call the
    file `where`. Raises `SchemaError` if the text is not JSON. A schema that makes no table is in the catalog's `refused`.
    """
    messages: dict[str, _Message] = {}
    for document in _documents(text, where=where):
        message = _message(document, keyspace=keyspace, where=where)
        if message is not None:
            messages[full_name(message.keyspace, message.table)] = message
    builders = {name: partial(message.schema, key_columns=key_columns) for name, message in messages.items()}
    return build_catalog(builders, where=where)


def is_connect(document: Json) -> bool:
    """Whether parsed JSON is in one of the forms that `read_connect` reads."""
    if not isinstance(document, dict):
        return False
    if document.get("type") == "struct" or {"schema", "payload"} <= document.keys():
        return True
    return is_connect(document.get("value"))


def _documents(text: str, *, where: str) -> Iterator[Json]:
    try:
        yield json.loads(text)
        return
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise SchemaError(f"not JSON: {error.msg}", where=where, line=error.lineno, column=error.colno) from error
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield json.loads(line or "null")
        except json.JSONDecodeError as error:
            raise SchemaError(f"not JSON: {error.msg}", where=where, line=number, column=error.colno) from error


def _schema_of(document: Json) -> JsonObject:
    """Return the struct schema in a bare schema or in `{schema, payload}`; empty if there is none."""
    if not isinstance(document, dict):
        return {}
    if isinstance(document.get("schema"), dict):
        return _schema_of(document["schema"])
    return document if document.get("type") == "struct" else {}


def _message(document: Json, *, keyspace: str, where: str) -> _Message | None:
    if not isinstance(document, dict):
        return None
    has_value = "value" in document and "type" not in document
    value = document["value"] if has_value else document
    schema = _schema_of(value)
    if not schema or _is_housekeeping(str(schema.get("name") or "")):
        return None
    found = table_of_envelope(str(schema.get("name", "")))
    source = _source(value)
    place = source or (found if all(found) else (keyspace, str(schema.get("name") or "value").rpartition(".")[2]))
    return _Message(place, value=schema, key=_schema_of(document.get("key")) if has_value else {}, where=where)


def _is_housekeeping(name: str) -> bool:
    """Whether a schema is of Debezium's own topics: schema changes, heartbeats, transactions."""
    return name.startswith("io.debezium.connector.") and not name.endswith((".Envelope", ".Value"))


def _source(value: Json) -> tuple[str, str] | None:
    """Return (keyspace, table) of an event's payload: the exact names, even if the schema's name was made Avro-safe."""
    match value:
        case {"payload": {"source": {"keyspace": str(keyspace), "table": str(table)}}}:
            return keyspace, table
        case {"payload": {"source": {"schema": str(keyspace), "table": str(table)}}}:
            return keyspace, table
        case {"payload": {"source": {"db": str(keyspace), "table": str(table)}}}:
            return keyspace, table
    return None


class _Message:
    def __init__(self, place: tuple[str, str], *, value: JsonObject, key: JsonObject, where: str) -> None:
        self.keyspace, self.table = place
        self._value, self._key, self._where = value, key, where
        self._is_cassandra = "io.debezium.connector.cassandra" in str(value.get("name"))

    def schema(self, *, key_columns: Sequence[str]) -> TableSchema:
        fields = {str(field["field"]): field for field in fields_of(self._row())}
        key = key_columns or [str(field["field"]) for field in fields_of(self._key)]
        name = full_name(self.keyspace, self.table)
        if not key:
            raise SchemaError(
                f"{name}: the schema does not tell the key; give the key's schema as well, in one object "
                '{"key": …, "value": …}, or name the key columns',
                where=self._where,
            )
        roles = with_roles(fields, key=key, table=name, where=self._where)
        columns = tuple(
            Column(column, self._column_type(fields[column]), role, description=str(fields[column].get("doc") or ""))
            for column, role in roles
        )
        return TableSchema(self.keyspace, self.table, columns)

    def _row(self) -> JsonObject:
        envelope = {str(field.get("field")): field for field in fields_of(self._value)}
        if "after" in envelope and "op" in envelope:
            after = envelope["after"]
            return {**after, "fields": [field for field in fields_of(after) if not _is_range(field)]}
        return self._value

    def _column_type(self, field: JsonObject) -> LogicalType:
        cell = {str(part.get("field")): part for part in fields_of(field)}
        if field.get("name") == "cell_value" and cell.keys() == _CELL_FIELDS:
            return self._type(cell["value"])
        return self._type(field)

    def _type(self, schema: JsonObject) -> LogicalType:
        name = str(schema.get("name") or "")
        named = named_type(name, parameters=schema.get("parameters"), is_cassandra=self._is_cassandra)
        if named is not None:
            return named
        match schema:
            case {"type": "array", "items": dict(items)}:
                return ListOf(self._type(items))
            case {"type": "map", "keys": dict(keys), "values": dict(values)}:
                return MapOf(self._type(keys), self._type(values))
            case {"type": "struct"}:
                keyspace, _, last = name.rpartition(".")
                fields = tuple((str(field["field"]), self._type(field)) for field in fields_of(schema))
                return Udt(keyspace, last or str(schema.get("field") or "struct"), fields)
            case {"type": str(plain)} if plain in PLAIN:
                return Scalar(PLAIN[plain])
        raise SchemaError(
            f"{full_name(self.keyspace, self.table)}: a Connect schema of type {schema.get('type')!r} is not known; "
            f"expected struct, array, map, {', '.join(PLAIN)}",
            where=self._where,
        )


def _is_range(field: JsonObject) -> bool:
    return field.get("field") in _RANGE_FIELDS and field.get("name") == field.get("field")


def fields_of(schema: Mapping[str, Json]) -> list[JsonObject]:
    """Return the fields of a record or struct; empty if it has none."""
    fields = schema.get("fields")
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def with_roles(names: Collection[str], *, key: Sequence[str], table: str, where: str) -> list[tuple[str, Role]]:
    """Return (column, role), key first. Neither format has clustering or static columns, so the key is the partition key."""
    for name in key:
        if name not in names:
            raise SchemaError(f"{table} has no key column {name!r}{did_you_mean(name, names)}", where=where)
    return [(name, Role.PARTITION) for name in key] + [(name, Role.REGULAR) for name in names if name not in key]


def named_type(name: str, *, parameters: object = None, is_cassandra: bool = False) -> LogicalType | None:
    """Return the type that a schema's semantic `name` means; None if the name adds nothing to the plain type. The `parameters` of
    a `Decimal` hold its scale. `io.debezium.time.Timestamp` is a `timestamp` in Cassandra, and a zoneless date-time elsewhere.
    """
    if is_cassandra and name == "io.debezium.time.Timestamp":
        return Scalar(Kind.TIMESTAMP)
    if name == _FIXED_DECIMAL:
        return Scalar(Kind.DECIMAL, number_of(parameters, "scale"), number_of(parameters, PRECISION))
    kind = _BY_NAME.get(name)
    return None if kind is None else Scalar(kind)


def number_of(parameters: object, name: str) -> int | None:
    """Return a whole number among a schema's parameters (text in Connect, a number in Avro); None if there is none."""
    found = parameters.get(name) if isinstance(parameters, dict) else None
    if isinstance(found, str) and found.removeprefix("-").isdecimal():
        return int(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def table_of_envelope(name: str) -> tuple[str, str]:
    """Return (keyspace, table) of a Debezium schema's name, `<topic prefix>.<keyspace>.<table>.Envelope`; else empty texts."""
    parts = name.split(".")
    if len(parts) < 3 or parts[-1] not in {"Envelope", "Value", "Key"}:
        return "", ""
    return parts[-3], parts[-2]
