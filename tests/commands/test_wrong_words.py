"""What a new user mistypes, in every command: one error that says what is known, exit code 2 or 3, before anything is done."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command_line import CommandLine, write_project
from helpers.command_line import table as table_of
from services.account import free_port

from cdc_views.cli import main

SQL = "CREATE TABLE shop.orders (id bigint PRIMARY KEY, state text);\n"
ENGINES = "choose one of bigquery, duckdb, spark"

WRONG = {
    "querry orders": "Did you mean 'query'?",
    "produce oracle": "choose one of cassandra, http, kafka",
    "quarantine lst": "Did you mean 'list'?",
    "query orders --colums id": "did you mean '--columns'?",
    "query orders --limit ten": "Invalid value for '--limit'",
    "query orders --format jsn": "did you mean 'json'?",
    "query orders --format xml": "choose one of table, vertical, json, jsonl, csv",
    "query orders --log-format xml": "choose one of text, json",
    "query orders --strategy fast": "choose one of auto, aggregate, window, self_join, kernel",
    "query orders --as-of '2026-11-27 25:00'": "is no instant",
    "query orders --as-of '2026-11-27 10:75'": "is no instant",
    "query orders --out rows.txt": "choose one of parquet, json, jsonl, csv",
    "query orders --project .": "cannot be read (Is a directory)",
    "query orders --project bytes": "is not UTF-8 (byte 0)",
    "generate --dialect duckdbb": "there is no dialect 'duckdbb'; did you mean 'duckdb'?\n",
    "generate --dialect mssql": "choose one of bigquery, clickhouse",
    "generate --style loud": "there is no style 'loud'; choose one of plain, macros\n",
    "generate --strategy windw": "there is no strategy 'windw'; did you mean 'window'?\n",
    "validate --fail-on fatal": "--fail-on is 'fatal'; choose one of warning, error\n",
    "validate --junit .": "--junit .: cannot be written",
    "validate --json nowhere/results.json": "--json nowhere/results.json: cannot be written",
    "cost orders --facts 9 --offline --plot .": "--plot .: cannot be written",
    "rebuild orders --dry-run --accept": "give one of them",
    "contract export --contract-version ''": "a version was expected",
    "quarantine discard orders --reason x --event zz": "the id of no waiting event begins with 'zz'",
    "completion powershell": "choose one of bash, zsh, fish",
    "demo mysql --dir new": "choose one of postgres, cassandra",
    "demo --dir schema.sql": "cannot be written (File exists)",
    "init --from schema.sql": "name another place with --dir or --project",
    "init --from oracle://db/shop --project new.yml": "choose one of cassandra, mariadb, mysql, postgres, postgresql\n",
    "verify orders": "has no `source`",
    "verify orders --source oracle://db/shop": "nothing reads a source at oracle://; choose one of cassandra",
    "produce postgres --to file": "give --to kafka://HOST:PORT",
    "produce postgres --connect-timeout -1": "Invalid value for '--connect-timeout'",
    **{f"{command} --engine oracle": ENGINES for command in (
        "query orders", "history orders", "apply", "materialize", "rebuild orders", "maintain", "validate", "report --out site",
        "verify orders --source postgresql://127.0.0.1:1/x", "forget orders --key '{\"id\": 1}'",
    )},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one table, in which nothing has landed."""
    found = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found)
        Path("schema.sql").write_text(SQL)
        Path("bytes").write_bytes(b"\xff\x00")
        write_project(table_of("shop.orders", "schema.sql"))
    return found


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[CommandLine]:
    """The command line there; fails a test that leaves a file."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    yield CommandLine(capsys)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("line", WRONG)
def test_one_error_says_what_is_known(run: CommandLine, line: str) -> None:
    answer = run(*shlex.split(line))
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
    assert WRONG[line] in answer.err
    assert "error" in answer.err.partition(":")[0] or " error " in answer.err
    for trace in ("Traceback", "[Errno", "Error:", "unexpected"):
        assert trace not in answer.err


@pytest.mark.parametrize("source", ["postgres", "mysql", "mariadb", "kafka", "cassandra"])
def test_an_address_that_never_answers_ends_a_producer(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cdc_producers.kafka import source as kafka

    port, host = str(free_port()), "127.0.0.1"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kafka, "ANSWERS_WITHIN", 0.2)
    for name in ("MYSQL", "MARIADB"):
        monkeypatch.setenv(f"CDC_VIEWS_{name}_HOST", host)
        monkeypatch.setenv(f"CDC_VIEWS_{name}_PORT", port)
    monkeypatch.setenv("PGHOST", host)
    monkeypatch.setenv("PGPORT", port)
    monkeypatch.setenv("CDC_VIEWS_KAFKA_BOOTSTRAP_SERVERS", f"{host}:{port}")
    is_cql = source == "cassandra"
    Path("schema.cql" if is_cql else "schema.sql").write_text(SQL)
    write_project(
        table_of("shop.orders", "schema.cql", "cassandra-mutation") if is_cql else table_of("shop.orders", "schema.sql")
    )
    more = ("--port", port) if is_cql else ()
    code = main(["produce", source, "--listen", "none", "--connect-timeout", "0.1", *more])
    told = capsys.readouterr().err
    assert code == 3, told
    assert f"{host}" in told
    assert port in told
    assert told.splitlines()[-1].endswith("nothing could be read for 0.1 s, so it ends; --connect-timeout 0 goes on trying")
    assert "Traceback" not in told
