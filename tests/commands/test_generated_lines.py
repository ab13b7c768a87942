"""A person can review a view: how many lines `generate` prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project

DIALECTS = ("duckdb", "spark", "databricks", "bigquery", "postgres")
POSTGRES = (
    "CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer text, amount numeric(10,2), state int, placed_at timestamptz);"
)
CASSANDRA = "CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer text, amount decimal, state int, placed_at timestamp);"
WIDE = Path(__file__).parent.parent / "data" / "schemas" / "cassandra_wide_schema.cql"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("name", "schema", "format", "most"),
    [
        ("shop.orders", POSTGRES, "debezium", 35),
        ("shop.orders", CASSANDRA, "cassandra-mutation", 55),
        ("hid211.orders", WIDE.read_text("utf-8"), "cassandra-mutation", 450),
    ],
    ids=["postgres", "cassandra", "wide"],
)
def test_a_view_is_short(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    dialect: str,
    name: str,
    schema: str,
    format: str,
    most: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.sql").write_text(schema, "utf-8")
    write_project(table(name, "schema.sql", format))
    printed = CommandLine(capsys)("generate", "--dialect", dialect)
    assert printed.code == 0, printed.err
    # PostgreSQL has no ARG_MAX
    assert len(printed.out.splitlines()) <= most * (2 if dialect == "postgres" else 1), printed.out


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "databricks", "bigquery"])
def test_with_macros_tests_latest_cells_and_conversions_are_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dialect: str
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = "price decimal, day date, at time, stamp timestamp"
    names = ("shop.orders", "shop.items")
    ddl = (f"CREATE TABLE {name} (id bigint PRIMARY KEY, {columns});\n" for name in names)
    Path("schema.sql").write_text("".join(ddl), "utf-8")
    write_project(*(table(name, "schema.sql", "cassandra-mutation", columns={"price": "decimal(12,2)"}) for name in names))
    printed = CommandLine(capsys)("generate", "--style", "macros", "--dialect", dialect)
    texts = set(re.findall(r"^CREATE OR REPLACE (?:MACRO|FUNCTION) [^;]*;", printed.out, re.MULTILINE))
    made = sorted(re.findall(r"cdc_(\w+)`?\(", text)[0] for text in texts)
    latest = {"latest_number", "latest_by_bytes"} if dialect == "duckdb" else set()
    assert made == sorted(latest | {"shows", "date", "time", "datetime", "decimal_12_2"}), "the same of both tables"
