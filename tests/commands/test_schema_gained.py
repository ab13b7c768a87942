"""A schema gains a column while a process runs: what writes asks for the schema of now, and what was passed over is not lost."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import Answer, CommandLine, table, write_project

from cdc_views import Project
from cdc_views.operations.scheduling import job_of
from cdc_views.schemas import live
from cdc_views.state import materialize
from cdc_views.state.state_table import widen

pytestmark = pytest.mark.heavy

NAME = "shop.orders"
CQL = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text{});\n"
NOTED = [{"id": 1, "state": "open", "note": None}, {"id": 2, "state": None, "note": "open"}]


def mutation(number: int, column: str = "state") -> str:
    row = {"kind": "row", "liveness": {"written": number}, "cells": [{"column": column, "written": number, "value": "open"}]}
    event = {"format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": number, "keyspace": "shop"}
    return json.dumps({**event, "table": "orders", "partition": {"id": number}, "rows": [row]})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL.format(""))
    write_project(table(NAME, "schema.cql", "cassandra-mutation"))
    line = CommandLine(capsys)
    assert land(line, 1) == 0
    return line


def land(run: CommandLine, number: int, column: str = "state") -> int:
    return run.land(NAME, mutation(number, column), format="cassandra-mutation", file=f"{number}.jsonl").code


def gain_a_column(run: CommandLine) -> None:
    Path("schema.cql").write_text(CQL.format(", note text"))
    assert land(run, 2, "note") == 0


def test_a_process_that_runs_a_table_again_reads_its_schema_file_again(run: CommandLine) -> None:
    job = job_of(Project.load().table(NAME))
    assert job.run().facts == 1
    gain_a_column(run)
    assert job.run().facts == 1
    assert done(run("materialize", "--format", "jsonl")) == [(False, 0)]
    assert run.query(NAME) == NOTED


@pytest.mark.parametrize("is_late", [False, True])
def test_what_a_run_by_an_older_schema_file_passed_over_is_shown(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    kept = Project.load().table(NAME)
    raw, state = kept.raw, kept.state_location
    kept.materialize()
    gain_a_column(run)
    with kept.project.engine() as engine:
        assert materialize(engine, raw, state).facts == 1
    assert run.query(NAME) == NOTED

    def killed(*widened: Any) -> None:
        if is_late:
            widen(*widened)
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("cdc_views.state.run.widen", killed)
        assert run("materialize").code == 3
    assert run.query(NAME) == NOTED
    answer = run("materialize", "--format", "jsonl")
    is_built = "an earlier run had an older schema file" in answer.err
    assert (done(answer), is_built) == (([(False, 0)], False) if is_late else ([(True, 2)], True))
    assert run.query(NAME) == NOTED


def done(answer: Answer) -> list[tuple[bool, int]]:
    return [(row["is_new"], row["facts"]) for row in answer.rows]


def test_events_are_dropped_only_once_the_state_has_the_new_column(run: CommandLine) -> None:
    kept = Project.load().table(NAME)
    kept.materialize()
    gain_a_column(run)
    time.sleep(1.1)
    assert kept.drop_raw(older_than="1s").rows == 2
    assert run.query(NAME) == NOTED


def test_a_source_is_asked_for_its_schema_again(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    ddl = [CQL.format("")]
    named: list[list[str]] = []

    def described(address: str, tables: list[str]) -> live.Described:
        named.append(list(tables))
        if not ddl:
            raise live.TransientError("away")
        return live.Described("Cassandra 5", "cassandra", live.Ddl.CQL, {NAME: ddl[-1]}, names=[NAME])

    monkeypatch.setattr(live, "describe", described)
    write_project(table(NAME, "cassandra://localhost", "cassandra-mutation"))
    job = job_of(Project.load().table(NAME))
    assert job.run().facts == 1
    ddl.append(CQL.format(", note text"))
    assert land(run, 2, "note") == 0
    assert job.run().facts == 1
    assert run.query(NAME) == NOTED
    assert named[-1] == [NAME]
    ddl.clear()
    assert job.run().is_new is False, "a source that is away stops no run"


def test_a_state_over_dropped_events_goes_on_where_a_run_had_an_older_schema(run: CommandLine) -> None:
    """It cannot be built again, and what it has is right but for what that run passed over."""
    assert run("materialize").code == 0
    time.sleep(1.1)
    assert run("maintain", "--drop-raw-older-than", "1s").code == 0
    kept = Project.load().table(NAME)
    raw, state = kept.raw, kept.state_location
    gain_a_column(run)
    with kept.project.engine() as engine:
        assert materialize(engine, raw, state).facts == 1
    assert [row["id"] for row in run.query(NAME)] == [1, 2]
    assert land(run, 3, "note") == 0
    assert run("materialize").code == 0
    assert run.query(NAME)[2] == {"id": 3, "state": None, "note": "open"}
