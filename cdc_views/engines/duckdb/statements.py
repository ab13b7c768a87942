"""Users' queries over merged tables, in DuckDB: each table is a view, on a connection that can read only these tables' files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import duckdb
import pyarrow as pa
from duckdb import StatementType

from cdc_views.engines.base import BATCH_ROWS, StatementRead, StatementRows
from cdc_views.engines.duckdb.connections import batches_in, in_its_words, with_stores
from cdc_views.engines.duckdb.types import quoted
from cdc_views.engines.snapshot import Snapshot
from cdc_views.errors import UsageError
from cdc_views.model.user_statements import EXPECTED, TABLE_FUNCTIONS
from cdc_views.sql import check_names

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

_INEXACT = frozenset({"uhugeint", "bit", "bignum", "time with time zone", "union", "variant", "geometry"})
"""Types whose values Arrow changes, or has no type for."""


def run_over(
    asked: StatementRead, tables: Mapping[str, str], connection: duckdb.DuckDBPyConnection, snapshots: Iterable[Snapshot]
) -> StatementRows:
    """Run a statement over `tables`, the SQL of each by its full name, and close the connection after the last row.

    `snapshots` are those that the SQL calls by `Snapshot.arrow_name`.
    """
    with in_its_words():
        for snapshot in snapshots:
            connection.register(snapshot.arrow_name, snapshot.arrow)
        views = {table: quoted(_unused(f"merged_{i}", asked.statement.text)) for i, table in enumerate(tables)}
        text = asked.text(views)
        _check(connection, text, known=frozenset(views.values()))
        for table, sql in tables.items():
            check_names(asked.reads[table].raw.relation, "duckdb")
            with_stores(connection, sql).execute(f"CREATE VIEW {views[table]} AS {sql}")
        rows = connection.sql(text)
        for name, kind in zip(rows.columns, rows.types, strict=True):
            _check_exact(name, kind)
        reader = rows.to_arrow_reader(BATCH_ROWS)
    return StatementRows(reader.schema, _batches(reader, connection))


def _unused(name: str, text: str) -> str:
    """A name that does not stand in the text, so that no WITH of it hides the view."""
    while name in text.casefold():
        name += "_"
    return name


def _check(connection: duckdb.DuckDBPyConnection, text: str, *, known: frozenset[str]) -> None:
    """Raise `UsageError` if DuckDB's own parser finds more in a statement than a query of the known views."""
    one = connection.extract_statements(text)
    (told,) = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0]
    tree = json.loads(told)
    if len(one) != 1 or one[0].type != StatementType.SELECT or tree["error"]:
        why = tree.get("error_message", "it has more than one statement")
        raise UsageError(
            f"DuckDB does not take the query as one: {why}; {EXPECTED}, and PIVOT names its values: ON column IN (…)"
        )
    nodes = list(_nodes(tree))
    ours = {node["key"].casefold() for node in nodes if isinstance(node.get("key"), str)}  # of WITH
    for node in nodes:
        match node:
            case {"type": "BASE_TABLE", "table_name": name} if quoted(name) not in known and name.casefold() not in ours:
                raise UsageError(f"the query reads {name}; {EXPECTED}")
            case {"type": "TABLE_FUNCTION", "function": {"function_name": name}} if name not in TABLE_FUNCTIONS:
                raise UsageError(f"the query reads from {name}(…); {EXPECTED}")
            case {"type": "SHOW_REF"}:
                raise UsageError(f"the query reads from a description; {EXPECTED}")


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(part)


def _check_exact(name: str, kind: DuckDBPyType) -> None:
    if kind.id in _INEXACT:
        raise UsageError(f"column {name!r} is of type {kind}, whose values are not exact here; cast it, as CAST(… AS VARCHAR)")
    for _, part in kind.children if kind.id in ("list", "array", "struct", "map") else ():
        if not isinstance(part, int):  # the size of an array
            _check_exact(name, cast("DuckDBPyType", part))


def _batches(reader: pa.RecordBatchReader, connection: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches_in(reader)
    finally:
        connection.close()
