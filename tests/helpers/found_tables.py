"""Delta tables of events as other people's sinks land them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from helpers.command_line import table

DATA = Path(__file__).parents[1] / "data"
Event = dict[str, Any]

_CONNECT = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip


def connect_type(schema: Any) -> pa.DataType:
    """The column type that a sink gives a Connect schema."""
    match schema["type"]:
        case "struct":
            return pa.struct([(field["field"], connect_type(field)) for field in schema["fields"]])
        case "array":
            return pa.list_(connect_type(schema["items"]))
        case "map":
            return pa.map_(connect_type(schema["keys"]), connect_type(schema["values"]))
    return _CONNECT[schema["type"]]


def cells_type(**columns: pa.DataType) -> pa.DataType:
    """The type of `after` of Debezium's Cassandra events."""
    rest = [("deletion_ts", pa.int64()), ("set", pa.bool_())]
    return pa.struct([(name, pa.struct([("value", kind), *rest])) for name, kind in columns.items()])


def typed(kind: pa.DataType, value: Any) -> Any:
    """A JSON value as a sink puts it into a column: bytes out of base64, decimals out of their bytes, maps as pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: typed(field.type, value.get(field.name)) for field in kind}
    if pa.types.is_map(kind):
        return [(typed(kind.key_type, key), typed(kind.item_type, item)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [typed(kind.value_type, item) for item in value]
    if pa.types.is_binary(kind):
        return base64.b64decode(value)
    if pa.types.is_decimal(kind):
        return Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)).scaleb(-kind.scale)
    return float(value) if pa.types.is_floating(kind) else value


def as_columns(values: Iterable[Event], kind: pa.StructType) -> pa.Table:
    """Events whose members are columns of that type."""
    return pa.Table.from_pylist([typed(kind, value) for value in values], schema=pa.schema(list(kind)))


def as_records(events: Iterable[Event], *, is_bytes: bool = False, first: int = 0) -> pa.Table:
    """Events as Kafka records: key and value as texts or bytes, and where the record stood."""
    found = list(events)
    kind = pa.binary() if is_bytes else pa.string()
    columns = {name: pa.array([_text(event.get(name)) for event in found], pa.string()).cast(kind) for name in ("key", "value")}
    columns["topic"] = pa.array([event.get("topic") or event.get("destination") for event in found], pa.string())
    columns["partition"] = pa.array([0] * len(found), pa.int32())
    columns["offset"] = pa.array(range(first, first + len(found)), pa.int64())
    columns["timestamp"] = pa.array([1_795_251_757_635_000] * len(found), pa.timestamp("us", tz="UTC"))
    return pa.table(columns)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def find(rows: pa.Table, location: str = "found", **more: Any) -> None:
    """Append to the external table, as its owner does."""
    write_deltalake(location, rows, mode="append", **more)


def found(name: str, schema: str, format: str, *, location: str = "found", **raw: Any) -> dict[str, Any]:
    """One table of a project file, that somebody else lands."""
    return table(name, schema, format, raw={"layout": "as-found", "table": location, **raw})


def contents(folder: str = "found") -> dict[str, str]:
    """What a folder holds, file by file."""
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def hide_rows(location: str, *hidden: int) -> None:
    """Hide rows of a table's only file by a deletion vector in the log, as Spark's DELETE does.

    Source: Delta's PROTOCOL.md, "Deletion Vector Format": a 64-bit Roaring bitmap in Z85.
    """
    delta = DeltaTable(location)
    add = pa.table(delta.get_add_actions()).to_pylist()[0]
    values = b"".join(row.to_bytes(2, "little") for row in hidden)
    bitmap = b"".join(n.to_bytes(4, "little") for n in (12346, 1)) + bytes(2) + (len(hidden) - 1).to_bytes(2, "little")
    bitmap += (16).to_bytes(4, "little") + values
    whole = (1681511377).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(4) + bitmap
    padded = whole + bytes(-len(whole) % 4)
    vector = {"storageType": "i", "pathOrInlineDv": _z85(padded), "sizeInBytes": len(whole), "cardinality": len(hidden)}
    common = {"path": add["path"], "partitionValues": {}, "size": add["size_bytes"], "dataChange": True}
    metadata = delta.metadata()
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                      "writerFeatures": ["deletionVectors"]}},
        {"remove": {**common, "deletionTimestamp": 1, "extendedFileMetadata": True}},
        {"add": {**common, "modificationTime": add["modification_time"], "deletionVector": vector,
                 "stats": json.dumps({"numRecords": add["num_records"]})}},
    ]  # fmt: skip
    assert metadata.partition_columns == []
    log = Path(location) / "_delta_log" / f"{delta.version() + 1:020}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _z85(data: bytes) -> str:
    return base64.b85encode(data).decode().translate(str.maketrans(_B85, _Z85))
