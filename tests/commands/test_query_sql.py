"""`query "SELECT …"` and `Project.sql`: SQL over merged tables, what it reads, what it refuses, what it prints."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.found_tables import as_records, find, found
from helpers.tiny_project import event, write_lines

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.errors import EngineError, UnsupportedError, UsageError

CQL = """
CREATE TABLE shop.orders (id int, line int, state text, note text, PRIMARY KEY (id, line));
CREATE TABLE shop.customers (id int, line int, state text, note text, PRIMARY KEY (id, line));
"""
FORMAT = "cassandra-mutation"
HOSTILE = 'sh"op.Or;d`ers'


def cell(name: str, value: object, written: int, **more: object) -> dict[str, object]:
    return {"column": name, "written": written, "value": value, **more}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project: orders 1 to 5, three of them in a state; customers 2 to 4 by name."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        Path("schema.cql").write_text(CQL)
        write_project(table("shop.orders", "schema.cql", FORMAT), table("shop.customers", "schema.cql", FORMAT))
        for file, numbers in (("1.jsonl", (1, 2, 3)), ("2.jsonl", (3, 4, 5))):
            lines = [event(n, state="open" if n % 2 else "paid") for n in numbers]
            assert main(["land", FORMAT, str(write_lines(Path(file), *lines)), "--table", "shop.orders"]) == 0
            if file == "1.jsonl":
                assert main(["materialize", "--select", "shop.orders"]) == 0
        names = [event(n, table="customers", state=f"c{n}") for n in (2, 3, 4)]
        assert main(["land", FORMAT, str(write_lines(Path("c.jsonl"), *names)), "--table", "shop.customers"]) == 0
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Commands in a copy of the project."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


JOINED = """
    SELECT c.state AS name, count(*) AS n, sum(o.id) AS total
    FROM shop.orders o JOIN customers c ON o.id = c.id GROUP BY c.state ORDER BY name
"""
ANSWERS: dict[str, tuple[str, list[dict[str, object]]]] = {
    "join": (JOINED, [{"name": f"c{n}", "n": 1, "total": n} for n in (2, 3, 4)]),
    "aggregate": ("SELECT state, max(id) AS m FROM orders GROUP BY 1 ORDER BY 1 LIMIT 1", [{"state": "open", "m": 5}]),
    "from": ("FROM orders SELECT count(*) AS n", [{"n": 5}]),
    "shadow": ("WITH orders AS (SELECT 7 AS id) SELECT id FROM orders", [{"id": 7}]),
    "shadow of itself": ("WITH orders AS (SELECT id FROM orders WHERE id = 1) SELECT * FROM orders", [{"id": 1}]),
    "whole name in a shadow": ("WITH orders AS (SELECT 7) SELECT count(*) AS n FROM shop.orders", [{"n": 5}]),
    "columns by table": ("SELECT shop.orders.id, orders.line FROM shop.orders WHERE orders.id = 2", [{"id": 2, "line": 0}]),
    "subquery": ("SELECT id FROM orders WHERE id IN (SELECT id FROM customers) AND id > 3", [{"id": 4}]),
    "correlated": ("SELECT (SELECT state FROM customers c WHERE c.id = orders.id) AS s FROM orders WHERE id = 3", [{"s": "c3"}]),
    "union": ("SELECT id FROM orders WHERE id = 1 UNION SELECT id FROM customers WHERE id = 1", [{"id": 1}]),
    "itself": ("SELECT a.id FROM orders a JOIN shop.orders b ON a.id = b.id - 4", [{"id": 1}]),
    "using": ("SELECT id FROM orders JOIN customers USING (id) WHERE id = 2", [{"id": 2}]),
    "case": ("SELECT id FROM SHOP.Orders WHERE ID = 2", [{"id": 2}]),
    "comments": ("/* orders */ SELECT id /* from x */ FROM shop . orders -- all\n WHERE id = 2;  -- done", [{"id": 2}]),
    "texts": ("SELECT 'it''s from orders 🎉' AS t FROM orders WHERE id = 1", [{"t": "it's from orders 🎉"}]),
    "no table": ("SELECT 1 AS one", [{"one": 1}]),
    "no rows": ("SELECT id FROM orders WHERE id > 9", []),
}  # fmt: skip
OF_DUCKDB: dict[str, tuple[str, list[dict[str, object]]]] = {
    "quotes": ('SELECT "orders".id FROM "shop"."orders" WHERE id = 1', [{"id": 1}]),
    "quoted as one": ("SELECT count(*) AS n FROM \"shop.orders\", 'customers'", [{"n": 15}]),
    "values": ("SELECT * FROM (VALUES (1)) t(x), range(1) r(y)", [{"x": 1, "y": 0}]),
    "pivot": ("FROM (SELECT id, state FROM orders) PIVOT (count(id) FOR state IN ('open', 'paid'))", [{"open": 3, "paid": 2}]),
    "recursive": ("WITH RECURSIVE t AS (SELECT 1 AS m UNION SELECT m + 1 FROM t WHERE m < 3) FROM t WHERE m > 2", [{"m": 3}]),
    "prefixed alias": ("SELECT o.id FROM o: orders WHERE o.id = 1", [{"id": 1}]),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ANSWERS, *OF_DUCKDB])
def test_answers(run: CommandLine, name: str) -> None:
    sql, rows = {**ANSWERS, **OF_DUCKDB}[name]
    assert run.query(sql) == rows


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_spark_answers_alike(run: CommandLine) -> None:
    for name, (sql, rows) in ANSWERS.items():
        assert run.query(sql, "--engine", "spark") == rows, name
    assert run.query("SELECT `orders`.id FROM `shop`.`orders` WHERE id = 1", "--engine", "spark") == [{"id": 1}]
    both = "SELECT id, line, state, note, id / 2 AS half, CAST(id AS DECIMAL(20, 3)) AS d FROM orders ORDER BY id"
    assert run("query", both, "--format", "csv").out == run("query", both, "--format", "csv", "--engine", "spark").out
    joined = Project.load().sql(JOINED, engine="spark")
    assert joined.to_arrow().to_pylist() == Project.load().sql(JOINED).to_arrow().to_pylist()


FILES = {
    "csv": "SELECT * FROM read_csv('{secret}')",
    "parquet": "SELECT * FROM read_parquet('{secret}')",
    "text": "SELECT * FROM orders, LATERAL (SELECT * FROM read_text('{secret}'))",
    "glob": "SELECT * FROM glob('*')",
    "a file's name": "SELECT * FROM '{secret}'",
    "in a with": "WITH a AS (FROM '{secret}') SELECT * FROM a",
    "in a condition": "SELECT * FROM orders WHERE state IN (SELECT content FROM read_text('{secret}'))",
    "query()": "SELECT * FROM query('FROM orders')",
    "settings": "SELECT * FROM duckdb_settings()",
    "catalog": "SELECT * FROM information_schema.tables",
    "setting": "SELECT current_setting('allowed_paths')",
    "description": "SELECT * FROM (DESCRIBE orders)",
}
STATEMENTS = {
    "copy": "COPY orders TO 'x.csv'",
    "copy of a query": "COPY (SELECT 1) TO 'x.csv'",
    "attach": "ATTACH 'x.duckdb'",
    "pragma": "PRAGMA database_list",
    "insert": "INSERT INTO orders VALUES (1)",
    "insert in a with": "WITH a AS (INSERT INTO orders VALUES (1) RETURNING *) SELECT * FROM a",
    "insert after a with": "WITH a AS (SELECT 1) INSERT INTO orders SELECT * FROM a",
    "create": "CREATE TABLE x AS SELECT 1",
    "into": "SELECT id INTO x FROM orders",
    "two": "SELECT 1 AS a; SELECT 2 AS a",
    "two, one hidden": "SELECT 1 AS a; COPY orders TO 'x.csv'",
    "travel": "SELECT * FROM orders AT (VERSION => 1)",
    "install": "INSTALL httpfs",
    "no SQL": "SELECT FROM WHERE",
    "open quote": "SELECT 'a FROM orders",
    "unknown table": "SELECT * FROM ordrs",
    "unknown schema": "SELECT * FROM shp.orders",
    "unknown column": "SELECT stat FROM orders",
    "wrong value": "SELECT CAST(state AS INT) AS n FROM orders",
    "two of one name": "SELECT a.id, b.id FROM orders a JOIN orders b ON a.id = b.id",
    "inexact": "SELECT '101'::BIT AS b FROM orders",
    "inexact in a list": "SELECT [1::UHUGEINT] AS b FROM orders",
}


@pytest.mark.parametrize("name", [*FILES, *STATEMENTS])
def test_what_is_refused(run: CommandLine, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("secret\n1\n")
    before = sorted(Path().iterdir())
    answer = run("query", {**FILES, **STATEMENTS}[name].format(secret=secret), "--format", "jsonl")
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("error: "), answer.err
    assert sorted(Path().iterdir()) == before


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_what_spark_refuses(run: CommandLine) -> None:
    for sql in (
        "SELECT * FROM parquet.`warehouse/raw/shop_orders`",
        "SELECT * FROM text.`cdc_views.yml`",
        "SELECT * FROM orders VERSION AS OF 1",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME') AS h",
        "SELECT TRANSFORM(id) USING 'cat' FROM orders",
        "FROM orders INSERT INTO x SELECT *",
        "SELECT * FROM IDENTIFIER('orders')",
        "SELECT (SELECT max(value) FROM json.`cdc_views.yml`) AS x",
        "SELECT try_reflect('java.lang.System', 'getenv', 'HOME') AS h",
        "SELECT transform(array(1), x -> java_method('java.lang.System', 'getenv', 'HOME')) AS h",
        "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd')) AS x",
        "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME') AS h",
        "SELECT input_file_name() AS f FROM orders",
        "SELECT made_here(id) AS x FROM orders",
        "SELECT * FROM read_files('cdc_views.yml')",
        "SELECT * FROM sql_keywords()",
        "SELECT t.x FROM orders LATERAL VIEW made_there(id) t AS x",
        "SELECT * FROM STREAM orders",
        "SELECT * FROM orders WITH (path = 'x')",
        "SELECT stat FROM orders",
        "SELECT CAST(state AS INT) AS n FROM orders",
        "SELECT 1 AS a; SELECT 2 AS a",
    ):
        answer = run("query", sql, "--engine", "spark", "--format", "jsonl")
        assert (answer.code, answer.out) == (2, ""), (sql, answer)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT * FROM ordrs", "did you mean 'shop.orders'?"),
        ("COPY orders TO 'x.csv'", "begins with SELECT, WITH or FROM"),
        ("SELECT * FROM read_csv('x')", "reads from read_csv(…)"),
        ("SELECT 1 AS a; SELECT 2 AS a", "there are 2 statements"),
        ("SELECT a.id, b.id FROM orders a JOIN orders b USING (id)", "name them, as id AS other"),
        ("SELECT '101'::BIT AS b", "CAST(… AS VARCHAR)"),
        ("SELECT stat FROM orders", "state"),
    ],
)
def test_what_a_refusal_says(run: CommandLine, sql: str, told: str) -> None:
    assert told in run("query", sql).err


@pytest.mark.parametrize(
    "option",
    [
        ("--where", "id = 1"), ("--columns", "id"), ("--limit", "1"), ("--limit", "0"), ("--strategy", "window"),
        ("--confirmed",), ("--explain",), ("--select", "shop.orders"),
    ],
)  # fmt: skip
def test_options_of_one_table_are_refused(run: CommandLine, option: tuple[str, ...]) -> None:
    answer = run("query", "FROM orders", *option)
    assert (answer.code, answer.out) == (2, "")
    assert f"{option[0]} is of one table, and this is SQL; leave it out: " in answer.err


def test_a_table_goes_before_a_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = 'shop."from orders"'
    Path("schema.cql").write_text(f"CREATE TABLE {name} (id int, line int, state text, note text, PRIMARY KEY (id, line));")
    write_project(table("shop.from orders", "schema.cql", FORMAT))
    run = CommandLine(capsys)
    assert run.land("shop.from orders", event(1, table="from orders"), format=FORMAT).code == 0
    assert [row["id"] for row in run.query("from orders")] == [1]
    assert run.query('SELECT "from orders".id FROM "from orders"') == [{"id": 1}]


def hostile(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Tables whose names hold quotes, a semicolon and another dot, and two that differ in case."""
    made = {HOSTILE: "Or;d`ers", "shop.a.b": "a.b", "shop.t": "t", "shop.T": "T"}
    for number, name in enumerate(made):
        keyspace, _, own = name.partition(".")
        quoted = ['"' + part.replace('"', '""') + '"' for part in (keyspace, own)]
        columns = 'id int, line int, state text, "sele""ct" text, PRIMARY KEY (id, line)'
        Path(f"{number}.cql").write_text(f"CREATE TABLE {'.'.join(quoted)} ({columns});")
    write_project(*(table(name, f"{number}.cql", FORMAT) for number, name in enumerate(made)))
    run = CommandLine(capsys)
    for number, name in enumerate(made, 1):
        keyspace, _, own = name.partition(".")
        assert run.land(name, event(number, table=own, keyspace=keyspace), format=FORMAT, file=f"{number}.jsonl").code == 0
    return run


def check_hostile(run: CommandLine, quote: Callable[[str], str], *more: str) -> None:
    keyspace, own = HOSTILE.split(".")
    whole = f"{quote(keyspace)}.{quote(own)}"
    assert run.query(f"SELECT {quote(own)}.id FROM {whole}", *more) == [{"id": 1}]
    assert run.query(f"SELECT {whole}.id FROM {whole} WHERE {quote('sele' + chr(34) + 'ct')} IS NULL", *more) == [{"id": 1}]
    assert run.query(f"SELECT id FROM shop.{quote('a.b')}", *more) == [{"id": 2}]
    assert run.query(f"SELECT {quote('T')}.id FROM shop.{quote('T')}", *more) == [{"id": 4}]
    assert run.query("SELECT t.id FROM t", *more) == [{"id": 3}]


def test_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    check_hostile(hostile(capsys), lambda name: '"' + name.replace('"', '""') + '"')


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_hostile_names_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    check_hostile(hostile(capsys), lambda name: "`" + name.replace("`", "``") + "`", "--engine", "spark")


def test_instants_hold_for_every_table(run: CommandLine) -> None:
    cells = [cell("state", "x", 9, ttl=10, expires_at=1_800_000_000)]
    for name in ("orders", "customers"):
        line = event(9, table=name, rows=[{"kind": "row", "clustering": {"line": 0}, "cells": cells}])
        assert run.land(f"shop.{name}", line, format=FORMAT, file=f"{name}.jsonl").code == 0
    sql = "SELECT (SELECT count(*) FROM orders) AS o, (SELECT count(*) FROM customers) AS c"
    counts = {
        ("--as-of", "1799999999"): (6, 4), ("--as-of", "1800000000"): (5, 3), ("--landed-as-of", "2000-01-01"): (0, 0),
        ("--written-as-of", "1970-01-01"): (0, 0), ("--as-of", "1800000000", "--raw-only"): (5, 3),
    }  # fmt: skip
    assert {given: tuple(run.query(sql, *given)[0].values()) for given in counts} == counts
    assert list(Project.load().sql(sql, as_of=1_799_999_999)) == [{"o": 6, "c": 4}]


def test_state_and_tail_equal_raw_alone(run: CommandLine) -> None:
    assert run.query("FROM orders ORDER BY id") == run.query("FROM orders ORDER BY id", "--raw-only")
    assert run.query("FROM orders ORDER BY id") == run.query("shop.orders")
    next(Path("warehouse/state").rglob("_part=*/*.parquet")).unlink()
    both = "SELECT o.id FROM customers JOIN orders o USING (id) ORDER BY id"
    assert (run("query", both).code, [row["id"] for row in run.query(both, "--raw-only")]) == (3, [2, 3, 4]), "without states"


EXACT = {
    "9007199254740993::BIGINT": "9007199254740993",
    "sum(9223372036854775807)": "46116860184273879035",
    "170141183460469231731687303715884105727::HUGEINT": "170141183460469231731687303715884105727",
    "12345678901234567890123456789.123456789::DECIMAL(38, 9)": "12345678901234567890123456789.123456789",
    "NULL": "null",
    "'null'": '"null"',
    "TIMESTAMPTZ '2024-01-02 03:04:05.678Z'": '"2024-01-02 03:04:05.678Z"',
    "TIMESTAMPTZ '2024-01-02 03:04:05.678901Z'": '"2024-01-02 03:04:05.678901Z"',
    "TIMESTAMP '20240-01-02 03:04:05'": '"+20240-01-02 03:04:05"',
    "DATE '2024-01-02'": '"2024-01-02"',
    "'infinity'::TIMESTAMPTZ": '"infinity"',
    "INTERVAL 1 MONTH": '"1mo"',
    "1e300": "1.0E300",
    "'nan'::DOUBLE": "null",
    "'\\x00\\xff'::BLOB": '"0x00ff"',
    "true": "true",
    "{'a': [1, NULL], 'b': 'x'}": '{"a": [1, null], "b": "x"}',
    "map(['k'], [1.5])": '{"k": 1.5}',
    "'a'::ENUM('a')": '"a"',
}


@pytest.mark.parametrize("value", EXACT)
def test_values_are_exact(run: CommandLine, value: str) -> None:
    answer = run("query", f"SELECT {value} AS v FROM orders{' LIMIT 1' if 'sum' not in value else ''}", "--format", "jsonl")
    assert (answer.code, answer.out) == (0, f'{{"v": {EXACT[value]}}}\n'), answer.err


def test_formats(run: CommandLine) -> None:
    sql = "SELECT id, state AS \"st,ate\", 'nan'::DOUBLE AS x, NULL AS n FROM orders WHERE id < 3 ORDER BY id"
    assert list(csv.reader(io.StringIO(run("query", sql, "--format", "csv").out))) == [
        ["id", "st,ate", "x", "n"], ["1", "open", "NaN", ""], ["2", "paid", "NaN", ""],
    ]  # fmt: skip
    assert [row["st,ate"] for row in json.loads(run("query", sql, "--format", "json").out)] == ["open", "paid"]
    assert "st,ate" in run("query", sql).out
    assert "paid" in run("query", sql, "--format", "vertical").out
    assert run("query", "SELECT id FROM orders WHERE id > 9", "--format", "json").out == "[]\n"


def test_a_result_has_the_forms_of_one(run: CommandLine) -> None:
    rows = Project.load().sql("SELECT id, CAST(id AS DECIMAL(20, 2)) AS d FROM orders WHERE id > 3 ORDER BY id")
    assert (len(rows), repr(rows), rows.columns) == (2, "StatementResult(2 rows of id, d)", ("id", "d"))
    assert list(rows) == [{"id": 4, "d": Decimal("4.00")}, {"id": 5, "d": Decimal("5.00")}]
    assert rows.to_arrow().to_pylist() == list(rows)
    assert rows.to_pandas()["id"].tolist() == [4, 5]
    assert [row[0] for row in rows.to_duckdb().fetchall()] == [4, 5]
    assert "<td" in rows._repr_html_()
    assert "5.00" in rows._repr_html_()


def test_nothing_landed_is_told(run: CommandLine) -> None:
    Path("new.cql").write_text(CQL.replace("shop.", "new."))
    write_project(table("shop.orders", "schema.cql", FORMAT), table("new.customers", "new.cql", FORMAT))
    answer = run(
        "query", "SELECT count(*) AS n, count(c.id) AS c FROM orders LEFT JOIN customers c USING (id)", "--format", "jsonl"
    )
    assert (answer.code, answer.rows) == (0, [{"n": 5, "c": 0}])
    assert "nothing has landed for new.customers yet" in answer.err


def test_a_table_that_somebody_else_lands_is_one_as_well(run: CommandLine) -> None:
    find(as_records([{"value": event(n, table="customers", state=f"found {n}"), "topic": "t"} for n in (1, 2)]))
    write_project(table("shop.orders", "schema.cql", FORMAT), found("shop.customers", "schema.cql", FORMAT))
    sql = "SELECT c.state AS name FROM orders JOIN customers c USING (id) ORDER BY id"
    assert run.query(sql) == [{"name": "found 1"}, {"name": "found 2"}]
    find(as_records([{"value": event(3, table="customers", state="found 3"), "topic": "t"}], first=2))
    assert [row["name"] for row in run.query(sql)] == ["found 1", "found 2", "found 3"]


def test_an_ambiguous_name_is_told(run: CommandLine) -> None:
    Path("other.cql").write_text(CQL.replace("shop.", "erp."))
    write_project(table("shop.orders", "schema.cql", FORMAT), table("erp.orders", "other.cql", FORMAT))
    assert "shop.orders and erp.orders; give the whole name" in run("query", "FROM orders").err
    assert run.query("SELECT count(*) AS n FROM shop.orders") == [{"n": 5}]


@pytest.mark.usefixtures("run")
def test_an_engine_that_runs_no_statements_says_so() -> None:
    with pytest.raises(UnsupportedError, match="`cdc-views apply`"):
        Project.load().sql("SELECT 1 AS a", engine="bigquery")
    with pytest.raises(UsageError, match="is no query"):
        Project.load().sql("orders")


@pytest.mark.usefixtures("run")
def test_a_damaged_file_is_named() -> None:
    for file in Path("warehouse/raw/shop_customers").glob("*.parquet"):
        file.write_bytes(b"noise")
    with pytest.raises(EngineError, match=r"shop\.customers: a file of the raw table is damaged"):
        Project.load().sql("SELECT count(*) AS n FROM customers")
