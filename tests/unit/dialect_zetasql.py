"""GoogleSQL's reference implementation in this process (PyPI `zetasql`, WASM under `wasmtime`): BigQuery's oracle.

The module's 28 MB take a core-minute to compile, so the compiled form is cached under `CDC_VIEWS_CACHE`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import wasmtime
from zetasql.core import wasm_client
from zetasql.wasi import get_wasm_path
from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as service
from zetasql.wasi._pb2.zetasql.proto import options_pb2 as language
from zetasql.wasi._pb2.zetasql.public import options_pb2 as features
from zetasql.wasi._pb2.zetasql.public import type_pb2 as types

_SCALE = 10**38
"""A BIGNUMERIC is stored as an integer multiple of 10^-38, little-endian two's complement."""


class _CachedModule:
    @staticmethod
    def from_file(engine: Any, path: Any) -> Any:
        folder = Path(os.environ.get("CDC_VIEWS_CACHE", Path.home() / ".cache" / "cdc-views"))
        folder.mkdir(parents=True, exist_ok=True)
        cached = folder / f"zetasql-{version('zetasql')}-wasmtime-{version('wasmtime')}.cwasm"
        if not cached.exists():
            part = cached.with_suffix(f".{os.getpid()}")
            part.write_bytes(wasmtime.Module.from_file(engine, str(path)).serialize())
            part.replace(cached)
        return wasmtime.Module.deserialize_file(engine, str(cached))


class _Client(wasm_client.WasmClient):
    """zetasql 0.1.5 copies memory byte by byte; this one does not."""

    def write_bytes(self, ptr: int, data: bytes) -> None:
        ctypes.memmove(ctypes.addressof(self.memory.data_ptr().contents) + ptr, data, len(data))

    def read_bytes(self, ptr: int, size: int) -> bytes:
        return ctypes.string_at(ctypes.addressof(self.memory.data_ptr().contents) + ptr, size)


class GoogleSql:
    """Tables of Arrow rows, and queries over them; values come back as plain Python, instants as µs, days as int."""

    def __init__(self) -> None:
        wasm_client.Module = _CachedModule
        self._client = _Client(get_wasm_path())
        everything = service.LanguageOptionsRequest(maximum_features=True)
        self._options = self._call("GetLanguageOptions", everything, language.LanguageOptionsProto)
        self._options.product_mode = features.PRODUCT_EXTERNAL  # BigQuery's names: FLOAT64, no INT32
        self._tables: dict[str, tuple[pa.Schema, Any]] = {}

    def _call(self, method: str, request: Any, response: Any) -> Any:
        return self._client.call_grpc_func(f"ZetaSqlLocalService_{method}", request, response)

    def register(self, name: str, rows: pa.Table) -> None:
        """Make the rows a table."""
        content = service.TableContent()
        content.table_data.SetInParent()
        kinds = [_type(field.type) for field in rows.schema]
        for record in rows.to_pylist():
            row = content.table_data.row.add()
            for field, kind in zip(rows.schema, kinds, strict=True):
                _fill(row.cell.add(), kind, record[field.name])
        self._tables[name] = (rows.schema, content)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a SELECT."""
        request = service.PrepareQueryRequest(sql=sql)
        request.options.language_options.CopyFrom(self._options)
        request.options.default_timezone = "UTC"
        self._describe(request.simple_catalog)
        for name, (_, content) in self._tables.items():
            request.table_content[name].CopyFrom(content)
        prepared = self._call("PrepareQuery", request, service.PrepareQueryResponse).prepared
        run = service.EvaluateQueryRequest(prepared_query_id=prepared.prepared_query_id)
        answer = self._call("EvaluateQuery", run, service.EvaluateQueryResponse)
        done = service.UnprepareQueryRequest(prepared_query_id=prepared.prepared_query_id)
        self._call("UnprepareQuery", done, service.UnprepareQueryRequest)
        columns = [(column.name, column.type) for column in prepared.columns]
        return [_record(columns, row.cell) for row in answer.content.table_data.row]

    def _describe(self, catalog: Any) -> None:
        catalog.name = "catalog"
        catalog.builtin_function_options.language_options.CopyFrom(self._options)
        for name, (schema, _) in self._tables.items():
            table = catalog.table.add(name=name)
            for field in schema:
                table.column.add(name=field.name).type.CopyFrom(_type(field.type))


def _type(arrow: pa.DataType) -> Any:
    kind = types.TypeProto()
    if pa.types.is_list(arrow):
        kind.type_kind = types.TYPE_ARRAY
        kind.array_type.element_type.CopyFrom(_type(arrow.value_type))
    elif pa.types.is_struct(arrow):
        kind.type_kind = types.TYPE_STRUCT
        kind.struct_type.SetInParent()
        for field in arrow:
            kind.struct_type.field.add(field_name=field.name).field_type.CopyFrom(_type(field.type))
    else:
        kind.type_kind = _scalar(arrow)
    return kind


def _scalar(arrow: pa.DataType) -> int:
    checks = [
        (pa.types.is_integer, types.TYPE_INT64),
        (pa.types.is_floating, types.TYPE_DOUBLE),
        (pa.types.is_string, types.TYPE_STRING),
        (pa.types.is_binary, types.TYPE_BYTES),
        (pa.types.is_boolean, types.TYPE_BOOL),
        (pa.types.is_decimal, types.TYPE_BIGNUMERIC),
        (pa.types.is_timestamp, types.TYPE_TIMESTAMP),
    ]
    return next(kind for is_one, kind in checks if is_one(arrow))


_SIMPLE = {
    types.TYPE_INT64: "int64_value",
    types.TYPE_DOUBLE: "double_value",
    types.TYPE_STRING: "string_value",
    types.TYPE_BYTES: "bytes_value",
    types.TYPE_BOOL: "bool_value",
}


def _fill(cell: Any, kind: Any, value: Any) -> None:
    if value is None:
        return
    match kind.type_kind:
        case types.TYPE_ARRAY:
            cell.array_value.SetInParent()
            for item in value:
                _fill(cell.array_value.element.add(), kind.array_type.element_type, item)
        case types.TYPE_STRUCT:
            cell.struct_value.SetInParent()
            for field in kind.struct_type.field:
                _fill(cell.struct_value.field.add(), field.field_type, value[field.field_name])
        case types.TYPE_BIGNUMERIC:
            scaled = int(value) * _SCALE
            cell.bignumeric_value = scaled.to_bytes(scaled.bit_length() // 8 + 1, "little", signed=True)
        case types.TYPE_TIMESTAMP:
            cell.timestamp_value.seconds = int(value.timestamp())
        case simple:
            setattr(cell, _SIMPLE[simple], value)


def _datetime_micros(packed: int) -> int:
    """Year, month, day, hour, minute and second in fields of 14, 4, 5, 5, 6 and 6 bits."""
    year, month, day, hour, minute, second = (packed >> at & (1 << bits) - 1 for at, bits in _DATETIME)
    return int(datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc).timestamp()) * 1_000_000


_DATETIME = ((26, 14), (22, 4), (17, 5), (12, 5), (6, 6), (0, 6))


def _record(columns: Iterable[tuple[str, Any]], cells: Iterable[Any]) -> dict[str, Any]:
    return {name: _plain(cell, kind) for (name, kind), cell in zip(columns, cells, strict=True)}


def _plain(cell: Any, kind: Any) -> Any:
    match cell.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_plain(item, kind.array_type.element_type) for item in cell.array_value.element]
        case "struct_value":
            fields = kind.struct_type.field
            return {f.field_name: _plain(v, f.field_type) for f, v in zip(fields, cell.struct_value.field, strict=True)}
        case "date_value":
            return cell.date_value
        case "timestamp_value":
            return cell.timestamp_value.seconds * 1_000_000 + cell.timestamp_value.nanos // 1000
        case "datetime_value":
            return _datetime_micros(cell.datetime_value.bit_field_datetime_seconds) + cell.datetime_value.nanos // 1000
        case "bignumeric_value":
            return int.from_bytes(cell.bignumeric_value, "little", signed=True) // _SCALE
        case simple:
            return getattr(cell, simple)
