"""GoogleSQL's reference implementation in this process (PyPI `zetasql`, WASM under `wasmtime`): BigQuery's oracle.

The module's 28 MB take a core-minute to compile, so the compiled form is cached under `CDC_VIEWS_CACHE`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import wasmtime
from google._upb import _message as upb
from zetasql.core import wasm_client
from zetasql.wasi import get_wasm_path
from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as service
from zetasql.wasi._pb2.zetasql.proto import options_pb2 as language
from zetasql.wasi._pb2.zetasql.public import options_pb2 as features
from zetasql.wasi._pb2.zetasql.public import type_pb2 as types
from zetasql.wasi._pb2.zetasql.resolved_ast import resolved_node_kind_pb2 as node_kinds

_SCALE = 10**38
"""A BIGNUMERIC is stored as an integer multiple of 10^-38, little-endian two's complement."""

_NAMED = 64
"""Statements whose tables' names are remembered: each is asked about several times, and looking costs as much as parsing."""


class _CachedModule:
    @staticmethod
    def from_file(engine: Any, path: Any) -> Any:
        folder = Path(os.environ.get("CDC_VIEWS_CACHE", Path.home() / ".cache" / "cdc-views"))
        folder.mkdir(parents=True, exist_ok=True)
        cached = folder / f"zetasql-{version('zetasql')}-wasmtime-{version('wasmtime')}.cwasm"
        with (folder / "zetasql.lock").open("w") as lock:  # one of several processes compiles, the others wait
            fcntl.flock(lock, fcntl.LOCK_EX)
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


Columns = list[tuple[str, Any]]
"""Name and `TypeProto` of each."""

_NOT_IN_MAXIMUM = ("CREATE_TABLE_CLONE", "CLONE_DATA", "CREATE_VIEWS_WITH_COLUMN_OPTIONS", "ALTER_COLUMN_SET_DATA_TYPE")
"""Features of BigQuery that zetasql's largest set lacks."""


class GoogleSql:
    """Tables of rows, and statements over them; values come back as plain Python, instants as µs, days as int."""

    def __init__(self) -> None:
        wasm_client.Module = _CachedModule
        upb.SetAllowOversizeProtos(True)  # resolved statements nest deeper than the 100 levels that are allowed by default
        self._client = _Client(get_wasm_path())
        everything = service.LanguageOptionsRequest(maximum_features=True)
        self._options = self._call("GetLanguageOptions", everything, language.LanguageOptionsProto)
        self._options.product_mode = features.PRODUCT_EXTERNAL  # BigQuery's names: FLOAT64, no INT32
        self._options.ClearField("supported_statement_kinds")  # SELECT alone, by default
        kinds = node_kinds.ResolvedNodeKind.items()
        self._options.supported_statement_kinds.extend(kind for name, kind in kinds if name.endswith("Stmt"))
        for name in _NOT_IN_MAXIMUM:
            self._options.enabled_language_features.append(getattr(features, f"FEATURE_{name}"))
        self._tables: dict[str, tuple[Columns, Any]] = {}
        self._names: dict[str, frozenset[str]] = {}

    def _call(self, method: str, request: Any, response: Any) -> Any:
        return self._client.call_grpc_func(f"ZetaSqlLocalService_{method}", request, response)

    def register(self, name: str, rows: pa.Table) -> None:
        """Make the rows a table."""
        columns = [(field.name, _type(field.type)) for field in rows.schema]
        self.define(name, columns)
        self.append(name, rows.to_pylist())

    def define(self, name: str, columns: Columns) -> None:
        """Make an empty table, in place of one of that name; rows that it has stay away."""
        content = service.TableContent()
        content.table_data.SetInParent()
        self._tables[name] = (columns, content)

    def append(self, name: str, records: Iterable[dict[str, Any]]) -> None:
        """Add rows to a table; a column that a record lacks is null."""
        columns, content = self._tables[name]
        for record in records:
            row = content.table_data.row.add()
            for column, kind in columns:
                _fill(row.cell.add(), kind, record.get(column))

    def fill(self, name: str, rows: Iterable[Any]) -> None:
        """Add rows as `evaluate` returns them."""
        self._tables[name][1].table_data.row.extend(rows)

    def columns(self, name: str) -> Columns:
        """The columns of a table."""
        return self._tables[name][0]

    def records(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table as plain Python."""
        columns, content = self._tables[name]
        return [_record(columns, row.cell) for row in content.table_data.row]

    def count(self, name: str) -> tuple[int, int]:
        """How many rows a table has, and bytes of them as serialized."""
        data = self._tables[name][1].table_data
        return len(data.row), data.ByteSize()

    def drop(self, name: str) -> None:
        """Remove a table."""
        del self._tables[name]

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a SELECT."""
        return self.records_of(*self.evaluate(sql))

    def records_of(self, columns: Columns, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """Return rows as `evaluate` returns them as plain Python."""
        return [_record(columns, row.cell) for row in rows]

    def evaluate(self, sql: str, *, reads: Iterable[str] | None = None) -> tuple[Columns, list[Any]]:
        """Return columns and rows of a SELECT as the engine has them; `reads` are the tables it needs, default all."""
        names = list(self._tables if reads is None else reads)
        request = service.PrepareQueryRequest(sql=sql)
        request.options.language_options.CopyFrom(self._options)
        request.options.default_timezone = "UTC"
        self._describe(request.simple_catalog, names)
        for name in names:
            request.table_content[name].CopyFrom(self._tables[name][1])
        prepared = self._call("PrepareQuery", request, service.PrepareQueryResponse).prepared
        run = service.EvaluateQueryRequest(prepared_query_id=prepared.prepared_query_id)
        answer = self._call("EvaluateQuery", run, service.EvaluateQueryResponse)
        done = service.UnprepareQueryRequest(prepared_query_id=prepared.prepared_query_id)
        self._call("UnprepareQuery", done, service.UnprepareQueryRequest)
        return [(column.name, column.type) for column in prepared.columns], list(answer.content.table_data.row)

    def analyze(self, sql: str) -> Any:
        """Return a statement of any kind, resolved, as a protocol buffer."""
        request = service.AnalyzeRequest(sql_statement=sql)
        request.options.language_options.CopyFrom(self._options)
        request.options.default_timezone = "UTC"
        self._describe(request.simple_catalog, self._tables)
        return self._call("Analyze", request, service.AnalyzeResponse).resolved_statement

    def names_in(self, sql: str) -> frozenset[str]:
        """The names of the tables that a statement reads, parts joined by dots."""
        if sql not in self._names:
            if len(self._names) == _NAMED:
                self._names.clear()
            self._names[sql] = self._names_in(sql)
        return self._names[sql]

    def _names_in(self, sql: str) -> frozenset[str]:
        request = service.ExtractTableNamesFromStatementRequest(sql_statement=sql)
        request.options.CopyFrom(self._options)
        found = self._call("ExtractTableNamesFromStatement", request, service.ExtractTableNamesFromStatementResponse)
        return frozenset(".".join(name.table_name_segment) for name in found.table_name)

    def _describe(self, catalog: Any, names: Iterable[str]) -> None:
        catalog.name = "catalog"
        catalog.builtin_function_options.language_options.CopyFrom(self._options)
        for name in names:
            table = catalog.table.add(name=name)
            for column, kind in self._tables[name][0]:
                table.column.add(name=column).type.CopyFrom(kind)


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
        (pa.types.is_date, types.TYPE_DATE),
    ]
    return next(kind for is_one, kind in checks if is_one(arrow))


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EXACT = Context(prec=80)
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
                _fill(cell.struct_value.field.add(), field.field_type, value.get(field.field_name))
        case types.TYPE_NUMERIC:
            scaled = int(Decimal(value).scaleb(9, _EXACT))
            cell.numeric_value = scaled.to_bytes(scaled.bit_length() // 8 + 1, "little", signed=True)
        case types.TYPE_BIGNUMERIC:
            scaled = int(Decimal(value).scaleb(38, _EXACT))
            cell.bignumeric_value = scaled.to_bytes(scaled.bit_length() // 8 + 1, "little", signed=True)
        case types.TYPE_DATE:
            cell.date_value = value if isinstance(value, int) else (value - _EPOCH.date()).days
        case types.TYPE_JSON:
            cell.json_value = value
        case types.TYPE_TIMESTAMP:
            micros = value if isinstance(value, int) else (value - _EPOCH) // timedelta(microseconds=1)
            cell.timestamp_value.seconds, cell.timestamp_value.nanos = micros // 10**6, micros % 10**6 * 1000
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
