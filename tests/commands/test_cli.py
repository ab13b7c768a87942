"""The command line: results on stdout, everything else on stderr, exit codes, and suggestions for every slip."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tiny_project import CQL, NOW, append_lines, event, make_project, write_lines

from cdc_views.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory is a project of one table, shop.orders."""
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


def run(captured: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = captured.readouterr()
    return code, out, err


def land(captured: Captured, *lines: str) -> None:
    write_lines(Path("events.jsonl"), *lines)
    assert run(captured, "land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders")[0] == 0


def test_init_writes_a_project_that_runs_and_never_overwrites(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "cdc_views.yml").unlink()
    assert run(capsys, "init", "--from", "schema.cql")[0] == 0
    code, out, _ = run(capsys, "query", "shop.orders", "--format", "jsonl")
    assert (code, out) == (0, "")
    code, _, err = run(capsys, "init", "--from", "schema.cql")
    assert code == 2
    assert "not overwritten" in err


def test_init_into_a_folder_names_the_schema_relative_to_it(capsys: Captured, tmp_path: Path) -> None:
    Path("bare.cql").write_text(CQL.replace("shop.orders", "orders"))
    assert run(capsys, "init", "--from", "bare.cql", "--dir", "deep/proj")[0] == 0
    code, out, _ = run(capsys, "fidelity", "--project", "deep/proj/cdc_views.yml", "--format", "jsonl")
    assert code == 0
    assert json.loads(out.splitlines()[0])["table"] == "proj.orders"


def test_init_prints_the_json_schema_and_explains_what_it_needs(capsys: Captured) -> None:
    code, out, _ = run(capsys, "init", "--json-schema")
    assert (code, json.loads(out)["title"]) == (0, "cdc_views.yml")
    assert "--from SCHEMA" in run(capsys, "init")[2]
    assert "no such schema file" in run(capsys, "init", "--from", "nope.cql", "--dir", "x")[2]
    assert "did you mean 'debezium'" in run(capsys, "init", "--from", "schema.cql", "--dir", "x", "--raw-format", "debezim")[2]


def test_land_reports_per_file_and_says_what_it_skipped(capsys: Captured) -> None:
    write_lines(Path("a.jsonl"), event(1), event(2))
    code, out, _ = run(capsys, "land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders", "--format", "jsonl")
    assert code == 0
    assert json.loads(out)["events"] == 2
    code, out, _ = run(capsys, "land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders", "--format", "jsonl")
    assert (code, json.loads(out)["events"], json.loads(out)["skipped_bytes"]) == (0, 0, Path("a.jsonl").stat().st_size)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_events_is_told(capsys: Captured, content: str) -> None:
    Path("empty.jsonl").write_text(content)
    code, _, err = run(capsys, "land", "cassandra-mutation", "empty.jsonl", "--table", "shop.orders")
    assert (code, err) == (0, "warning: empty.jsonl: has no events\n")


def test_landing_again_says_what_still_waits(capsys: Captured) -> None:
    write_lines(Path("a.jsonl"), "nonsense")
    again = ("land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders")
    assert run(capsys, *again)[0] == 1
    code, _, err = run(capsys, *again)
    assert code == 0
    assert "a.jsonl: landed before" in err
    assert "warning: 1 events wait in quarantine: `cdc-views quarantine list --select shop.orders`" in err


def test_land_with_a_bad_event_lands_the_rest_and_exits_1(capsys: Captured) -> None:
    write_lines(Path("a.jsonl"), event(1), "nonsense", event(2, table="other"))
    code, out, err = run(capsys, "land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders", "--format", "json")
    assert code == 1
    assert json.loads(out)[0]["quarantined"] == 2
    assert "a.jsonl:2: not JSON" in err
    assert "2 events are in quarantine" in err
    assert len(run(capsys, "query", "shop.orders", "--format", "jsonl")[1].splitlines()) == 1


def test_replay_exits_1_while_events_wait_and_0_when_none_do(capsys: Captured) -> None:
    write_lines(Path("a.jsonl"), event(1), event(2).replace('"state"', '"status"'))
    assert run(capsys, "land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders")[0] == 1
    code, out, err = run(capsys, "replay", "shop.orders", "--format", "jsonl")
    assert (code, json.loads(out)["waiting"]) == (1, 1)
    assert "has no regular column" in err
    Path("schema.cql").write_text(CQL.replace("note text", "note text, status text"))
    code, out, _ = run(capsys, "replay", "shop.orders", "--format", "jsonl")
    assert (code, json.loads(out)) == (0, {"table": "shop.orders", "events": 1, "facts": 1, "waiting": 0})
    assert len(run(capsys, "query", "shop.orders", "--format", "jsonl")[1].splitlines()) == 2


def test_query_prints_plain_names_and_exact_values_in_order(capsys: Captured) -> None:
    land(capsys, event(2, state='say "hi"'), event(1, state="ü\n"), event(1, state="newer", position=9))
    code, out, err = run(capsys, "query", "shop.orders", "--format", "jsonl", "--as-of", str(NOW))
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"id": 1, "line": 0, "state": "ü\n", "note": None},
        {"id": 2, "line": 0, "state": 'say "hi"', "note": None},
    ]


def test_query_takes_columns_a_condition_and_a_limit(capsys: Captured) -> None:
    land(capsys, *(event(n) for n in range(1, 6)))
    arguments = ("query", "shop.orders", "--format", "json", "--columns", "state", "--columns", "id", "--where", "id > 2")
    out = run(capsys, *arguments, "--limit", "2")[1]
    assert json.loads(out) == [{"state": "open", "id": 3}, {"state": "open", "id": 4}]


def test_query_csv_follows_rfc_4180(capsys: Captured) -> None:
    land(capsys, event(1, state='a,"b"\r\nc'), event(2, state=""))
    out = run(capsys, "query", "shop.orders", "--format", "csv")[1]
    assert list(csv.reader(io.StringIO(out, newline=""))) == [
        ["id", "line", "state", "note"],
        ["1", "0", 'a,"b"\r\nc', ""],
        ["2", "0", "", ""],
    ]
    assert out.endswith('2,0,"",\r\n')


def test_query_as_a_table_is_never_wrapped_in_a_file(capsys: Captured) -> None:
    land(capsys, event(1, state="x" * 120))
    _, out, err = run(capsys, "query", "shop.orders")
    assert f" {'x' * 120} " in out
    assert "cut" not in err


@pytest.mark.parametrize("form", ["1800000000", "2027-01-15T08:00:00Z", "2027-01-15 08:00:00", "2027-01-15T08:00:00.999"])
def test_as_of_takes_seconds_and_iso_8601(capsys: Captured, form: str) -> None:
    expiring = event(1).replace('"liveness": {"written": 1}', '"liveness": {"written": 1, "ttl": 10, "expires_at": 1800000001}')
    expiring = expiring.replace('"value": "open"', '"value": "open", "ttl": 10, "expires_at": 1800000001')
    land(capsys, expiring)
    assert len(run(capsys, "query", "shop.orders", "--format", "jsonl", "--as-of", form)[1].splitlines()) == 1
    assert run(capsys, "query", "shop.orders", "--format", "jsonl", "--as-of", "1800000001")[1] == ""


def test_query_before_anything_landed_is_empty_and_says_so(capsys: Captured, tmp_path: Path) -> None:
    code, out, err = run(capsys, "query", "shop.orders", "--format", "jsonl")
    assert (code, out) == (0, "")
    assert "nothing has landed for shop.orders yet" in err
    assert not (tmp_path / "warehouse/raw").exists()


def test_query_explain_says_the_strategy_and_the_reason(capsys: Captured) -> None:
    code, out, _ = run(capsys, "query", "shop.orders", "--explain", "--strategy", "window", "--format", "jsonl")
    assert (code, json.loads(out)) == (0, {"strategy": "window", "why": "strategy window, as asked for"})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["qurey", "shop.orders"], "Did you mean 'query'?"),
        (["query", "shop.orders", "--formt", "csv"], "did you mean '--format'?"),
        (["query", "shop.orders", "--format", "jsn"], "did you mean 'json'?"),
        (["query", "shop.order"], "did you mean 'shop.orders'?"),
        (["query", "shop.orders", "--columns", "stat"], "did you mean 'state'?"),
        (["query", "shop.orders", "--columns", "id", "--columns", "id"], "asked for twice"),
        (["query", "shop.orders", "--engine", "dukdb"], "did you mean 'duckdb'?"),
        (["query", "shop.orders", "--engine", "bigquery"], "raw tables that are in BigQuery"),
        (["query", "shop.orders", "--strategy", "windw"], "did you mean 'window'?"),
        (["query", "shop.orders", "--strategy", "kernel"], "is for reads on Spark"),
        (["query", "shop.orders", "--strategy", "kernel", "--explain"], "is for reads on Spark"),
        (["query", "shop.orders", "--limit", "-1"], "0 or more"),
        (["query", "shop.orders", "--limit", "x"], "--limit"),
        (["query", "shop.orders", "--as-of", "yesterday"], "is no instant"),
        (["query", "shop.orders", "--as-of", "1800000000000000"], "not milli- or microseconds"),
        (["query", "shop.orders", "--select", "shop.other"], "is not among the tables of --select"),
        (["query", "shop.orders", "--log-format", "jsn"], "did you mean 'json'?"),
        (["query", "shop.orders", "extra"], "extra"),
        (["query"], "TABLE"),
        (["query", "shop.orders", "--project", "nope.yml"], "no such project file"),
        (["land", "cassandra-mutaton", "a", "--table", "shop.orders"], "did you mean 'cassandra-mutation'?"),
        (["land", "debezium", "a", "--table", "shop.orders"], "not debezium"),
        (["land", "cassandra-mutation", "a", "--table", "shop.orders"], "a: no such file"),
        (["land", "cassandra-mutation", "--table", "shop.orders"], "FILE"),
        (["generate", "--dialect", "dukdb"], "did you mean 'duckdb'?"),
        (["generate", "--style", "macro"], "did you mean 'macros'?"),
        (["generate", "--style", "macros", "--dialect", "trino"], "leave out --style macros"),
        (["fidelity", "--select", "shop.order"], "did you mean 'shop.orders'?"),
        (["explain", "shop.orders", "--key", '{"id": 1}', "--column", "stat"], "did you mean 'state'?"),
        (["explain", "shop.orders", "--key", '{"id": 1}', "--column", "state"], "nothing has landed"),
        (["materialize", "--schedule"], "no table has a schedule (of shop.orders); give one `materialize: {schedule:"),
        (["materialize", "--schedule", "--full"], "--schedule and --full do not go together"),
        (["materialize", "--wait", "soon"], "--wait"),
        (["rebuild", "shop.orders"], "nothing has landed"),
        (["forget", "shop.orders", "--key", "{}"], "lacks 'id'"),
        ([], "Usage"),
    ],
)
def test_a_slip_exits_2_with_one_helpful_message_and_nothing_on_stdout(
    capsys: Captured, arguments: list[str], expected: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert "Traceback" not in err


def test_engine_bigquery_and_a_live_schema_and_a_table_found_nowhere_exit_2(capsys: Captured, tmp_path: Path) -> None:
    file = make_project(tmp_path)
    file.write_text(file.read_text().replace('"duckdb"', '"bigquery"'))
    code, _, err = run(capsys, "query", "shop.orders")
    assert code == 2
    assert "with engine bigquery a project and the dataset of the views were expected" in err
    write_lines(Path("a.jsonl"), event(1))
    assert run(capsys, "land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders")[0] == 2
    assert run(capsys, "apply")[0] == 2
    make_project(tmp_path, schema="neo4j://host/shop")
    assert "nothing reads a source at neo4j://" in run(capsys, "query", "shop.orders")[2]
    make_project(tmp_path, schema="missing.cql")
    assert "missing.cql, is no file" in run(capsys, "query", "shop.orders")[2]
    make_project(tmp_path, raw={"format": "cassandra-mutation", "layout": "as-found"})
    code, _, err = run(capsys, "query", "shop.orders")
    assert code == 2
    assert "layout as-found needs `table`" in err
    make_project(tmp_path, raw={"format": "cassandra-mutation", "layout": "as-found", "table": "found"})
    code, _, err = run(capsys, "query", "shop.orders")
    assert code == 2
    assert "found: there is no such table" in err


def test_fidelity_fails_on_unsafe_until_it_is_waived(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_views.formats.base import Fidelity, Verdict
    from cdc_views.formats.cassandra_mutation import CassandraMutation

    lines = [Fidelity("*", Verdict.EXACT, "fine"), Fidelity("note", Verdict.UNSAFE, "it cannot be told")]
    monkeypatch.setattr(CassandraMutation, "fidelity", lambda self, schema: lines)
    code, out, err = run(capsys, "fidelity", "--format", "jsonl")
    assert (code, [json.loads(line)["verdict"] for line in out.splitlines()]) == (1, ["EXACT", "UNSAFE"])
    assert "waive it in the project file" in err
    make_project(tmp_path, fidelity={"waive": {"note": "never read"}})
    assert run(capsys, "fidelity")[0] == 0
    make_project(tmp_path, fidelity={"waive": {"notes": "never read"}})
    code, _, err = run(capsys, "fidelity")
    assert code == 2
    assert "did you mean 'note'?" in err


def test_generate_prints_sql_or_writes_it(capsys: Captured) -> None:
    code, out, _ = run(capsys, "generate", "--dialect", "spark")
    assert code == 0
    assert "CREATE OR REPLACE VIEW" in out
    code, out, _ = run(capsys, "generate", "--dialect", "spark", "--out", "sql")
    assert (code, out) == (0, "")
    assert "CREATE OR REPLACE VIEW" in Path("sql/shop_orders.sql").read_text()


def test_views_that_share_definitions_show_the_same(capsys: Captured) -> None:
    import duckdb

    for landed in (1, 2):  # over raw, then over a state and its tail
        land(capsys, event(landed))
        expected = json.loads(run(capsys, "query", "shop.orders", "--format", "json")[1])
        code, text, _ = run(capsys, "generate", "--style", "macros")
        assert code == 0
        assert "CREATE OR REPLACE MACRO shop.cdc_shows(" in text
        with duckdb.connect() as connection:
            connection.execute("CREATE SCHEMA shop")
            connection.execute(text)
            rows = connection.sql("SELECT id, state FROM shop.orders ORDER BY id").fetchall()
        assert rows == [(row["id"], row["state"]) for row in expected]
        assert len(rows) == landed
        assert run(capsys, "materialize")[0] == 0


def test_plan_and_apply(capsys: Captured) -> None:
    land(capsys, event(1))
    code, out, _ = run(capsys, "plan", "--format", "jsonl")
    assert (code, json.loads(out)["change"], json.loads(out)["raw_rows"]) == (0, "create", 1)
    assert run(capsys, "apply")[0] == 0
    assert json.loads(run(capsys, "plan", "--format", "jsonl")[1])["change"] == "none"
    assert "+++" not in run(capsys, "plan")[1]


def test_an_applied_view_follows_each_landing(capsys: Captured, tmp_path: Path) -> None:
    import duckdb

    land(capsys, event(1))
    assert run(capsys, "apply")[0] == 0
    append_lines(Path("events.jsonl"), event(2))
    code, _, err = run(capsys, "land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders")
    assert code == 0
    assert "view shop.orders shows them" in err
    with duckdb.connect(str(tmp_path / "warehouse" / "views.duckdb")) as connection:
        assert connection.sql("SELECT id FROM shop.orders ORDER BY id").fetchall() == [(1,), (2,)]


def test_a_view_applied_before_anything_landed_comes_with_the_first_landing(capsys: Captured, tmp_path: Path) -> None:
    import duckdb

    code, out, _ = run(capsys, "apply", "--format", "jsonl")
    assert (code, json.loads(out)["state"]) == (0, "waits for the first landing")
    assert json.loads(run(capsys, "plan", "--format", "jsonl")[1])["change"] == "create"
    land(capsys, event(1))
    with duckdb.connect(str(tmp_path / "warehouse" / "views.duckdb")) as connection:
        assert connection.sql("SELECT id, state FROM shop.orders").fetchall() == [(1, "open")]


def test_tables_that_differ_in_case_alone_live_side_by_side(capsys: Captured, tmp_path: Path) -> None:
    Path("schema.cql").write_text(CQL + CQL.replace("shop.orders", 'shop."Orders"') + CQL.replace("shop.orders", "shop.orders_2"))
    Path("cdc_views.yml").unlink()
    assert run(capsys, "init", "--from", "schema.cql")[0] == 0
    write_lines(Path("a.jsonl"), event(1))
    write_lines(Path("b.jsonl"), event(2, table="Orders"))
    assert run(capsys, "land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders")[0] == 0
    assert run(capsys, "land", "cassandra-mutation", "b.jsonl", "--table", "shop.Orders")[0] == 0
    assert json.loads(run(capsys, "query", "shop.orders", "--format", "jsonl")[1])["id"] == 1
    assert json.loads(run(capsys, "query", "shop.Orders", "--format", "jsonl")[1])["id"] == 2
    code, out, _ = run(capsys, "apply", "--format", "jsonl")
    views = [json.loads(line)["view"] for line in out.splitlines()]
    assert code == 0
    assert len({view.casefold() for view in views}) == 3
    file = Path("cdc_views.yml")
    file.write_text("\n".join(line for line in file.read_text().splitlines() if "view:" not in line))
    code, _, err = run(capsys, "apply")
    assert code == 2
    assert "differ in case alone" in err


def test_log_format_json_makes_every_line_of_stderr_json(capsys: Captured) -> None:
    write_lines(Path("a.jsonl"), event(1), "nonsense")
    for arguments in (
        ("land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders", "--log-format", "json"),
        ("query", "shop.nope", "--log-format", "json"),
    ):
        _, _, err = run(capsys, *arguments)
        assert err
        assert all({"level", "message"} <= json.loads(line).keys() for line in err.splitlines())


def test_an_unexpected_error_is_one_line_with_advice(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr("cdc_views.operations.querying.streamed_query", broken)
    code, out, err = run(capsys, "query", "shop.orders")
    assert (code, out, len(err.splitlines())) == (3, "", 1)
    assert "CDC_VIEWS_DEBUG=1" in err
    monkeypatch.setenv("CDC_VIEWS_DEBUG", "1")
    assert "Traceback" in run(capsys, "query", "shop.orders")[2]


def test_help_lists_every_command(capsys: Captured) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for name in ("init", "land", "replay", "generate", "plan", "apply", "query", "explain", "fidelity", "materialize", "forget"):
        assert name in out


@pytest.mark.heavy
def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    write_lines(Path("a.jsonl"), *(event(n) for n in range(3000)))
    assert main(["land", "cassandra-mutation", "a.jsonl", "--table", "shop.orders"]) == 0
    script = "import sys; from cdc_views.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "query", "shop.orders", "--format", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_help_loads_no_engine() -> None:
    script = (
        "import sys; from cdc_views.cli import main; main(['--help']); "
        "assert not {'pyarrow', 'duckdb', 'deltalake', 'pydantic', 'pandas'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
