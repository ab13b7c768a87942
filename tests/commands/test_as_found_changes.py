"""An external table that changes, holds what is no event, or cannot be read; and that nothing is ever written to."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.command_line import Answer, CommandLine, table, write_project
from helpers.found_tables import contents, find, found, hide_rows

from cdc_views import Project
from cdc_views.landing import quarantine_location
from cdc_views.operations import ingest

pytestmark = pytest.mark.heavy

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

SHOP = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text, note text);\n"
ORDERS = "shop.orders"
NOW = 1_795_251_720


def mutation(number: int, *, state: object = "open", written: int = 0, column: str = "state") -> str:
    """A mutation that inserts one row."""
    cells = [{"column": column, "written": written or number, "value": state}]
    row = {"kind": "row", "clustering": {}, "liveness": {"written": written or number}, "cells": cells}
    place = {"node": "n1", "segment": 1, "position": number, "keyspace": "shop", "table": "orders", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **place, "rows": [row]})


def mutations(*texts: str | None) -> pa.Table:
    return pa.table({"value": pa.array(texts, pa.string())})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project whose one table is found; two events are there."""
    monkeypatch.chdir(tmp_path)
    Path("shop.cql").write_text(SHOP)
    write_project(found(ORDERS, "shop.cql", "cassandra-mutation"))
    find(mutations(mutation(1), mutation(2)))
    return CommandLine(capsys)


def adapted() -> tuple[int, int, bool]:
    """What there was to adapt: files, events, and whether all were."""
    adaptation = ingest.adapted(Project.load().table(ORDERS))
    assert adaptation is not None
    return adaptation.files, adaptation.events, adaptation.is_rebuilt


def ids(run: CommandLine) -> list[int]:
    return [row["id"] for row in run.query(ORDERS)]


def raw_version() -> int:
    return DeltaTable(Project.load().table(ORDERS).raw.location).version()


def test_growth_is_taken_in_and_nothing_is_adapted_twice(shop: CommandLine) -> None:
    assert adapted() == (1, 2, True)
    assert adapted() == (0, 0, False)
    version = raw_version()
    assert ids(shop) == [1, 2]
    assert raw_version() == version
    find(mutations(mutation(3)))
    find(mutations(mutation(1, state="closed", written=9)))
    assert adapted() == (2, 2, False)
    assert [(row["id"], row["state"]) for row in shop.query(ORDERS)] == [(1, "closed"), (2, "open"), (3, "open")]
    assert adapted() == (0, 0, False)
    landed = DeltaTable(Project.load().table(ORDERS).raw.location).to_pyarrow_table(columns=["id"])
    assert sorted(landed.column("id").to_pylist()) == [1, 1, 2, 3]
    find(mutations(mutation(4)))
    (status,) = shop("status", "--format", "jsonl").rows
    assert status["raw_facts"] == 5, "status takes it in, too"


def test_readers_side_by_side_adapt_each_row_once(shop: CommandLine) -> None:
    for _ in range(2):
        with ThreadPoolExecutor(4) as readers:
            list(readers.map(lambda _: adapted(), range(4)))
        rows = DeltaTable(Project.load().table(ORDERS).raw.location).to_pyarrow_table(columns=["id"])
        assert sorted(rows.column("id").to_pylist()) == [1, 2]
        Path("shop.cql").write_text(SHOP.replace("note text", "note text, extra text"))


def test_a_crash_before_the_commit_repeats_it_and_no_row_is_quarantined_twice(
    shop: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(mutations("{cut", mutation(3)))
    with monkeypatch.context() as patched:
        patched.setattr("cdc_views.landing.external.adaptation.commit_files", crash)
        with pytest.raises(KeyboardInterrupt):
            adapted()
    for _ in range(2):
        assert "warning: 1 rows in quarantine" in shop("query", ORDERS).err
    find(mutations("{again", mutation(4)))
    with monkeypatch.context() as patched:
        patched.setattr("cdc_views.landing.external.adaptation.commit_files", crash)
        with pytest.raises(KeyboardInterrupt):
            adapted()
    answer = shop("query", ORDERS, "--format", "jsonl")
    assert "warning: 2 rows in quarantine" in answer.err
    assert [row["id"] for row in answer.rows] == [1, 2, 3, 4]


def crash(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_setting_that_changes_and_changes_back_after_a_crash(shop: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(shop) == [1, 2]
    Path("shop.cql").write_text(SHOP.replace("note text", "note text, extra text"))
    with monkeypatch.context() as patched:
        patched.setattr("cdc_views.landing.external.adaptation.commit_files", crash)
        with pytest.raises(KeyboardInterrupt):
            adapted()
    Path("shop.cql").write_text(SHOP)
    assert ids(shop) == [1, 2]


def test_rows_that_went_are_shown_no_more(shop: CommandLine) -> None:
    find(mutations(mutation(3)))
    assert ids(shop) == [1, 2, 3]
    DeltaTable("found").delete("value LIKE '%\"id\": 2}%'")
    assert ids(shop) == [1, 3]
    write_deltalake("found", mutations(mutation(7)), mode="overwrite")
    assert ids(shop) == [7]
    shutil.rmtree("found")
    find(mutations(mutation(8)))
    assert ids(shop) == [8]


def test_a_compacted_table_is_read_anew_and_shows_the_same(shop: CommandLine) -> None:
    find(mutations(mutation(3)))
    assert adapted() == (2, 3, True)
    DeltaTable("found").optimize.compact()
    assert adapted() == (1, 3, True)
    assert ids(shop) == [1, 2, 3]


def test_a_log_that_does_not_reach_back_is_read_anew(shop: CommandLine) -> None:
    assert adapted() == (1, 2, True)
    find(mutations(mutation(3)))
    delta = DeltaTable("found")
    delta.create_checkpoint()
    for number in (0, 1):
        (Path("found/_delta_log") / f"{number:020}.json").unlink()
    assert adapted() == (2, 3, True)
    assert ids(shop) == [1, 2, 3]


def test_rows_that_a_deletion_vector_hides_are_not_there(shop: CommandLine) -> None:
    assert ids(shop) == [1, 2]
    hide_rows("found", 0)
    assert ids(shop) == [2]
    assert ids(shop) == [2]
    fresh = Project.load().table(ORDERS)
    shutil.rmtree(Path(fresh.raw.location).parent)
    assert ids(shop) == [2]


def test_facts_landed_when_their_file_was_written(shop: CommandLine) -> None:
    assert ids(shop) == [1, 2]
    written = pa.table(DeltaTable("found").get_add_actions()).column("modification_time")[0].as_py()
    before, after = (str(instant) for instant in (written // 1000 - 1, written // 1000 + 1))
    assert shop.query(ORDERS, "--landed-as-of", before) == []
    assert len(shop.query(ORDERS, "--landed-as-of", after)) == 2


def test_another_schema_or_format_reads_everything_anew(shop: CommandLine) -> None:
    find(mutations(mutation(3, column="extra")))
    answer = shop("query", ORDERS, "--format", "jsonl")
    assert [row["id"] for row in answer.rows] == [1, 2]
    assert "warning: 1 rows in quarantine" in answer.err
    Path("shop.cql").write_text(SHOP.replace("note text", "note text, extra text"))
    assert [(row["id"], row["extra"]) for row in shop.query(ORDERS)] == [(1, None), (2, None), (3, "open")]
    Path("shop.cql").write_text(SHOP.replace("id int", "id bigint"))
    assert [row["id"] for row in shop("query", ORDERS, "--format", "jsonl").rows] == [1, 2]
    write_project(found(ORDERS, "shop.cql", "debezium-cassandra"))
    answer = shop("query", ORDERS)
    assert "3 rows in quarantine" in answer.err


# --- rows that are no events -----------------------------------------------------------------------------------------------


def test_a_row_that_is_no_event_is_quarantined_and_counted_once(shop: CommandLine) -> None:
    assert ids(shop) == [1, 2]
    find(mutations(mutation(4), '{"cut', None, mutation(5), mutation(6, state=7)))
    for _ in range(2):
        answer = shop("query", ORDERS, "--format", "jsonl")
        assert (answer.code, [row["id"] for row in answer.rows]) == (0, [1, 2, 4, 5])
        assert answer.err.startswith("warning: 3 rows in quarantine (")
        assert answer.err.count("\n") == 1
        assert ":2: value is not JSON" in answer.err
    raw = Project.load().table(ORDERS).raw
    waiting = DeltaTable(quarantine_location(raw)).to_pyarrow_table().sort_by("line").to_pylist()
    assert [(row["line"], row["format"]) for row in waiting] == [(n, "cassandra-mutation") for n in (2, 3, 5)]
    assert json.loads(waiting[0]["event"]) == {"value": '{"cut'}
    assert (Path("found") / waiting[0]["source"]).is_file()
    for command in (("generate",), ("plan",), ("apply",), ("explain", ORDERS, "--key", '{"id": 1}')):
        answer = shop(*command)
        assert answer.code == 0
        assert f"warning: {ORDERS}: 3 rows in quarantine" in answer.err
    DeltaTable("found").delete("value IS NULL OR value NOT LIKE '%position%' OR value LIKE '%7%'")
    assert ids(shop) == [1, 2, 4, 5]


# --- what cannot be ---------------------------------------------------------------------------------------------------------


def test_a_warning_of_quarantine_names_no_value(shop: CommandLine) -> None:
    find(mutations(mutation(4, state=["hunter2"])))
    for command in (("query", ORDERS), ("apply",), ("validate", "--no-docs"), ("status",)):
        answer = shop(*command)
        assert "hunter2" not in answer.out + answer.err
        assert command[0] not in ("query", "apply") or "'state': … is not a text" in answer.err


def refused(answer: Answer, *expected: str, code: int = 2) -> None:
    assert (answer.code, answer.out) == (code, ""), answer
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err
    for text in expected:
        assert text in answer.err


READS = [("query", ORDERS), ("explain", ORDERS, "--key", '{"id": 1}'), ("generate",), ("plan",), ("apply",)]


@pytest.mark.parametrize("arguments", READS)
def test_a_missing_table(shop: CommandLine, arguments: tuple[str, ...]) -> None:
    shutil.rmtree("found")
    refused(shop(*arguments), "found: there is no such table", "`raw: {table: …}`")
    Path("found").mkdir()
    refused(shop(*arguments), "found: is no Delta table")
    Path("found").rmdir()
    Path("found").write_text("x")
    refused(shop(*arguments), "is a file; name a folder")
    assert not Path("warehouse/derived").exists()


@pytest.mark.parametrize(
    ("format", "columns", "expected"),
    [
        ("cassandra-mutation", {"a": [1]}, "a column `value`, the event's JSON"),
        ("cassandra-mutation", {"value": [1]}, "rows of columns (value int64) are no events of format cassandra-mutation"),
        ("cassandra-mutation", {"value": [{"a": 1}]}, "a column `value`, the event's JSON as text"),
        ("key-value", {"value": ["{}"], "offset": [1]}, "columns `key`, `value` and `offset`"),
        ("key-value", {"key": ["a"], "value": ["{}"]}, "columns `key`, `value` and `offset`"),
        ("debezium", {"key": ["a"], "value": [1]}, "columns `key` and `value` (the event's JSON, or structs)"),
        ("debezium", {"a": [1]}, "the row's own columns (`id`, …) with `__lsn`"),
        ("debezium", {"id": [1], "state": ["x"]}, "the row's own columns (`id`, …) with `__lsn`"),
        ("debezium", {"id": [1], "__file": ["b.1"], "__pos": [1]}, "with `__lsn`, or `__file`, `__pos` and `__row` (add.fields)"),
        ("debezium-cassandra", {"id": [1], "__lsn": [1]}, "columns `op`, `source` and `after`"),
    ],
)
def test_columns_that_are_no_events(shop: CommandLine, format: str, columns: dict[str, list[Any]], expected: str) -> None:
    shutil.rmtree("found")
    find(pa.table(columns))
    write_project(found(ORDERS, "shop.cql", format))
    for command in (("query", ORDERS), ("apply",)):
        refused(shop(*command), "found: rows of columns", expected, "`raw: {format: …}`")


def test_somebody_elses_table_is_not_landed_into(shop: CommandLine) -> None:
    Path("a.jsonl").write_text(mutation(9) + "\n")
    before = contents()
    refused(shop("land", "cassandra-mutation", "a.jsonl", "--table", ORDERS), "`layout: as-found`", "somebody else lands")
    refused(shop("replay", ORDERS), "`layout: as-found`")
    assert contents() == before
    assert not Path("warehouse").exists()
    for command in ("apply", "materialize", "maintain", "validate"):
        assert shop(command).code == 0
    assert contents() == before


def test_a_raw_table_of_ours_is_not_found(shop: CommandLine) -> None:
    Path("a.jsonl").write_text(mutation(9) + "\n")
    write_project(table(ORDERS, "shop.cql", "cassandra-mutation", raw={"table": "landed"}))
    assert shop("land", "cassandra-mutation", "a.jsonl", "--table", ORDERS).code == 0
    write_project(found(ORDERS, "shop.cql", "cassandra-mutation", location="landed"))
    refused(shop("query", ORDERS), "landed: is a raw table that cdc-views landed", "leave `layout: as-found` out")


def test_as_found_without_a_table_is_a_mistake_in_the_project_file(shop: CommandLine) -> None:
    write_project(table(ORDERS, "shop.cql", "cassandra-mutation", raw={"layout": "as-found"}))
    refused(shop("query", ORDERS), "cdc_views.yml:1: ", "layout as-found needs `table`")


def test_a_damaged_table_is_a_source_s_failure(shop: CommandLine) -> None:
    (data,) = Path("found").glob("*.parquet")
    data.write_bytes(b"x")
    refused(shop("query", ORDERS), f"{data.name} cannot be read", code=3)
    data.unlink()
    refused(shop("query", ORDERS), f"{data.name} cannot be read", code=3)
    (Path("found/_delta_log") / f"{0:020}.json").write_text("{x")
    refused(shop("query", ORDERS), "found", code=3)


def test_a_reader_feature_we_do_not_know(shop: CommandLine) -> None:
    features = {"readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    (Path("found/_delta_log") / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    refused(shop("query", ORDERS), "needs Delta's columnMapping")


def test_fidelity_asks_for_no_table(shop: CommandLine) -> None:
    shutil.rmtree("found")
    assert shop("fidelity").code == 0


def test_an_empty_table_shows_nothing(shop: CommandLine) -> None:
    shutil.rmtree("found")
    DeltaTable.create("found", mutations().schema)
    assert shop.query(ORDERS) == []
    find(mutations(mutation(1)))
    assert ids(shop) == [1]


def test_mutations_may_be_bytes(shop: CommandLine) -> None:
    shutil.rmtree("found")
    find(mutations(mutation(1)).cast(pa.schema([("value", pa.binary())])))
    assert ids(shop) == [1]
    assert "a copy of the facts: SQL does not read format cassandra-mutation" in shop("fidelity", "--format", "jsonl").out


def test_a_view_shows_the_table_as_it_was_applied(shop: CommandLine) -> None:
    import duckdb

    assert shop("apply").code == 0
    find(mutations(mutation(3)))
    assert '"change": "replace"' in shop("plan", "--format", "jsonl").out
    for rows in ([(1,), (2,)], [(1,), (2,), (3,)]):
        with duckdb.connect("warehouse/views.duckdb", read_only=True) as views:
            assert views.sql("SELECT id FROM shop.orders ORDER BY id").fetchall() == rows
        assert shop("apply").code == 0


@pytest.mark.spark
def test_spark_reads_what_was_derived(shop: CommandLine, spark_engine: SparkEngine) -> None:
    from cdc_views.engines.base import Read
    from cdc_views.engines.exact import rows_of

    target = Project.load().table(ORDERS)
    ingest.adapted(target)
    exact = spark_engine.read(Read(target.raw, as_of=NOW))
    assert list(rows_of(target.relation, (), exact)) == list(target.query(as_of=NOW).rows())
