"""Tables of GoogleSQL values, and what BigQuery does to values when it stores them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as service
from zetasql.wasi._pb2.zetasql.public import type_pb2 as types
from zetasql.wasi._pb2.zetasql.public import value_pb2 as values
from zetasql.wasi._pb2.zetasql.resolved_ast import resolved_node_kind_pb2 as kinds

from helpers.dialect_zetasql import GoogleSql, _fill, _plain, _type

ROW_NUMBER = "_n"
INT64 = types.TypeProto(type_kind=types.TYPE_INT64)
Typed = tuple[Any, Any]
"""A type and a value of it."""


class StoreError(Exception):
    """A value that BigQuery refuses to store."""


@dataclass
class Table:
    """Columns with their types, and rows of values."""

    columns: list[tuple[str, Any]]
    rows: list[list[Any]] = field(default_factory=list)

    def index(self, name: str) -> int:
        """Position of a column, quoted or not."""
        return [n.casefold() for n, _ in self.columns].index(name.strip("`").casefold())

    def numbered(self) -> Table:
        """The table with the number of each row beside it."""
        rows = [[*row, values.ValueProto(int64_value=n)] for n, row in enumerate(self.rows)]
        return Table([*self.columns, (ROW_NUMBER, INT64)], rows)

    def records(self) -> list[dict[str, Any]]:
        """The rows as plain Python: instants as µs, days as int."""
        return [{name: _plain(value, kind) for (name, kind), value in zip(self.columns, row, strict=True)} for row in self.rows]


def table_of(rows: pa.Table) -> Table:
    """Return Arrow rows as a table."""
    columns = [(f.name, _type(f.type)) for f in rows.schema]
    found = Table(columns)
    for record in rows.to_pylist():
        cells = []
        for name, kind in columns:
            cells.append(values.ValueProto())
            _fill(cells[-1], kind, record[name])
        found.rows.append(stored(cells, columns))
    return found


def stored(row: list[Any], columns: list[tuple[str, Any]]) -> list[Any]:
    """Return the row as BigQuery stores it.

    A NULL array becomes an empty one, and an array that holds a NULL is refused.
    Source: BigQuery, Data types, Array type, "Nulls and the array type".
    """
    return [_stored(value, kind, name) for value, (name, kind) in zip(row, columns, strict=True)]


def _stored(value: Any, kind: Any, name: str) -> Any:
    if kind.type_kind == types.TYPE_ARRAY:
        kept = values.ValueProto()
        kept.array_value.SetInParent()
        element = kind.array_type.element_type
        for item in value.array_value.element if value.WhichOneof("value") else ():
            if item.WhichOneof("value") is None:
                raise StoreError(f"an array of column {name} holds NULL")
            kept.array_value.element.append(_stored(item, element, name))
        return kept
    if kind.type_kind == types.TYPE_STRUCT and value.WhichOneof("value"):
        kept = values.ValueProto()
        kept.struct_value.SetInParent()
        for part, of in zip(value.struct_value.field, kind.struct_type.field, strict=True):
            kept.struct_value.field.append(_stored(part, of.field_type, name))
        return kept
    return value


class Evaluator(GoogleSql):
    """Runs SELECTs over such tables, and analyses any statement; variables of a script are constants."""

    def __init__(self) -> None:
        super().__init__()
        self._analysed = set[tuple[str, str]]()
        self._options.ClearField("supported_statement_kinds")
        self._options.supported_statement_kinds.extend(v for k, v in kinds.ResolvedNodeKind.items() if k.endswith("Stmt"))
        if "QUALIFY" not in self._options.reserved_keywords:
            self._options.reserved_keywords.append("QUALIFY")

    def select(self, sql: str, tables: dict[str, Table], variables: dict[str, Typed]) -> Table:
        """Return the rows of a query."""
        request = service.EvaluateQueryRequest(sql=sql)
        self._prepare(request.options, request.simple_catalog, tables, variables)
        for name, table in tables.items():
            content = request.table_content[name].table_data
            content.SetInParent()
            for row in table.rows:
                content.row.add().cell.extend(row)
        answer = self._call("EvaluateQuery", request, service.EvaluateQueryResponse)
        columns = [(column.name, column.type) for column in answer.prepared.columns]
        return Table(columns, [list(row.cell) for row in answer.content.table_data.row])

    def analyse(self, sql: str, tables: dict[str, Table], variables: dict[str, Typed]) -> None:
        """Raise zetasql's error for a statement that GoogleSQL refuses; equal ones over equal columns are looked at once.

        The answer is not decoded: it nests deeper than Python's protobuf reads.
        """
        known = (sql, repr([(name, table.columns) for name, table in sorted(tables.items())]))
        if known in self._analysed:
            return
        request = service.AnalyzeRequest(sql_statement=sql)
        self._prepare(request.options, request.simple_catalog, tables, variables)
        self._client._call_grpc_method("ZetaSqlLocalService_Analyze", request.SerializeToString())
        self._analysed.add(known)

    def parse(self, script: str) -> None:
        """Raise zetasql's error for a script that GoogleSQL cannot read."""
        if (script, "") in self._analysed:
            return
        request = service.ParseRequest(sql_statement=script, allow_script=True)
        request.options.CopyFrom(self._options)
        self._client._call_grpc_method("ZetaSqlLocalService_Parse", request.SerializeToString())
        self._analysed.add((script, ""))

    def _prepare(self, options: Any, catalog: Any, tables: dict[str, Table], variables: dict[str, Typed]) -> None:
        options.language_options.CopyFrom(self._options)
        options.default_timezone = "UTC"
        catalog.name = "catalog"
        catalog.builtin_function_options.language_options.CopyFrom(self._options)
        for name, table in tables.items():
            described = catalog.table.add(name=name)
            for column, kind in table.columns:
                described.column.add(name=column, is_writable_column=True).type.CopyFrom(kind)
        for name, (kind, value) in variables.items():
            constant = catalog.constant.add(name_path=[name])
            constant.type.CopyFrom(kind)
            constant.value.CopyFrom(value)
