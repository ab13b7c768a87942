"""The columns of a model of rows: descriptions, data types of a contract, and dbt's own tests `unique` and `not_null`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_views.engines.duckdb.types import type_text
from cdc_views.engines.serving import column_types
from cdc_views.export.dbt.jinja import literal, value
from cdc_views.export.exporting import ROLES
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import LogicalType, MapOf, children
from cdc_views.operations.raw_files import plain_name
from cdc_views.plan import names
from cdc_views.quality.conditions import never_null
from cdc_views.rules.oracle import compares_as_keys
from cdc_views.sql.dialects.keywords import KEYWORDS

if TYPE_CHECKING:
    from cdc_views.table import Table

CONTRACT = "{{ target.type in ('duckdb', 'spark') }}"
"""Where a contract is enforced: dbt has built models with these types there, in the tests."""
KEEPS_STATE = "{{ target.type in ('duckdb', 'spark', 'databricks') }}"
"""As the macro `keeps_state` of the package; a file of properties can call no macro."""
_BARE = re.compile(r"[a-z_][a-z0-9_]*\Z")
_QUOTES = frozenset("\"`{}%#\\'")
_SPARK = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.date32(): "date",
}
_ALIKE = frozenset(_SPARK.values()) - {"timestamp", "timestamp_ntz"}
"""Types that DuckDB knows by the same names."""


def has_map(kind: LogicalType) -> bool:
    """Return whether a view's value may contain a MAP, which Spark cannot compare."""
    return isinstance(kind, MapOf) or any(map(has_map, children(kind)))


def takes_contract(schema: TableSchema) -> bool:
    """Return whether dbt can check the columns: it does not double the quotes inside a name."""
    return not any(_QUOTES.intersection(column.name) for column in schema.columns)


def columns_of(table: Table) -> list[dict[str, Any]]:
    """Return the columns of the model of rows, in the schema's order."""
    schema, described = table.schema, table.config.dbt.columns
    table.check_columns("dbt.columns", described)
    verdicts = {line.column: line.verdict.value for line in table.fidelity()}
    kinds = column_types(table.relation, field_name=str)
    found = []
    for column in schema.columns:
        role = ROLES[column.role]
        meta = {"role": role, "type": literal(str(column.type))}
        meta |= {"fidelity": verdicts[column.name]} if column.name in verdicts else {}
        policy = table.config.policies.columns.get(column.name)
        meta |= {} if policy is None else {"policy": policy.policy.value}
        one = {
            "name": literal(column.name),
            # the user's may call `doc(…)`, as everywhere in dbt
            "description": described.get(column.name) or literal(column.description or f"{role}, {column.type}"),
            "data_type": _data_type(kinds[column.name]),
            "quote": True,
            "config": {"meta": {"cdc_views": meta}},
            "data_tests": _tests(schema, column),
        }
        found.append({key: part for key, part in one.items() if part != []})
    return found


def _tests(schema: TableSchema, column: Column) -> list[dict[str, Any]]:
    model, name = plain_name(schema.full_name), physical_name(column.name)
    if not never_null(schema, column) or _QUOTES.intersection(column.name):
        return []
    tests = [{"not_null": {"name": f"not_null_{model}__{name}"}}]
    is_key = schema.row_key == (column,) and compares_as_keys(schema) and not has_map(column.type)
    return [{"unique": {"name": f"unique_{model}__{name}"}}, *tests] if is_key else tests


def key_tests(schema: TableSchema) -> list[dict[str, Any]]:
    """Return the tests of a model's whole row key, unless `columns_of` has them at its only column: dbt's own of an expression
    where every adapter reads it, else the package's. None where SQL compares keys otherwise than the source.
    """
    key, model = schema.row_key, plain_name(schema.full_name)
    if not compares_as_keys(schema):
        return []
    is_single = len(key) == 1 and not _QUOTES.intersection(key[0].name) and not has_map(key[0].type)
    if is_single:
        return []
    if _are_bare([column.name for column in key]) and not any(has_map(column.type) for column in key):
        never = [column.name for column in key if never_null(schema, column)]
        return _of_expression(model, [column.name for column in key], never_null=never)
    arguments = {"key": [literal(column.name) for column in key]}
    return [{"cdc_views.one_row_per_key": {"name": f"one_row_per_key_{model}", "arguments": arguments}}]


def state_key_tests(schema: TableSchema, layout: Sequence[str]) -> list[dict[str, Any]]:
    """Return the tests of the key of a state's facts, whose columns are `layout`: one fact per row, static row and deletion."""
    key = [names.KIND, *map(names.identity, schema.row_key), *(name for name in (names.FROM, names.TO) if name in layout)]
    if not compares_as_keys(schema) or not _are_bare(key) or any(has_map(column.type) for column in schema.row_key):
        return []
    tests = _of_expression(f"{plain_name(schema.full_name)}__state", key, never_null=[names.KIND])
    return [{kind: test | {"config": {"enabled": KEEPS_STATE}} for kind, test in one.items()} for one in tests]


def _of_expression(model: str, key: Sequence[str], *, never_null: Sequence[str]) -> list[dict[str, Any]]:
    """Return dbt's tests of a key of several columns. In a CASE, because some engines take a bare `(a, b)` after GROUP BY for
    two columns; and it is null where a part is that never may be.
    """
    present = " AND ".join(f"{name} IS NOT NULL" for name in never_null)
    arguments = {"column_name": f"CASE WHEN {present} THEN ({', '.join(key)}) END"}
    return [{test: {"name": f"{test}_key_of_{model}", "arguments": arguments}} for test in ("unique", "not_null")]


def _are_bare(columns: Sequence[str]) -> bool:
    """Return whether all engines read these names without quotes: dbt's `unique` takes one text for every adapter."""
    return all(_BARE.match(name) and name not in KEYWORDS for name in columns)


def _data_type(kind: pa.DataType) -> str:
    """Return a column's type as dbt takes it: one name where the adapters agree, else one by adapter."""
    spark = _spark_type(kind)
    if spark in _ALIKE or pa.types.is_decimal(kind):
        return spark
    return f"{{{{ {value(type_text(kind))} if target.type == 'duckdb' else {value(spark)} }}}}"


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return f"struct<{', '.join(f'`{field.name}`: {_spark_type(field.type)}' for field in fields)}>"
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_spark_type(kind.key_type)}, {_spark_type(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK[kind]
