"""Views that read the events of an external table themselves: which way the commands take, and how they say so."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from helpers.command_line import Answer, CommandLine, write_project
from helpers.event_tables import TYPED, EventTable, event_tables, rows_of_cassandra
from helpers.found_tables import find, found, hide_rows

from cdc_views import Project
from cdc_views.operations.generating import generate_view

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

EVENTS: EventTable = event_tables()["postgres, text, 4"]
NAME = EVENTS.name


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in an empty folder with the schema and the external table."""
    monkeypatch.chdir(tmp_path)
    Path("schema.sql").write_text(EVENTS.ddl)
    find(EVENTS.rows)
    write(format="debezium")
    return CommandLine(capsys)


def write(*, format: str = "debezium", name: str = NAME, **raw: Any) -> None:
    write_project(found(name, "schema.sql", format, **raw))


def ids(database: str = "warehouse/views.duckdb") -> list[int]:
    with duckdb.connect(database, read_only=True) as connection:
        return [row[0] for row in connection.sql(f"SELECT id FROM {NAME} ORDER BY id").fetchall()]


def text() -> str:
    return generate_view(Project.load().table(NAME))


def first_reason(run: CommandLine) -> str:
    return str(run("fidelity", "--format", "jsonl").rows[0]["reason"])


def test_an_applied_view_reads_the_events_and_nothing_is_copied(run: CommandLine) -> None:
    assert [row["change"] for row in run("plan", "--format", "jsonl").rows] == ["create"]
    assert run("apply").code == 0
    assert ids() == [1, 2, 3]
    assert not Path("warehouse/derived").exists()
    (planned,) = run("plan", "--format", "jsonl").rows
    assert (planned["change"], planned["raw_rows"], planned["raw_version"]) == ("none", EVENTS.rows.num_rows, 0)
    assert first_reason(run) == "views on DuckDB read the events in place, by SQL"
    assert not Path("warehouse/derived").exists()
    assert len(run.query(NAME)) == 3
    assert Path("warehouse/derived").exists(), "a query makes a copy of its own"


def test_a_view_that_is_applied_again_shows_what_came_since(run: CommandLine) -> None:
    run("apply")
    find(event_tables()["postgres, text, 99"].rows)
    assert ids() == [1, 2, 3]
    assert [row["change"] for row in run("plan", "--format", "jsonl").rows] == ["replace"]
    run("apply")
    assert ids() == [1, 22]


def test_copy_can_be_asked_for_and_shows_the_same(run: CommandLine) -> None:
    write(reading="copy")
    run("apply")
    assert ids() == [1, 2, 3]
    assert Path("warehouse/derived").exists()
    assert "read_parquet" in text()
    assert first_reason(run) == "views on DuckDB read a copy of the facts: `reading: copy` is set"


def test_what_sql_does_not_read_exactly_is_named_and_a_copy_is_read(run: CommandLine) -> None:
    Path("schema.sql").write_text(EVENTS.ddl.replace("toast text", "toast text, ai int[]"))
    reason = "views on DuckDB read a copy of the facts: column 'ai': SQL does not read frozen<list<int>>"
    assert first_reason(run).startswith(reason)
    assert run("apply").code == 0
    assert ids() == [1, 2, 3]
    assert Path("warehouse/derived").exists()
    write(reading="sql")
    refused = run("apply")
    assert refused.code == 2
    assert "needs a copy of the events: column 'ai'" in refused.err
    assert "set `raw: {reading: copy}`, or leave `reading` out" in refused.err


@pytest.mark.parametrize(
    ("kind", "why"),
    [("numeric(12,4)", "decimals are exact in SQL"), ("bytea", "bytes in JSON"), ("interval", "in place, by SQL")],
)
def test_types_that_sql_reads_by_an_option_alone_or_not_at_all(run: CommandLine, kind: str, why: str) -> None:
    Path("schema.sql").write_text(EVENTS.ddl.replace("toast text", f"toast text, n {kind}"))
    assert why in first_reason(run)
    assert run("apply").code == 0
    assert Path("warehouse/derived").exists() is ("in place" not in why)


@pytest.mark.parametrize(("size", "is_read"), [("35,0", True), ("36,0", False), ("24,12", True), ("25,12", False)])
def test_base64_decimals_are_read_up_to_a_size(run: CommandLine, size: str, *, is_read: bool) -> None:
    Path("schema.sql").write_text(EVENTS.ddl.replace("toast text", f"toast text, n numeric({size})"))
    write(options={"decimals": "precise"})
    assert ("in place, by SQL" in first_reason(run)) is is_read


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        *((f"x {kind}", "column 'x'") for kind in ("float", "double", "decimal", "varint", "inet", "duration")),
        *((f"x {kind}", "column 'x'") for kind in ("list<int>", "frozen<list<int>>", "set<text>", "map<text, int>")),
        *((f"x {kind}", "column 'x'") for kind in ("frozen<map<text, int>>", "tuple<int, text>")),
        ("s int static", "static columns"),
        ("x int", "the ends of range deletions are no structs"),
    ],
)
def test_what_sql_does_not_read_of_cassandra(run: CommandLine, columns: str, why: str) -> None:
    events = rows_of_cassandra()
    shutil.rmtree("found")
    find(events.rows)
    ddl, clustered = events.ddl, "CREATE TABLE ks.kv2 (k text, c text, n int, v text, PRIMARY KEY (k, c));"
    ddl = ddl if why == "column 'x'" else clustered
    Path("schema.cql").write_text(ddl.replace("v text", f"v text, {columns}"))
    write_project(found(events.name, "schema.cql", events.format))
    assert why in first_reason(run)


def test_forgetting_a_key_makes_a_view_of_the_events_one_of_the_copy(run: CommandLine) -> None:
    run("apply")
    assert run("forget", NAME, "--key", '{"id": 1}').code == 0
    assert ids() == [2, 3]
    assert "keys were forgotten, and only the copy is without them" in first_reason(run)


def test_rows_that_deletion_vectors_hide_are_not_read(run: CommandLine) -> None:
    hide_rows("found", 0)
    assert "deletion vectors hide some of its rows" in first_reason(run)
    run("apply")
    assert ids() == [2, 3]


def test_a_state_is_read_where_there_is_one(run: CommandLine) -> None:
    assert run("materialize").code == 0
    assert "it has a state, which is faster to read" in first_reason(run)
    run("apply")
    assert ids() == [1, 2, 3]


def _quarantine_of(answer: Answer) -> str:
    """What the warning says of the one row in quarantine."""
    assert answer.err.count("1 rows in quarantine") == 1
    return re.split(r"1 rows in quarantine \(\S+\);? ", answer.err)[1]


@pytest.mark.parametrize(("value", "reason"), [('{"a": 1}', "a message is no change event of Debezium"), ("{", "Malformed JSON")])
def test_a_message_that_is_no_event_fails_the_query_and_goes_to_quarantine_as_a_copy(
    run: CommandLine, value: str, reason: str
) -> None:
    find(EVENTS.rows.slice(0, 1).set_column(1, "value", pa.array([value])))
    run("apply")
    with pytest.raises(duckdb.Error, match=reason):
        ids()
    assert _quarantine_of(run("query", NAME)).startswith("are not shown; the first is ")
    for views in (("apply",), ("plan",), ("generate",)):
        told = _quarantine_of(run(*views))
        assert told.startswith("the view reads the table itself, and fails at a row"), "the copy knows why"
        assert "set `raw: {reading: copy}`" in told
    write(reading="copy")
    for reads in (("apply",), ("plan",), ("generate",), ("query", NAME)):
        assert _quarantine_of(run(*reads)).startswith("are not shown; the first is ")
    assert ids() == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"after": {"id": None}}, "an event has no value of key column id"),
        ({"op": "u", "before": {"id": 7}}, "or moves its row to another key"),
        ({"source": {"lsn": None}}, "an event has no position in the log, or comes from another source"),
        ({"source": {"connector": "mysql"}}, "an event has no position in the log, or comes from another source"),
        ({"source": {"order": [0, 1, 2]}}, "an event has no position in the log, or comes from another source"),
        ({"after": {"big": "12a"}}, "12a"),
    ],
)
def test_an_event_that_sql_cannot_read_fails_the_query(run: CommandLine, change: dict[str, Any], reason: str) -> None:
    event = json.loads(EVENTS.rows.column("value")[2].as_py())
    event |= {name: {**(event[name] or {}), **part} if isinstance(part, dict) else part for name, part in change.items()}
    event["source"]["lsn"] = event["source"]["lsn"] and event["source"]["lsn"] + 10**9
    find(EVENTS.rows.slice(0, 1).set_column(1, "value", pa.array([json.dumps(event)])))
    run("apply")
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection, pytest.raises(duckdb.Error, match=reason):
        connection.sql(f"SELECT * FROM {NAME}").fetchall()


def test_events_of_other_tables_and_messages_about_none_are_not_this_tables(run: CommandLine) -> None:
    other = json.loads(EVENTS.rows.column("value")[2].as_py())
    other["source"]["table"] = "elsewhere"
    others = [
        json.dumps(other),
        '{"ts_ms": 5}',
        '{"status": "END", "id": "1", "event_count": 1, "data_collections": [], "ts_ms": 5}',
    ]
    find(EVENTS.rows.slice(0, 1).take(pa.array([0, 0, 0])).set_column(1, "value", pa.array(others)))
    run("apply")
    assert ids() == [1, 2, 3]


def test_a_column_that_the_schema_file_lacks_is_named_where_the_table_shows_it(run: CommandLine) -> None:
    shutil.rmtree("found")
    typed = event_tables()["postgres, columns, 4"]
    find(typed.rows)
    Path("schema.sql").write_text(typed.ddl.replace(", tm time", ""))
    assert "the schema file lacks tm" in text()
    assert run("apply").code == 0
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection:
        shown = connection.sql(f"SELECT * FROM {NAME} ORDER BY id")
        assert "tm" in typed.rows.schema.field("after").type.names
        assert shown.columns == [name for name in TYPED if name != "tm"]
        assert [row[0] for row in shown.fetchall()] == [1, 2, 3]


def test_a_column_of_json_that_the_schema_file_lacks_is_left_out(run: CommandLine) -> None:
    assert '"toast": "' in EVENTS.rows.column("value")[0].as_py()
    Path("schema.sql").write_text(EVENTS.ddl.replace(", toast text", ""))
    assert "in place, by SQL" in first_reason(run)
    assert run("apply").code == 0
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection:
        shown = connection.sql(f"SELECT * FROM {NAME} ORDER BY id")
        assert "toast" not in shown.columns
        assert [row[0] for row in shown.fetchall()] == [1, 2, 3]


@pytest.mark.spark
def test_a_view_on_spark_follows_the_table_and_a_forgotten_key_leaves_it(run: CommandLine, spark_engine: SparkEngine) -> None:
    session = spark_engine.session

    def shown() -> list[int]:
        return sorted(row[0] for row in session.sql(f"SELECT id FROM {NAME}").collect())

    document = json.loads(Path("cdc_views.yml").read_text())
    Path("cdc_views.yml").write_text(json.dumps({**document, "engine": "spark"}))
    assert run("apply").code == 0
    assert shown() == [1, 2, 3]
    find(event_tables()["postgres, text, 99"].rows)
    assert shown() == [1, 22]
    assert run("forget", NAME, "--key", '{"id": 1}').code == 0
    assert shown() == [22]
    event = json.loads(EVENTS.rows.column("value")[0].as_py())
    event["after"]["id"], event["source"]["lsn"] = 9, event["source"]["lsn"] + 10**9
    find(EVENTS.rows.slice(0, 1).set_column(1, "value", pa.array([json.dumps(event)])))
    assert shown() == [22]
    assert sorted(row["id"] for row in run.query(NAME)) == [9, 22]
    assert shown() == [9, 22], "the copy is up to date"


@pytest.mark.spark
def test_a_copy_is_made_in_sparks_tasks_where_there_is_much(
    run: CommandLine, spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, spread = list[int](), type(spark_engine).spread
    monkeypatch.setattr(type(spark_engine), "spread", lambda *given, **more: ran.append(len(given[2])) or spread(*given, **more))
    # each file is as large as a piece
    each = lambda files, most_bytes: [(file,) for file in files]  # noqa: E731
    monkeypatch.setattr("cdc_views.landing.external.adaptation.groups_of", each)
    find(event_tables()["postgres, text, 99"].rows)
    here = run("query", NAME, "--format", "jsonl").rows
    shutil.rmtree("warehouse")
    document = json.loads(Path("cdc_views.yml").read_text())
    Path("cdc_views.yml").write_text(json.dumps({**document, "engine": "spark"}))
    assert run("query", NAME, "--format", "jsonl").rows == here
    assert here
    assert ran == [2]
