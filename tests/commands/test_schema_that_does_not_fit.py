"""A schema file that raw does not fit: every command that looks says so, and nothing is built over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project

NAME = "shop.orders"
ROW = (
    '{"format":"cassandra-mutation/1","node":"n1","segment":1,"position":1,"keyspace":"shop","table":"orders","partition":{"id":1},'
    '"rows":[{"kind":"row","liveness":{"written":10},"cells":[{"column":"v","written":10,"value":8}]}]}'
)
SAID = "which the schema file now makes"


def schema(kind: str) -> None:
    Path("shop.cql").write_text(f"CREATE TABLE {NAME} (id int PRIMARY KEY, v {kind});")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    schema("int")
    write_project(table(NAME, "shop.cql", "cassandra-mutation"))
    line = CommandLine(capsys)
    line.land(NAME, ROW, format="cassandra-mutation")
    assert line("materialize").code == 0
    return line


def test_status_and_doctor_find_it_and_rebuild_refuses(run: CommandLine) -> None:
    schema("text")
    assert run("query", NAME).code == 2
    status = run("status", "--format", "jsonl")
    assert status.code == 1
    (row,) = status.rows
    assert SAID in str(row["problem"])
    assert row["raw_facts"] == 1
    doctor = run("doctor")
    assert doctor.code == 1
    assert SAID in doctor.err
    rebuilt = run("rebuild", NAME, "--accept")
    assert rebuilt.code == 2
    assert SAID in rebuilt.err
    schema("int")
    assert run("status").code == run("doctor").code == run("query", NAME).code == 0


def test_a_renamed_key_column_needs_another_raw_table(run: CommandLine) -> None:
    """Rows of the former name would show without that part of their key."""
    with Path("shop.cql").open("a") as file:
        file.write(f"ALTER TABLE {NAME} RENAME id TO number;")
    renamed = ROW.replace('"id":1', '"number":2')
    refused = [run.land(NAME, renamed, format="cassandra-mutation", file="2.jsonl"), run("query", NAME)]
    assert [(one.code, "lacks number, a column of the key" in one.err) for one in refused] == [(2, True)] * 2, refused
    write_project(table(NAME, "shop.cql", "cassandra-mutation", raw={"table": "elsewhere"}))
    assert run("rebuild", NAME, "--accept").code == 0
    assert run.land(NAME, renamed, format="cassandra-mutation", file="2.jsonl").code == 0
    assert run.query(NAME) == [{"number": 2, "v": 8}]


def test_another_raw_table_is_the_other_remedy(run: CommandLine) -> None:
    schema("text")
    write_project(table(NAME, "shop.cql", "cassandra-mutation", raw={"table": "elsewhere"}))
    assert run("rebuild", NAME, "--accept").code == 0
    run.land(NAME, ROW.replace('"value":8', '"value":"eight"'), format="cassandra-mutation")
    (row,) = run("query", NAME, "--format", "jsonl").rows
    assert row == {"id": 1, "v": "eight"}
