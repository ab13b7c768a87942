"""`query --out FILE` and `query --into TABLE`: what they write, what they refuse, what a failure leaves."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.command_line import CommandLine, table, write_project
from helpers.tiny_project import event, make_project

from cdc_views import Project
from cdc_views.errors import UsageError

NAME = "shop.orders"
AT = ("--as-of", "2027-01-01")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Five rows, three of them in a state, in a project that is the working directory."""
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    run = CommandLine(capsys)
    for file, numbers in (("1.jsonl", (1, 2, 3)), ("2.jsonl", (3, 4, 5))):
        lines = [event(n, state=f"{file} {n}") for n in numbers]
        assert run.land(NAME, *lines, format="cassandra-mutation", file=file).code == 0
        if file == "1.jsonl":
            assert run("materialize").code == 0
    return run


def ids(table: pa.Table) -> list[int]:
    return sorted(table.column("id").to_pylist())


@pytest.mark.parametrize("format", ["jsonl", "json", "csv"])
def test_a_text_is_what_is_printed(run: CommandLine, format: str) -> None:
    printed = run("query", NAME, *AT, "--format", format, "--limit", "9").out
    answer = run("query", NAME, *AT, "--out", f"rows.{format}", "--limit", "9")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"rows.{format}: 5 rows as of 2027-01-01 00:00:00Z\n"
    assert Path(f"rows.{format}").read_bytes() == printed.encode()


def test_the_ending_gives_way_to_a_format(run: CommandLine) -> None:
    assert run("query", NAME, "--out", "rows.txt", "--format", "parquet").code == 0
    assert ids(pq.read_table("rows.txt")) == [1, 2, 3, 4, 5]
    assert run("query", NAME, "--out", "rows.parquet", "--format", "jsonl").code == 0
    assert {json.loads(line)["id"] for line in Path("rows.parquet").read_text().splitlines()} == {1, 2, 3, 4, 5}


OPTIONS: dict[str, tuple[tuple[str, ...], list[dict[str, object]]]] = {
    "where": (("--where", "id >= 4", "--columns", "id"), [{"id": 4}, {"id": 5}]),
    "columns": (("--columns", "state", "--columns", "id", "--where", "id = 4"), [{"state": "2.jsonl 4", "id": 4}]),
    "limit": (("--limit", "2", "--columns", "id"), [{"id": 1}, {"id": 2}]),
    "raw-only": (("--raw-only", "--where", "id < 3", "--columns", "id"), [{"id": 1}, {"id": 2}]),
    "strategy": (("--strategy", "window", "--where", "id = 5", "--columns", "id"), [{"id": 5}]),
    "landed-as-of": (("--landed-as-of", "2000-01-01", "--columns", "id"), []),
    "written-as-of": (("--written-as-of", "1970-01-01", "--columns", "id"), []),
}


def check_options(run: CommandLine, option: str, *engine: str) -> None:
    """Write what the options ask for to a file and a table, and read both."""
    asked, expected = OPTIONS[option]
    for target in (("--out", "rows.parquet"), ("--into", "rows")):
        answer = run("query", NAME, *AT, *asked, *target, *engine)
        assert answer.code == 0, answer.err
    for found in (pq.read_table("rows.parquet"), DeltaTable("rows").to_pyarrow_table()):
        assert found.column_names == list((expected or [{"id": 0}])[0])
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == expected


@pytest.mark.parametrize("option", OPTIONS)
def test_the_options_of_a_query_count(run: CommandLine, option: str) -> None:
    check_options(run, option)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
@pytest.mark.parametrize("option", OPTIONS)
def test_they_count_on_spark(run: CommandLine, option: str) -> None:
    check_options(run, option, "--engine", "spark")
    assert Path("rows.parquet").is_dir()
    files = [*Path("rows.parquet").iterdir(), *map(Path, DeltaTable("rows").file_uris())]
    assert [file.name for file in files if not re.match(r"\.?part-\d{5}-", file.name)] == [], "names of Spark's tasks"


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_a_folder_of_spark_is_replaced_as_a_whole(run: CommandLine) -> None:
    spark = ("--engine", "spark", "--out", "rows.parquet")
    assert run("query", NAME, *spark).code == 0
    refused = run("query", NAME, *spark, "--where", "id = 1")
    assert (refused.code, "--overwrite" in refused.err) == (2, True), refused.err
    assert run("query", NAME, *spark, "--where", "id = 1", "--overwrite").code == 0
    assert ids(pq.read_table("rows.parquet")) == [1]
    assert run("query", NAME, "--engine", "spark", "--out", "rows.csv").code == 0
    assert Path("rows.csv").is_file()
    refused = run("query", NAME, "--out", "rows.parquet", "--overwrite")
    assert (refused.code, "remove the folder" in refused.err) == (2, True), refused.err
    Path("rows.parquet/mine.txt").write_text("mine")
    refused = run("query", NAME, *spark, "--overwrite")
    assert (refused.code, "not one of part files alone" in refused.err) == (2, True), refused.err
    assert [path.name for path in Path().iterdir() if path.name.startswith(".rows")] == []


def test_the_clock_counts(run: CommandLine) -> None:
    cell = {"column": "state", "written": 9, "value": "x", "ttl": 10, "expires_at": 1_800_000_000}
    row = {"kind": "row", "clustering": {"line": 0}, "cells": [cell]}
    assert run.land(NAME, event(9, rows=[row]), format="cassandra-mutation", file="3.jsonl").code == 0
    for as_of, rows in (("1799999999", 6), ("1800000000", 5)):
        for target in (("--out", f"{as_of}.parquet"), ("--into", as_of)):
            assert run("query", NAME, "--as-of", as_of, *target).code == 0
        assert pq.read_table(f"{as_of}.parquet").num_rows == DeltaTable(as_of).to_pyarrow_table().num_rows == rows


def test_types_are_those_of_a_serving_table(run: CommandLine) -> None:
    run("query", NAME, "--out", "rows.parquet")
    found = pq.read_schema("rows.parquet")
    assert [(field.name, field.type) for field in found] == [
        ("id", pa.int32()), ("line", pa.int32()), ("state", pa.string()), ("note", pa.string()),
    ]  # fmt: skip


def test_a_table_has_all_rows_in_one_commit_that_says_what_they_show(run: CommandLine) -> None:
    answer = run("query", NAME, *AT, "--where", "state != 'gone'", "--into", "out/rows")
    assert (answer.code, answer.err) == (0, "out/rows, version 0: 5 rows as of 2027-01-01 00:00:00Z\n")
    table = DeltaTable("out/rows")
    (commit,) = table.history()
    told = json.loads(commit["cdc-views"])
    raw, state = Project.load().table(NAME).raw.location, Project.load().table(NAME).state_location
    assert told == {
        "table": NAME, "as_of": 1798761600, "is_filtered": True, "raw": raw, "raw_version": DeltaTable(raw).version(),
        "state": state, "state_version": DeltaTable(state).version(),
    }  # fmt: skip
    assert "gone" not in json.dumps(commit)


def test_a_read_of_raw_alone_has_the_version_that_it_read(run: CommandLine) -> None:
    assert run("query", NAME, "--raw-only", "--into", "rows").code == 0
    told = json.loads(DeltaTable("rows").history()[0]["cdc-views"])
    assert told["raw_version"] == DeltaTable(Project.load().table(NAME).raw.location).version()
    assert "state" not in told


def test_what_is_there_stays_unless_it_may_be_replaced(run: CommandLine) -> None:
    for target in (("--out", "rows.parquet"), ("--out", "rows.csv"), ("--into", "rows")):
        assert run("query", NAME, *target).code == 0
        paths = (*Path().glob("rows*"), *Path().glob("rows*/**/*"))
        before = {path: path.read_bytes() for path in paths if path.is_file()}
        refused = run("query", NAME, *target, "--where", "id = 1")
        assert (refused.code, "--overwrite" in refused.err) == (2, True), refused.err
        assert {path: path.read_bytes() for path in before} == before
        assert run("query", NAME, *target, "--where", "id = 1", "--overwrite").code == 0
    assert ids(pq.read_table("rows.parquet")) == [1]
    assert len(Path("rows.csv").read_text().splitlines()) == 2
    assert (ids(DeltaTable("rows").to_pyarrow_table()), DeltaTable("rows").version()) == ([1], 1)
    assert ids(DeltaTable("rows", version=0).to_pyarrow_table()) == [1, 2, 3, 4, 5]


def test_a_table_is_replaced_by_other_columns(run: CommandLine) -> None:
    Path("t.sql").write_text("create table public.t (k int primary key, at timestamp, seen timestamptz, n numeric, t time);")
    project = json.loads(Path("cdc_views.yml").read_text())
    more = {"raw": {"format": "debezium"}, "materialize": {"serving": True}}
    project["tables"].append({"name": "public.t", "schema": "t.sql", **more})
    Path("cdc_views.yml").write_text(json.dumps(project))
    source = {"connector": "postgresql", "db": "l", "schema": "public", "table": "t", "lsn": 1}
    after = {"k": 7, "at": 1_000_000, "seen": "2024-01-01T00:00:00Z", "n": "1.50", "t": 43_200_000_000}
    assert run.land("public.t", json.dumps({"op": "c", "source": source, "before": None, "after": after})).code == 0
    assert run("query", NAME, "--into", "rows").code == 0
    answer = run("query", "public.t", "--into", "rows", "--overwrite")
    assert answer.code == 0, answer.err
    (row,) = DeltaTable("rows").to_pyarrow_table().to_pylist()
    assert (row["k"], str(row["at"]), str(row["seen"])) == (7, "1970-01-01 00:16:40", "2024-01-01 00:00:00+00:00")
    assert (row["n"], row["t"]) == ("1.50", "12:00:00.000000000"), "no native column holds every value of these types"
    assert run("materialize", "--select", "public.t").code == 0
    (serving,) = Path("warehouse/serving").iterdir()
    assert DeltaTable(serving).to_pyarrow_table().select(list(row)).to_pylist() == [row]


def test_only_what_into_wrote_is_replaced(run: CommandLine) -> None:
    raw = Project.load().table(NAME).raw.location
    before = DeltaTable(raw).version()
    write_deltalake("mine", pa.table({"a": [1]}))
    Path("notes").mkdir()
    Path("notes/notes.txt").write_text("mine")
    Path("file").write_text("mine")
    for place in (raw, "mine", "notes", "file"):
        refused = run("query", NAME, "--into", place, "--overwrite")
        assert (refused.code, "name another place" in refused.err) == (2, True), refused.err
    for place in (raw, "notes"):
        refused = run("query", NAME, "--out", place, "--format", "parquet", "--overwrite")
        assert (refused.code, "is a folder" in refused.err) == (2, True), refused.err
    assert (DeltaTable(raw).version(), DeltaTable("mine").version(), Path("file").read_text()) == (before, 0, "mine")


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no format": (("--out", "rows.txt"), "the name tells no format by its end; choose one of parquet, json, jsonl, csv"),
    "a format that is near": (("--out", "rows.parqet"), "did you mean 'parquet'?"),
    "a format of people": (("--out", "rows", "--format", "table"), "--format 'table' is none of a file"),
    "Parquet to the terminal": (("--format", "parquet"), "--format parquet is of files; name one with `query --out FILE`"),
    "two places": (("--out", "rows.csv", "--into", "rows"), "one of them"),
    "nothing to replace": (("--overwrite",), "--overwrite is of --out or --into"),
    "no rows": (("--explain", "--into", "rows"), "--explain reads no rows"),
    "a format of a table": (("--into", "rows", "--format", "csv"), "--format csv is of a file"),
    "a path that Delta refuses": (("--into", "a[b"), "choose another path"),
    "an unknown store": (("--out", "ftp://host/rows.csv"), "is no store that cdc-views knows"),
    "a condition": (("--out", "rows.csv", "--where", "nothing = 1"), "nothing"),
    "a condition that fails late": (("--out", "rows.csv", "--where", "CAST(state AS INTEGER) = 1"), "--where"),
}


@pytest.mark.parametrize("how", WRONG)
def test_one_clear_error(run: CommandLine, how: str) -> None:
    asked, told = WRONG[how]
    before = sorted(Path().iterdir())
    answer = run("query", NAME, *asked)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer.err
    assert told in answer.err
    assert sorted(Path().iterdir()) == before


def test_a_failure_leaves_what_was_there(run: CommandLine) -> None:
    """It fails at the last row, when others were written."""
    late = ("--where", "id < 5 OR CAST(state AS INTEGER) = 1", "--overwrite")
    for target in (("--out", "rows.csv"), ("--out", "rows.parquet"), ("--into", "rows")):
        assert run("query", NAME, *target, "--limit", "1").code == 0
    before = {path for path in Path().glob("rows*/**/*") if path.is_file()}
    for target in (("--out", "rows.csv"), ("--out", "rows.parquet"), ("--into", "rows"), ("--into", "other")):
        assert run("query", NAME, *target, *late).code == 2
    assert {path for path in Path().glob("rows*/**/*") if path.is_file()} == before
    assert [path.name for path in Path().glob(".rows*")] == []
    assert ids(DeltaTable("rows").to_pyarrow_table()) == ids(pq.read_table("rows.parquet")) == [1]
    assert [line[0] for line in Path("rows.csv").read_text().splitlines()[1:]] == ["1"]
    assert list(Path("other").iterdir()) == []


def test_nothing_landed_writes_no_rows_and_says_so(run: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    make_project(tmp_path / "empty")
    for target in (("--out", "none.parquet"), ("--into", "none")):
        answer = run("query", NAME, "--project", "empty/cdc_views.yml", *target)
        assert (answer.code, "nothing has landed for shop.orders yet" in answer.err) == (0, True), answer.err
    for found in (pq.read_table("none.parquet"), DeltaTable("none").to_pyarrow_table()):
        assert (found.num_rows, found.column_names) == (0, ["id", "line", "state", "note"])


def test_the_method_writes_and_tells(run: CommandLine) -> None:
    table = Project.load().table(NAME)
    done = table.write(out=Path("rows.parquet"), as_of=7)
    assert (done.location, done.rows, done.as_of, done.version, done.note) == ("rows.parquet", 5, 7, None, "")
    assert table.write(into="rows", where="id > 3").version == 0
    assert table.write(out="some.parquet", where="id > 3").rows == 2
    assert ids(DeltaTable("rows").to_pyarrow_table()) == [4, 5]
    with pytest.raises(UsageError, match="one of them"):
        table.write()


def test_a_table_for_people_has_a_bound_that_names_the_remedy(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, code in ((5, 0), (4, 2)):
        monkeypatch.setattr("cdc_views.cli.printing.MOST_SHOWN", most)
        answer = run("query", NAME, "--format", "table")
        assert (answer.code, "1.jsonl 1" in answer.out) == (code, code == 0), answer.err
    assert re.search(r"more than 4 rows .*--out rows\.parquet", answer.err), answer.err


def test_vacuum_removes_what_was_replaced_or_left_a_week_ago(run: CommandLine) -> None:
    assert run("query", NAME, "--into", "rows").code == 0
    assert run("query", NAME, "--into", "rows", "--overwrite").code == 0
    entry = Path("rows/_delta_log/00000000000000000001.json")
    then = int((time.time() - 8 * 86_400) * 1000)
    entry.write_text(re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{then}', entry.read_text("utf-8")), "utf-8")
    left, young = Path("rows/left-by-a-kill.parquet"), Path("rows/being-written.parquet")
    for file in (left, young):
        file.touch()
    os.utime(left, (then / 1000, then / 1000))
    DeltaTable("rows").vacuum(full=True, dry_run=False)
    active = {Path(file) for file in DeltaTable("rows").file_uris()}
    assert {path.absolute() for path in Path("rows").rglob("*.parquet")} == active | {young.absolute()}


def test_a_zero_below_zero_keeps_its_sign_in_texts_alone(run: CommandLine) -> None:
    Path("n.cql").write_text("CREATE TABLE shop.n (id int PRIMARY KEY, d double);")
    write_project(table("shop.n", "n.cql", "cassandra-mutation"))
    cells = [{"column": "d", "written": 1, "value": -0.0}]
    line = event(1, table="n", rows=[{"kind": "row", "clustering": {}, "cells": cells}])
    assert run.land("shop.n", line, format="cassandra-mutation", file="n.jsonl").code == 0
    for target in (("--out", "n.parquet"), ("--into", "n")):
        assert run("query", "shop.n", *target).code == 0
    values = [
        row["d"] for written in (pq.read_table("n.parquet"), DeltaTable("n").to_pyarrow_table()) for row in written.to_pylist()
    ]
    assert (list(map(str, values)), str(run.query("shop.n")[0]["d"])) == (["0.0", "0.0"], "-0.0")


def test_values_that_a_native_column_cannot_hold_are_null_but_in_texts(run: CommandLine) -> None:
    Path("n.cql").write_text("CREATE TABLE shop.n (id int PRIMARY KEY, i int, t timestamp);")
    write_project(table("shop.n", "n.cql", "cassandra-mutation"))
    outside = [{"i": "", "t": "+10000-01-01 00:00:00.000Z"}, {"i": 7, "t": "0000-12-31 23:59:59.999Z"}]
    shown = [*outside, {"i": 7, "t": "0001-01-01 00:00:00.000Z"}, {"i": 7, "t": "9999-12-31 23:59:59.999Z"}]
    cells = [[{"column": name, "written": 1, "value": value} for name, value in one.items()] for one in shown]
    lines = [event(n, table="n", rows=[{"kind": "row", "clustering": {}, "cells": one}]) for n, one in enumerate(cells)]
    assert run.land("shop.n", *lines, format="cassandra-mutation", file="n.jsonl").code == 0
    assert run.query("shop.n") == [{"id": n, **one} for n, one in enumerate(shown)]
    for target in (("--out", "n.parquet"), ("--into", "n")):
        assert run("query", "shop.n", *target).code == 0
    for written in (pq.read_table("n.parquet"), DeltaTable("n").to_pyarrow_table()):
        rows = sorted(written.to_pylist(), key=lambda row: row["id"])
        assert [row["i"] for row in rows] == [None, 7, 7, 7]
        assert [row["t"] and row["t"].year for row in rows] == [None, None, 1, 9999]
