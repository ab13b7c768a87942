"""Connect's JSON in Avro, as Confluent's converter writes it: what Debezium's own Avro looks like, made of its recorded events.

Source: Confluent `AvroData` 7.x (names, `connect.*` properties, unions with null first), read as a description.
"""

from __future__ import annotations

import base64
import io
from decimal import Decimal
from typing import Any

import fastavro

_PLAIN = {"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
          "boolean": "boolean", "string": "string", "bytes": "bytes"}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def avro_schema(connect: dict[str, Any], *, known: set[str] | None = None) -> Any:
    """The Avro schema of a Connect schema; a named record is written out once."""
    known = set() if known is None else known
    kind, name = connect["type"], connect.get("name")
    if kind == "struct":
        made = _record(connect, known)
    elif kind == "array":
        made = {"type": "array", "items": avro_schema(connect["items"], known=known)}
    else:
        made = {"type": _PLAIN[kind]}
        if kind in ("int8", "int16"):
            made["connect.type"] = kind
        if name:
            made["connect.name"] = name
        if connect.get("parameters"):
            made["connect.parameters"] = connect["parameters"]
        if name == _DECIMAL:
            made |= {"logicalType": "decimal", "precision": 64, "scale": int(connect["parameters"]["scale"])}
    return ["null", made] if connect.get("optional") else made


def _record(connect: dict[str, Any], known: set[str]) -> Any:
    name = connect.get("name") or "ConnectDefault"
    full = ".".join(part.replace("-", "_") for part in name.split("."))
    if full in known:
        return full
    known.add(full)
    fields = [{"name": part["field"], "type": avro_schema(part, known=known)} for part in connect["fields"]]
    space, _, last = full.rpartition(".")
    return {"type": "record", "name": last, **({"namespace": space} if space else {}), "fields": fields, "connect.name": name}


def avro_value(connect: dict[str, Any], value: Any) -> Any:
    """A payload as fastavro takes it without logical types."""
    if value is None:
        return None
    match connect["type"]:
        case "struct":
            return {part["field"]: avro_value(part, value[part["field"]]) for part in connect["fields"]}
        case "array":
            return [avro_value(connect["items"], item) for item in value]
        case "bytes":
            return base64.b64decode(value)
        case "float" | "double":
            return float(value) if isinstance(value, str | Decimal | int | float) else value
    return value


def framed(number: int, schema: Any, value: Any) -> bytes:
    """A value in the wire format: 0, the schema's id, Avro."""
    stream = io.BytesIO()
    stream.write(b"\x00" + number.to_bytes(4, "big"))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(_without_logical(schema)), value)
    return stream.getvalue()


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(part) for part in schema]
    if isinstance(schema, dict):
        return {name: _without_logical(part) for name, part in schema.items() if name != "logicalType"}
    return schema
