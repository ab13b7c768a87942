"""Writes Avro values as Kafka Connect's JSON converter does, with a Connect schema if it is needed.

Values are decoded without Avro's logical types, as these would become Python's dates and lose years past 9999. The logical
types go into the Connect schema, which the raw formats read; it names only the columns that need it.
Source: Apache Avro 1.12, specification; Confluent `avro-data` 7.x (`connect.name`, `connect.parameters`).
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from json.encoder import encode_basestring as quoted
from typing import Any

import fastavro

from cdc_views.errors import MalformedEventError, UnsupportedError

Json = Any
Write = Callable[[Any], str]
Connect = dict[str, Any]
Compiled = tuple[Write, Connect | None]
"""A writer, and the Connect schema if it adds to the value."""

_CONNECT = "org.apache.kafka.connect.data"
_TIME = "io.debezium.time"
_NAMED = {
    "date": f"{_TIME}.Date",
    "time-millis": f"{_CONNECT}.Time",
    "time-micros": f"{_TIME}.MicroTime",
    "timestamp-millis": f"{_TIME}.Timestamp",
    "timestamp-micros": f"{_TIME}.MicroTimestamp",
    "timestamp-nanos": f"{_TIME}.NanoTimestamp",
    "local-timestamp-millis": f"{_TIME}.Timestamp",
    "local-timestamp-micros": f"{_TIME}.MicroTimestamp",
    "local-timestamp-nanos": f"{_TIME}.NanoTimestamp",
}
_PLAIN = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_SAY_THEMSELVES = frozenset({"null", "boolean", "string"})
_CONNECT_TYPES = {"int": "int32", "long": "int64", "float": "float", "double": "double", "fixed": "bytes"}


@dataclass(frozen=True, slots=True)
class Codec:
    """A reader of one schema's values; `declared` is the Connect schema in JSON, empty if it adds nothing to them."""

    parsed: Any
    write: Write
    declared: str

    def text(self, data: bytes) -> str:
        """Return a value as JSON, in an envelope if `declared` is set; raises `MalformedEventError`."""
        stream = BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, self.parsed, None)
        except Exception as error:
            raise MalformedEventError(f"its bytes are no value of its schema: {type(error).__name__}: {error}") from error
        if rest := len(data) - stream.tell():
            raise MalformedEventError(f"its bytes are no value of its schema: {rest} bytes are left over")
        payload = self.write(value)
        return f'{{"schema":{self.declared},"payload":{payload}}}' if self.declared else payload


def codec(schema: Json) -> Codec:
    """Return the codec of a parsed Avro schema; raises `UnsupportedError` for anything Avro does not define."""
    write, connect = _Compiler().compile(schema, namespace="")
    try:
        parsed = fastavro.parse_schema(physical(schema))
    except Exception as error:
        raise UnsupportedError(f"an Avro schema that cannot be read: {error}", remedy="register a valid one") from error
    return Codec(parsed, write, json.dumps(connect, separators=(",", ":")) if connect else "")


def physical(schema: Json) -> Json:
    """Return a schema without logical types, which fastavro would convert to Python types."""
    if isinstance(schema, list):
        return [physical(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: part for name, part in schema.items() if name not in ("logicalType", "default")}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = physical(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [physical(part) for part in kept["fields"]]
    return kept


@dataclass
class _Compiler:
    """A compiler from schemas to writers; keeps named types by full name, because a schema may use them again."""

    named: dict[str, Compiled] = field(default_factory=dict)

    def compile(self, schema: Json, *, namespace: str) -> Compiled:
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if not isinstance(schema, dict):
            raise UnsupportedError(f"{schema!r} is no Avro type", remedy="register a valid schema")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.compile(kind, namespace=namespace)
        if kind in _PLAIN:
            return _scalar(schema)
        if kind in ("enum", "fixed"):
            found = self.named[_full_name(schema, namespace)] = (quoted, None) if kind == "enum" else _scalar(schema)
            return found
        nested = {"record": self._record, "array": self._array, "map": self._map}.get(str(kind))
        return self._by_name(str(kind), namespace) if nested is None else nested(schema, namespace)

    def _by_name(self, name: str, namespace: str) -> Compiled:
        if name in _PLAIN:
            return _scalar({"type": name})
        found = self.named.get(name) or self.named.get(f"{namespace}.{name}")
        if found is None:
            raise UnsupportedError(f"Avro type {name!r} is not defined", remedy="schemas with references cannot be read yet")
        return found

    def _record(self, schema: Json, namespace: str) -> Compiled:
        name = _full_name(schema, namespace)
        inner = name.rpartition(".")[0]
        writers: list[tuple[str, str, Write]] = []
        said: list[Connect] = []
        semantic = str(schema.get("connect.name") or "")
        connect: Connect = {"type": "struct", **({"name": semantic} if semantic.startswith("io.debezium.data.") else {})}

        def write(value: Any) -> str:
            return "{" + ",".join(f"{key}:{written(value[name])}" for name, key, written in writers) + "}"

        # a type may contain itself; its Connect schema is left out there
        self.named[name] = write, None
        for part in schema.get("fields") or ():
            written, described = self.compile(part.get("type"), namespace=inner)
            writers.append((part["name"], quoted(part["name"]), written))
            if described is not None:
                said.append({**described, "field": part["name"]})
        self.named[name] = write, {**connect, "fields": said} if said or "name" in connect else None
        return self.named[name]

    def _array(self, schema: Json, namespace: str) -> Compiled:
        written, described = self.compile(schema.get("items"), namespace=namespace)

        def write(value: Any) -> str:
            return "[" + ",".join(map(written, value)) + "]"

        return write, {"type": "array", "items": described} if described else None

    def _map(self, schema: Json, namespace: str) -> Compiled:
        written, described = self.compile(schema.get("values"), namespace=namespace)

        def write(value: Any) -> str:
            return "{" + ",".join(f"{quoted(key)}:{written(item)}" for key, item in value.items()) + "}"

        return write, {"type": "map", "values": described} if described else None

    def _union(self, branches: list[Json], namespace: str) -> Compiled:
        """A union of null and one type is that type. With several types, the value's Python type decides."""
        rest = [branch for branch in branches if branch not in ("null", {"type": "null"})]
        compiled = [self.compile(branch, namespace=namespace) for branch in rest]
        if len(compiled) == 1:
            written, described = compiled[0]
            return (lambda value: "null" if value is None else written(value)), described
        by_type: dict[type, Write] = {}
        for branch, (written, _) in zip(rest, compiled, strict=True):
            kind = _PYTHON.get(branch.get("type") if isinstance(branch, dict) else branch, dict)
            if kind in by_type:
                raise UnsupportedError(
                    f"a union of {len(rest)} types whose values cannot be told apart", remedy="make it one type, or null and one"
                )
            by_type[kind] = written
        return (lambda value: "null" if value is None else by_type[type(value)](value)), None


_PYTHON: Mapping[Any, type] = {
    "boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes, "fixed": bytes,
    "string": str, "enum": str, "array": list,
}  # fmt: skip
"""The Python type that fastavro returns; dict for all others."""


def _full_name(schema: Json, namespace: str) -> str:
    name, own = str(schema.get("name") or ""), str(schema.get("namespace") or namespace)
    return name if "." in name or not own else f"{own}.{name}"


def _scalar(schema: Json) -> Compiled:
    kind, logical = str(schema["type"]), str(schema.get("logicalType") or "")
    if kind == "fixed" and logical == "duration":
        return _duration, None
    write = _WRITERS[kind]
    semantic = str(schema.get("connect.name") or "") or _NAMED.get(logical, "")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        scale = schema.get("scale") or 0
        return write, {"type": "bytes", "name": f"{_CONNECT}.Decimal", "parameters": {"scale": str(scale)}}
    if kind in _SAY_THEMSELVES or not (semantic or kind in ("bytes", "fixed")):
        return write, None
    connect: Connect = {"type": _CONNECT_TYPES.get(kind, kind), **({"name": semantic} if semantic else {})}
    parameters = schema.get("connect.parameters")
    if isinstance(parameters, dict) and "scale" in parameters:
        connect["parameters"] = {"scale": parameters["scale"]}
    return write, connect


def real_text(value: float) -> str:
    """Return a number as JSON; NaN and infinity as texts."""
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _duration(value: bytes) -> str:
    """Return Avro's `duration` (months, days and milliseconds) as ISO 8601."""
    months, days, millis = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    return f'"P{months}M{days}DT{millis // 1000}.{millis % 1000:03d}S"'


_WRITERS: dict[str, Write] = {
    "null": lambda value: "null",
    "boolean": lambda value: "true" if value else "false",
    **dict.fromkeys(("int", "long"), str),
    **dict.fromkeys(("float", "double"), real_text),
    **dict.fromkeys(("bytes", "fixed"), lambda value: f'"{b64encode(value).decode()}"'),
    "string": quoted,
}
