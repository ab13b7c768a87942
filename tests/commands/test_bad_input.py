"""A hostile or unlucky user: one clear message on standard error, the right exit code, nothing on standard output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import Answer, CommandLine, table, write_project
from helpers.comparing import raw_location

from cdc_views.cli import main

CQL = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text, note text);\n"
ORDERS = "shop.orders"
FORMAT = "cassandra-mutation"


def event(number: int, *, name: str = "orders", keyspace: str = "shop", value: object = "open") -> str:
    """A mutation that inserts one row."""
    cells = [{"column": "state", "written": number, "value": value}]
    row = {"kind": "row", "clustering": {}, "liveness": {"written": number}, "cells": cells}
    place = {"node": "n1", "segment": 1, "position": number, "keyspace": keyspace, "table": name, "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **place, "rows": [row]})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of one table, `shop.orders`, with a file of two events."""
    monkeypatch.chdir(tmp_path)
    set_up()
    return CommandLine(capsys)


@pytest.fixture(scope="module")
def landed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose project has landed its two events, for tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("landed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        set_up()
        Path("events.jsonl").write_text(event(1) + "\n" + event(2) + "\n")
        assert main(["land", FORMAT, "events.jsonl", "--table", ORDERS]) == 0
    return folder


@pytest.fixture
def reading(landed_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[CommandLine]:
    """The command line in `landed_folder`; fails a test that leaves another file there."""
    monkeypatch.chdir(landed_folder)
    before = sorted(landed_folder.rglob("*"))
    yield CommandLine(capsys)
    assert sorted(landed_folder.rglob("*")) == before


def set_up(*, name: str = ORDERS, cql: str = CQL, **more: Any) -> None:
    Path("schema.cql").write_text(cql, encoding="utf-8")
    write_project(table(name, "schema.cql", FORMAT, **more))


def land(run: CommandLine, *lines: str) -> Answer:
    return run.land(ORDERS, *(lines or (event(1), event(2))), format=FORMAT)


def heavy(value: str) -> Any:
    """A parameter that `make test-fast` leaves out."""
    return pytest.param(value, marks=pytest.mark.heavy)


def refused(answer: Answer, expected: str, code: int = 2) -> None:
    """One message, one line, and nothing of Python in it."""
    assert (answer.code, answer.out) == (code, ""), answer
    assert expected in answer.err
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    for trace in ("Traceback", "unexpected", "\x1b", "<unknown>", "Error("):
        assert trace not in answer.err


# --- --where -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("1=1; DROP TABLE x", "is not a SQL expression"),
        ("id = 1) OR (1 = 1", "closes a bracket that it did not open"),
        ("(select 1) = 1", "holds a query"),
        ("id in (select 1)", "holds a query"),
        ("id in (from 'events.jsonl')", "holds a query"),
        ("exists (from read_text('/etc/passwd'))", "calls"),
        ("read_csv('/etc/passwd') is null", "calls read_csv"),
        ("read_text('/etc/passwd') is null", "calls read_text"),
        ("read_blob('/etc/passwd') is null", "calls read_blob"),
        ("lower(getenv('HOME')) = 'x'", "calls getenv"),
        ("'HOME'.getenv() = 'x'", "calls getenv"),
        ("case when true then pg_read_file('x') end = 'x'", "calls pg_read_file"),
        ("current_setting('home_directory') = 'x'", "calls current_setting"),
        ("reflect('java.lang.System', 'getenv', 'HOME') = 'x'", "calls reflect"),
        ("java_method('java.lang.System', 'getenv', 'HOME') = 'x'", "calls java_method"),
        ("query('select 1') = 1", "calls query"),
        ("state = current_user", "calls current_user"),
        ("COLUMNS('.*') = 1", "calls columns"),
        ("count(*) > 1", "calls count"),
        ("row_number() over () = 1", "calls row_number"),
        ("*", "holds a *"),
        ("id = ?", "placeholder"),
        ("id = 1 union select 1", "is not a SQL expression"),
        ("nope = 1", "did you mean 'note'?"),
        ("id =", "is not a SQL expression"),
        ("", "--where is empty"),
        ("  ", "--where is empty"),
        ("id = 'x'", "cannot be evaluated: DuckDB: Conversion Error"),
        ("state > 3", "cannot be evaluated: DuckDB: Binder Error"),
        ("id::nope = 1", "casts to nope"),
        ("(" * 2000 + "1" + ")" * 2000 + " = 1", "nested too deeply"),
    ],
)
def test_a_condition_computes_on_the_row_and_nothing_else(reading: CommandLine, where: str, expected: str) -> None:
    refused(reading("query", ORDERS, "--where", where), expected)


@pytest.mark.parametrize(
    "where",
    [
        "id > 1 AND state = 'open' OR note IS NULL", "lower(state) LIKE 'o%'", "id IN (1, 2) AND id BETWEEN 1 AND 9",
        "coalesce(note, 'x') = 'x'", "CASE WHEN id = 1 THEN true ELSE false END OR id = 2",
        "state ILIKE 'OPEN'", "len(state) = 4",
        "abs(id) % 2 = 1 OR CAST(id AS text) = '2'", "regexp_matches(state, '^o') AND contains(state, 'p')",
        "date_trunc('day', now()) > date '2020-01-01'", "list_contains([1, 2], id)", "id = 1 OR true -- a comment",
        "try_cast(state AS int) IS NULL", "concat(state, ')') = 'open)'",
    ],
)  # fmt: skip
def test_ordinary_conditions_work(reading: CommandLine, where: str) -> None:
    assert {row["id"] for row in reading.query(ORDERS, "--where", where)} == {1, 2}


# --- options -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("query", ORDERS, "--limit", "-1"), "0 or more"),
        (("query", ORDERS, "--limit", "99999999999999999999999"), "below 2^63"),
        (("query", ORDERS, "--limit", "1e9"), "--limit"),
        (("query", ORDERS, "--as-of", "nonsense"), "is no instant"),
        (("query", ORDERS, "--as-of", ""), "is no instant"),
        (("query", ORDERS, "--as-of", "2026-13-45"), "is no instant"),
        (("query", ORDERS, "--as-of", "99999999999999999999999"), "out of range"),
        (("query", ORDERS, "--as-of", "1795437000000"), "after the year 9999"),
        (("query", ORDERS, "--as-of", "253402300800"), "in seconds, not milli- or microseconds"),
        (("query", ORDERS, "--landed-as-of", "1795437000000"), "landed_as_of is '1795437000000', out of range"),
        (("query", ORDERS, "--written-as-of", "1795437000000000"), "written_as_of is '1795437000000000', out of range"),
        (("explain", ORDERS, "--key", '{"id": 1}', "--as-of", "1795437000000"), "after the year 9999"),
        (("history", ORDERS, "--as-of", "1795437000000"), "after the year 9999"),
        (("validate", "--as-of", "1795437000000"), "after the year 9999"),
        (("query", ORDERS, "--landed-as-of", "x"), "is no instant"),
        (("query", ORDERS, "--engine", "oracle"), "there is no engine 'oracle'"),
        (("query", ORDERS, "--engine", ""), "there is no engine ''"),
        (("query", ORDERS, "--strategy", "x"), "there is no strategy 'x'"),
        (("query", ORDERS, "--columns", ""), "has no column ''"),
        (("query", ORDERS, "--format", "xml"), "--format is 'xml'"),
        (("query", "shop.order"), "did you mean 'shop.orders'?"),
        (("query", ORDERS, "--project", "."), "cannot be read"),
        (("query", ORDERS, "--project", "/dev/null"), "is no project file"),
        (("query", ORDERS, "--project", "missing.yml"), "no such project file"),
        (("generate", "--dialect", "oracle"), "there is no dialect 'oracle'"),
        (("generate", "--out", "schema.cql"), "--out schema.cql"),
        (("explain", ORDERS, "--key", "nope"), "the key is not JSON"),
        (("explain", ORDERS, "--key", "[1]"), "a JSON object"),
        (("explain", ORDERS, "--key", '{"id": "x"}'), "an integer was expected"),
        (("explain", ORDERS, "--key", '{"id": 1, "z": 1}'), "has no column 'z'"),
        (("land", "csv", "events.jsonl", "--table", ORDERS), "there is no raw format 'csv'"),
        (("land", FORMAT, ".", "--table", ORDERS), "is a directory"),
        (("land", FORMAT, "missing.jsonl", "--table", ORDERS), "no such file"),
        (("land", FORMAT, "/proc/self/mem", "--table", ORDERS), "cannot be read"),
    ],
)
def test_an_option_that_cannot_be(reading: CommandLine, arguments: tuple[str, ...], expected: str) -> None:
    refused(reading(*arguments), expected)


# --- the project and its files -------------------------------------------------------------------------------------------

TABLES = "name: s\nengine: duckdb\ntables:\n"
ENTRY = "  - {name: shop.orders, schema: schema.cql, raw: {format: cassandra-mutation}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is no project file"),
        ("- a", "is no project file"),
        (TABLES, "cdc_views.yml:3: tables is empty; a list was expected"),
        (TABLES + ENTRY + ", foo: 1}", "cdc_views.yml:4: unknown key 'foo' in tables[0]"),
        (TABLES + ENTRY.replace("schema.cql", "nope.cql") + "}", "nope.cql, is no file"),
        (TABLES + ENTRY.replace("schema.cql", "'.'") + "}", "is no file"),
        (TABLES + ENTRY.replace("schema.cql", "events.jsonl") + "}", "unknown key 'format'"),
        (TABLES + ENTRY + ", columns: {nope: text}}", "has no column 'nope'; did you mean 'note'?"),
        (TABLES + ENTRY.replace("mutation}", "mutation, table: events.jsonl}") + "}", "is a file; name a folder"),
        (
            TABLES + ENTRY.replace("mutation}", "mutation, table: 'a[b]'}") + "}",
            "Delta cannot keep a table under a path that holds '['",
        ),
        (TABLES.replace("tables", "warehouse: schema.cql\ntables") + ENTRY + "}", "is a file; name a folder"),
        ("name: [", "is not YAML"),
        ("name: s\x00", "is not YAML"),
        ("a: &a [*a]", "an alias stands inside"),
        ("name: ${NOT_SET_ANYWHERE}", "set NOT_SET_ANYWHERE"),
    ],
)
def test_a_project_file_that_cannot_be(run: CommandLine, text: str, expected: str) -> None:
    Path("events.jsonl").write_text(event(1))
    Path("cdc_views.yml").write_text(text)
    refused(run("query", ORDERS), expected)


@pytest.mark.parametrize(
    ("cql", "expected"),
    [
        ("", "defines no table"),
        ("CREATE TABLE shop.orders (id int);", "has no key"),
        ("CREATE TABLE shop.orders (k int PRIMARY KEY, id counter);", "is a counter"),
        ("CREATE TABLE shop.orders (id int PRIMARY KEY", "schema.cql:1:45: expected"),
        ("CREATE TABLE shop.orders (id nope PRIMARY KEY);", "unknown type 'nope'"),
        ("CREATE TABLE shop.orders (id int PRIMARY KEY, id int);", "is there already"),
    ],
)
def test_a_schema_that_cannot_be(run: CommandLine, cql: str, expected: str) -> None:
    set_up(cql=cql)
    for arguments in (("query", ORDERS), ("fidelity",), ("generate",), ("land", FORMAT, "schema.cql", "--table", ORDERS)):
        refused(run(*arguments), expected)


def test_a_binary_schema_file(run: CommandLine) -> None:
    Path("schema.cql").write_bytes(b"\xff\xfe\x00\x01")
    refused(run("query", ORDERS), "is not UTF-8")


# --- events --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (event(1)[:-30], "not JSON"),
        ("[]", "where an object was expected"),
        ("{}", "'format' is missing"),
        ("[" * 5000, "not JSON"),
        (event(1, value=5), "'state': … is not a text"),
        (event(1, name="other"), "an event of table shop.other, where shop.orders was expected"),
        (event(1).replace('"written": 1', '"written": 1e99'), "where an integer was expected"),
        (event(1).replace("mutation/1", "mutation/2"), "'cassandra-mutation/1' was expected"),
        (event(1).replace('"state"', '"stat"'), "did you mean 'state'?"),
    ],
)
def test_a_bad_event_is_quarantined_with_its_reason_and_the_others_land(run: CommandLine, line: str, reason: str) -> None:
    answer = land(run, event(7), line, event(8))
    assert answer.code == 1
    assert f"warning: events.jsonl:2: {answer.err.split('events.jsonl:2: ')[1].splitlines()[0]}" in answer.err
    assert reason in answer.err
    assert "1 events are in quarantine" in answer.err
    assert [row["id"] for row in run.query(ORDERS)] == [7, 8]


def test_an_empty_and_a_binary_file(run: CommandLine) -> None:
    Path("empty").write_text("")
    assert run("land", FORMAT, "empty", "--table", ORDERS).code == 0
    Path("binary").write_bytes(bytes(range(128, 256)) + b"\n")
    answer = run("land", FORMAT, "binary", "--table", ORDERS)
    assert (answer.code, "not UTF-8" in answer.err) == (1, True)
    Path("cut.gz").write_bytes(b"\x1f\x8b\x08" + bytes(50))
    refused(run("land", FORMAT, "cut.gz", "--table", ORDERS), "cut.gz: cannot be read")


# --- raw tables and folders ----------------------------------------------------------------------------------------------


def test_a_damaged_raw_table_is_an_engine_s_failure_told_on_one_line(run: CommandLine) -> None:
    land(run)
    raw = Path(raw_location(ORDERS))
    log = raw / "_delta_log/00000000000000000001.json"
    whole = log.read_text()
    log.write_text('{"x')
    landing = ("land", FORMAT, "events.jsonl", "--table", ORDERS)
    for arguments in (("query", ORDERS), ("explain", ORDERS, "--key", '{"id": 1}'), ("apply",), landing):
        refused(run(*arguments), "raw/shop_orders", code=3)
    log.write_text(whole)
    (data,) = raw.glob("*.parquet")
    for damage in (lambda: data.write_bytes(b"x"), data.unlink):
        damage()
        for arguments in (("query", ORDERS), ("explain", ORDERS, "--key", '{"id": 1}')):
            refused(run(*arguments), data.name, code=3)


def test_a_delta_table_of_somebody_else_is_left_alone(run: CommandLine) -> None:
    import deltalake
    import pyarrow as pa

    raw = raw_location(ORDERS)
    deltalake.write_deltalake(raw, pa.table({"a": [1]}))
    refused(run("query", ORDERS), "no raw table of cdc-views")
    refused(land(run), "no raw table of cdc-views")
    assert deltalake.DeltaTable(raw).version() == 0


FOLDERS = ["quo'te", "ümläut 😀", *map(heavy, ("mit Leerzeichen", 'double"quote', "ha#sh;semi", "back`tick $x", "a%b"))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_any_folder_works_from_landing_to_the_view(run: CommandLine, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    Path(folder).mkdir()
    monkeypatch.chdir(folder)
    set_up()
    assert land(run).code == 0
    assert run("apply").code == 0
    assert run("generate", "--out", "sql").code == 0
    assert [row["id"] for row in run.query(ORDERS)] == [1, 2]
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection:
        assert connection.sql("SELECT count(*) FROM shop.orders").fetchall() == [(2,)]


@pytest.mark.parametrize("folder", ["back\\slash", "[brackets]", "new\nline", "pi|pe", "hat^"])
def test_a_folder_that_delta_cannot_live_in_is_refused(run: CommandLine, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(folder).mkdir()
    monkeypatch.chdir(folder)
    set_up()
    refused(land(run), "choose another path")
    refused(run("query", ORDERS), "choose another path")
    assert not Path("warehouse").exists()


NAMES = ["../../x", 'or"ders', *map(heavy, ("or.ders", "or'ders", "😀", "a/b", "a b", "%41", "select", "_x_", "Orders"))]


@pytest.mark.parametrize("name", NAMES)
def test_any_table_name_works_and_stays_in_its_folder(run: CommandLine, name: str) -> None:
    quoted = name.replace('"', '""')
    set_up(name=f"shop.{name}", cql=CQL.replace("shop.orders", f'shop."{quoted}"'))
    assert run.land(f"shop.{name}", event(1, name=name), format=FORMAT).code == 0
    assert [row["id"] for row in run.query(f"shop.{name}")] == [1]
    assert run("apply").code == 0
    assert run("generate", "--out", "sql").code == 0
    assert len(list(Path("warehouse/raw").iterdir())) == len(list(Path("sql").iterdir())) == 1


# --- fidelity ------------------------------------------------------------------------------------------------------------


def test_fidelity_says_what_is_unsafe_and_how_to_accept_it(run: CommandLine) -> None:
    cql = "CREATE TABLE shop.orders (id int, line int, st text static, tags set<text>, state text, PRIMARY KEY (id, line));\n"
    Path("schema.cql").write_text(cql)
    write_project(table(ORDERS, "schema.cql", "debezium-cassandra"))
    answer = run("fidelity")
    assert answer.code == 1
    assert [line for line in answer.err.splitlines() if "UNSAFE: " in line] == [
        "error: shop.orders: whole rows are UNSAFE: a batch that deletes a row and writes it again sends only the deletion: "
        "the row is missing",
        "error: shop.orders: column 'st' is UNSAFE: static columns are never sent: the value never arrives",
        "error: shop.orders: column 'tags' is UNSAFE: UPDATE sends the elements it added, removed or set alike: read as added, "
        "so a removed element shows again and a replaced set keeps its older elements; INSERT and null are exact",
    ]
    assert answer.err.count("fidelity: {waive: ") == 1
    waived = {"*": "no such batches", "st": "not used", "tags": "written once"}
    write_project(table(ORDERS, "schema.cql", "debezium-cassandra", fidelity={"waive": waived}))
    answer = run("fidelity", "--format", "jsonl")
    assert (answer.code, answer.err) == (0, "")
    assert {row["column"]: row["waived"] for row in answer.rows if row["verdict"] == "UNSAFE"} == waived


@pytest.mark.parametrize("format_name", ["cassandra-mutation", "key-value", "debezium"])
def test_fidelity_has_a_verdict_for_every_column_in_the_order_of_the_schema(run: CommandLine, format_name: str) -> None:
    Path("t.sql").write_text("create table shop.orders (id int primary key, amount numeric(12,2), free numeric, at timestamp);")
    write_project(table(ORDERS, "t.sql", format_name))
    answer = run("fidelity", "--format", "jsonl")
    assert answer.code == 0
    columns = [row["column"] for row in answer.rows]
    assert [name for name in columns if name != "*"] == ["id", "amount", "free", "at"]
    assert columns[0] == "*"
    assert all(row["reason"] and row["case"] for row in answer.rows)
