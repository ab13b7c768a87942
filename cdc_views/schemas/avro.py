"""The reader of Avro schemas (`.avsc`). The columns are the fields of a record or, in a Debezium envelope, of its `after`.

Avro has no keys. There are three ways to declare the key:

* on fields: `{"name": "id", "type": "long", "cdc_views.key": true}`
* on the record: `"primaryKey": ["id"]` (also `"key"` or `"cdc_views.key"`)
* by the caller: `key_columns`

A union with null is its other branch; arrays, maps and records are frozen lists, maps and user types; enums are text; `fixed` and
`bytes` are blobs. Logical types and Connect's names (`connect.name`, `connect.type`) come first; an unknown logical type is its
plain type, as the Avro specification requires.
Source: Apache Avro 1.12, specification, "Logical Types"; Confluent's Avro converter for the `connect.` properties.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from cdc_views.errors import SchemaError, UnsupportedError, did_you_mean
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, Udt
from cdc_views.schemas.catalog import Catalog, build_catalog, full_name
from cdc_views.schemas.connect import (
    PLAIN,
    PRECISION,
    Json,
    JsonObject,
    fields_of,
    named_type,
    number_of,
    table_of_envelope,
    with_roles,
)

_PLAIN = {name: PLAIN[name] for name in ("boolean", "bytes", "double", "float", "string")} | {
    "enum": Kind.TEXT,
    "fixed": Kind.BLOB,
    "int": Kind.INT,
    "long": Kind.BIGINT,
}
_UNITS = ("millis", "micros", "nanos")
_LOGICAL = {
    "bytes": {"big-decimal": Kind.DECIMAL, "decimal": Kind.DECIMAL},
    "fixed": {"decimal": Kind.DECIMAL, "duration": Kind.DURATION, "uuid": Kind.UUID},
    "int": {"date": Kind.DATE, "time-millis": Kind.TIME},
    "long": {
        "time-micros": Kind.TIME,
        **{f"timestamp-{unit}": Kind.INSTANT for unit in _UNITS},
        **{f"local-timestamp-{unit}": Kind.DATETIME for unit in _UNITS},
    },
    "string": {"uuid": Kind.UUID},
}
_KEY_PROPERTIES = ("cdc_views.key", "primaryKey", "key")


def read_avro(text: str, *, keyspace: str = "", where: str = "", key_columns: Sequence[str] = ()) -> Catalog:
    """Return the table of each record at the top of an Avro schema: one record, or a union of several.

    `keyspace` defaults to the last part of the record's namespace; `key_columns` is the key if the schema declares none; messages
    call the file `where`. Raises `SchemaError` if the text is not JSON. A record that makes no table is in `refused`.
    """
    try:
        document: Json = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"not JSON: {error.msg}", where=where, line=error.lineno, column=error.colno) from error
    parts = document if isinstance(document, list) else [document]
    records = [part for part in parts if isinstance(part, dict) and _is_record(part)]
    named = _named_types(records, namespace="")
    readers = [_Record(part, keyspace=keyspace, where=where, named=named) for part in records]
    builders = {reader.full_name: partial(reader.schema, key_columns=key_columns) for reader in readers}
    return build_catalog(builders, where=where, names_keyspaces=False)


def _is_record(schema: JsonObject) -> bool:
    return schema.get("type") == "record"


class _Record:
    """One record that is a table; `named` are the types that its columns may name."""

    def __init__(self, schema: JsonObject, *, keyspace: str, where: str, named: Mapping[str, JsonObject]) -> None:
        self._schema, self._where, self._named = schema, where, named
        name = str(self._schema.get("connect.name") or _qualified(self._schema, namespace=""))
        database, table = table_of_envelope(name)
        package, _, last = name.rpartition(".")
        self._keyspace = database or keyspace or package.rpartition(".")[2]
        self._table = table or last
        self.full_name = full_name(self._keyspace, self._table)

    def schema(self, *, key_columns: Sequence[str]) -> TableSchema:
        row = self._row()
        fields = {str(field.get("name")): field for field in fields_of(row)}
        roles = with_roles(fields, key=key_columns or self._key(row, fields), table=self.full_name, where=self._where)
        kinds = {name: self._type(fields[name].get("type"), place=name, within=()) for name, _ in roles}
        columns = [Column(name, kinds[name], role, description=str(fields[name].get("doc") or "")) for name, role in roles]
        return TableSchema(self._keyspace, self._table, tuple(columns))

    def _row(self) -> JsonObject:
        fields = {field.get("name"): field for field in fields_of(self._schema)}
        if not ("after" in fields and "op" in fields):
            return self._schema
        row = self._resolved(_not_null(fields["after"].get("type")))
        return row if isinstance(row, dict) and _is_record(row) else self._schema

    def _key(self, row: JsonObject, fields: Mapping[str, JsonObject]) -> list[str]:
        for schema in (self._schema, row):
            for declared in (schema.get(name) for name in _KEY_PROPERTIES):
                if isinstance(declared, list):
                    return [str(name) for name in declared]
        key = [name for name, field in fields.items() if field.get("cdc_views.key") is True]
        if not key:
            raise self._error(
                'an Avro schema has no key of its own; add "cdc_views.key": true to each key field, or "primaryKey": ["…"] '
                "to the record, or name the key columns"
            )
        return key

    def _type(self, schema: Json, *, place: str, within: tuple[str, ...]) -> LogicalType:
        match self._resolved(_not_null(schema)):
            case str(name):
                return self._plain({"type": name}, place=place)
            case dict(written):
                return self._written(written, place=place, within=within)
            case list():
                raise UnsupportedError(
                    f"{self.full_name}: field {place!r} is a union of several types",
                    remedy='only unions of "null" and one type can be columns: split the field',
                )
        raise self._error(f"field {place!r} has no type")

    def _written(self, schema: JsonObject, *, place: str, within: tuple[str, ...]) -> LogicalType:
        own = schema.get("connect.parameters")
        parameters = {**schema, PRECISION: schema.get("precision"), **(own if isinstance(own, dict) else {})}
        named = named_type(str(schema.get("connect.name") or ""), parameters=parameters)
        if named is not None:
            return named
        match schema:
            case {"type": "array", "items": items}:
                return ListOf(self._type(items, place=place, within=within))
            case {"type": "map", "values": values}:
                return MapOf(Scalar(Kind.TEXT), self._type(values, place=place, within=within))
            case {"type": "record"}:
                return self._udt(schema, place=place, within=within)
            case {"type": dict() | list() as inner}:
                return self._type(inner, place=place, within=within)
        return self._plain(schema, place=place)

    def _udt(self, schema: JsonObject, *, place: str, within: tuple[str, ...]) -> Udt:
        name = str(schema.get("name"))
        if name in within:
            raise UnsupportedError(
                f"{self.full_name}: record {name!r} in field {place!r} contains itself",
                remedy="a column has a finite type: store the nested value as bytes or JSON text",
            )
        fields = tuple(
            (str(field.get("name")), self._type(field.get("type"), place=f"{place}.{field.get('name')}", within=(*within, name)))
            for field in fields_of(schema)
        )
        return Udt(self._keyspace, name.rpartition(".")[2], fields)

    def _plain(self, schema: JsonObject, *, place: str) -> LogicalType:
        plain = str(schema.get("type"))
        connect = PLAIN.get(str(schema.get("connect.type") or ""))
        kind = _LOGICAL.get(plain, {}).get(str(schema.get("logicalType"))) or connect or _PLAIN.get(plain)
        if kind is None:
            raise self._error(f"field {place!r} has unknown type {plain!r}{did_you_mean(plain, [*sorted(_PLAIN), *self._named])}")
        # by the specification, a decimal without a scale has scale 0
        if kind is Kind.DECIMAL and schema.get("logicalType") == "decimal":
            return Scalar(kind, number_of(schema, "scale") or 0, number_of(schema, "precision"))
        return Scalar(kind)

    def _resolved(self, schema: Json) -> Json:
        """Return the type that a name means; a name without a namespace also finds the only type that ends in it."""
        if not isinstance(schema, str) or schema in _PLAIN:
            return schema
        if schema in self._named:
            return self._named[schema]
        same = [named for name, named in self._named.items() if name.endswith(f".{schema}")]
        return same[0] if len(same) == 1 else schema

    def _error(self, message: str) -> SchemaError:
        return SchemaError(f"{self.full_name}: {message}", where=self._where)


def _named_types(schema: Json | Sequence[JsonObject], *, namespace: str) -> dict[str, JsonObject]:
    """Return every record, enum and fixed inside `schema` by its full name."""
    named: dict[str, JsonObject] = {}
    for part in schema if isinstance(schema, list) else [schema]:
        if isinstance(part, dict):
            if part.get("type") in ("record", "enum", "fixed"):
                named[_qualified(part, namespace=namespace)] = part
            for inner in [*(field.get("type") for field in fields_of(part)), *map(part.get, ("items", "values", "type"))]:
                named |= _named_types(inner, namespace=str(part.get("namespace") or namespace))
    return named


def _qualified(schema: JsonObject, *, namespace: str) -> str:
    name = str(schema.get("name") or "")
    space = str(schema.get("namespace") or namespace)
    return name if "." in name or not space else f"{space}.{name}"


def _not_null(schema: Json) -> Json:
    if not isinstance(schema, list):
        return schema
    branches = [branch for branch in schema if branch not in ("null", {"type": "null"})]
    return branches[0] if len(branches) == 1 else branches
