"""A table that somebody else lands on a store: its view in SQL, and the copy where one is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from services.stores import Store

from cdc_views import Project
from cdc_views.storage.stores import options_of, use_options
from cdc_views.table import Table

pytestmark = pytest.mark.heavy

SQL = "CREATE TABLE public.orders (id int PRIMARY KEY, state text, amount numeric(8,2));\n"


def change(position: int, key: int, state: str, amount: str, op: str = "u") -> str:
    row = {"id": key, "state": state, "amount": amount}
    source = {"connector": "postgresql", "lsn": position, "schema": "public", "table": "orders", "snapshot": "false"}
    after = None if op == "d" else row
    before = row if op == "d" else None
    return json.dumps({"op": op, "before": before, "after": after, "source": source, "ts_ms": 1_700_000_000_000 + position})


def append(url: str, *changes: str) -> None:
    rows = pa.table({"value": list(changes)})
    write_deltalake(url, rows, mode="append", storage_options=options_of(url))


def table_at(folder: Path, prefix: str, store: Store, **raw: str) -> Table:
    told = {
        "format": "debezium",
        "layout": "as-found",
        "table": f"{prefix}/theirs/orders",
        "options": {"decimals": "string"},
        **raw,
    }
    table = {"name": "public.orders", "schema": "schema.sql", "raw": told}
    project = {
        "name": "t",
        "engine": "duckdb",
        "warehouse": f"{prefix}/ours",
        "storage_options": store.options(),
        "tables": [table],
    }
    (folder / "schema.sql").write_text(SQL)
    (folder / "cdc_views.yml").write_text(json.dumps(project))
    return Project.load(folder / "cdc_views.yml").table("public.orders")


def shown(table: Table) -> list[tuple[int, str, str]]:
    return [(row["id"], row["state"], str(row["amount"])) for row in table.query().to_arrow().to_pylist()]


@pytest.mark.parametrize("reading", ["auto", "copy"])
def test_what_others_land_is_read_where_it_is(tmp_path: Path, prefix: str, store: Store, reading: str) -> None:
    use_options(prefix, store.options())
    url = f"{prefix}/theirs/orders"
    append(url, change(1, 1, "open", "1.50", "c"), change(2, 2, "open", "2.50", "c"))
    table = table_at(tmp_path, prefix, store, reading=reading)
    assert shown(table) == [(1, "open", "1.50"), (2, "open", "2.50")]
    append(url, change(3, 1, "paid", "1.75"), change(4, 2, "open", "2.50", "d"))
    assert shown(table) == [(1, "paid", "1.75")]
    table.materialize()
    assert shown(table) == [(1, "paid", "1.75")]
    statement = table.sql(dialect="duckdb")
    assert f"{prefix}/" in statement
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cdc_views.yml", "schema.sql"]
