"""`materialize --trigger`: state follows Spark's streams over raw tables."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project

from cdc_views import Project
from cdc_views.engines.base import Followed
from cdc_views.errors import EngineError, UsageError
from cdc_views.operations.following import follow_tables, interval_of
from cdc_views.state import Materialization

pytestmark = pytest.mark.heavy

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

ORDERS = "shop.orders"
CQL = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text{});\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of one table."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL.format(""))
    write_project(table(ORDERS, "schema.cql", "cassandra-mutation"))
    return CommandLine(capsys)


def order(number: int, column: str = "state") -> str:
    """A mutation that inserts one row."""
    row = {"kind": "row", "clustering": {}, "liveness": {"written": number}}
    cells = [{"column": column, "written": number, "value": "x"}]
    place = {"node": "n", "segment": 1, "position": number, "keyspace": "shop", "table": "orders", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **place, "rows": [{**row, "cells": cells}]})


def land(run: CommandLine, *lines: str) -> None:
    assert run.land(ORDERS, *lines, format="cassandra-mutation").code == 0


def state_version() -> int:
    return int(DeltaTable(Project.load("cdc_views.yml").table(ORDERS).state_location).version())


@pytest.mark.parametrize(
    ("trigger", "interval"), [("available-now", None), ("30 seconds", "30 seconds"), ("1 Minute", "1 minutes")]
)
def test_a_trigger_is_available_now_or_an_interval(trigger: str, interval: str | None) -> None:
    assert interval_of(trigger) == interval


@pytest.mark.parametrize("trigger", ["availableNow", "0 seconds", "30", "30 ms; drop", "-1 minutes", ""])
def test_another_trigger_is_refused(trigger: str) -> None:
    with pytest.raises(UsageError, match="30 seconds"):
        interval_of(trigger)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--trigger", "soon"], "--trigger is 'soon'"),
        (["--trigger", "available-now"], "duckdb has none"),
        (["--trigger", "available-now", "--full"], "does not go together"),
        (["--trigger", "available-now", "--format", "csv"], "use --format table or jsonl"),
    ],
)
def test_what_cannot_be_followed_is_refused(run: CommandLine, more: list[str], expected: str) -> None:
    answer = run("materialize", *more)
    assert (answer.code, answer.out) == (2, "")
    assert expected in answer.err


@pytest.mark.parametrize(("error", "code"), [(EngineError("a run failed"), 3), (UsageError("nothing has landed"), 2)])
def test_a_run_that_fails_ends_the_command_with_its_code(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("cdc_views.operations.following.follow_tables", fail)
    answer = run("materialize", "--trigger", "30 seconds")
    assert (answer.code, str(error) in answer.err) == (code, True)


def test_a_run_that_fails_in_a_stream_ends_it_with_its_error() -> None:
    pytest.importorskip("pyspark")
    from cdc_views_spark.streaming import follow

    session = MagicMock()
    writer = session.readStream.format().option().load().writeStream
    query = writer.foreachBatch().option().trigger().start()

    def fail() -> None:
        query.isActive = False
        raise UsageError("nothing has landed")

    def batch(*_: object) -> object:
        with pytest.raises(UsageError):
            writer.foreachBatch.call_args.args[0](None, 0)
        return query

    writer.foreachBatch().option().trigger().start.side_effect = batch
    with pytest.raises(UsageError, match="nothing has landed"):
        follow(session, [Followed(ORDERS, "raw", "checkpoint", fail)], interval="1 seconds", stop=Event())
    query.stop.assert_called_once_with()


@pytest.mark.spark
@pytest.mark.slow
def test_state_follows_what_lands_until_told_to_stop(spark_engine: SparkEngine, run: CommandLine) -> None:
    land(run, order(1))
    stop, told = Event(), list[Materialization]()

    def tell(name: str, outcome: Materialization) -> None:
        told.append(outcome)
        if len(told) == 1:  # the first run, before the stream starts
            land(run, order(2))
        elif len(told) == 2:  # in the stream: Delta ends it, as the table has a new column
            Path("schema.cql").write_text(CQL.format(", note text"))
            land(run, order(3, "note"))
        else:
            stop.set()

    tables = Project.load("cdc_views.yml").select([ORDERS])
    follow_tables(tables, trigger="1 second", engine="spark", stop=stop, on_run=tell)
    assert [(outcome.is_new, outcome.facts) for outcome in told] == [(True, 1), (True, 1), (True, 1)]
    assert not Project.load("cdc_views.yml").table(ORDERS).materialize(engine="duckdb").is_new
    assert [row["note"] for row in run.query(ORDERS)] == [None, None, "x"]


@pytest.mark.spark
def test_available_now_takes_in_what_there_is_and_commits_nothing_where_there_is_nothing(
    spark_engine: SparkEngine, run: CommandLine
) -> None:
    told = list[Materialization]()

    def follow() -> int:
        tables = Project.load("cdc_views.yml").select([ORDERS])
        follow_tables(
            tables, trigger="available-now", engine="spark", stop=Event(), on_run=lambda _, outcome: told.append(outcome)
        )
        return state_version()

    land(run, order(1))
    first = follow()
    assert follow() == first
    land(run, order(2))
    assert follow() > first
    assert [outcome.is_new for outcome in told] == [True, False, True]
    DeltaTable(Project.load("cdc_views.yml").table(ORDERS).state_location).delete("id = 1")
    with pytest.raises(EngineError) as failed:  # somebody else wrote to the state; the command would end the tests' session
        follow()
    assert failed.value.exit_code == 3
    assert run("rebuild", ORDERS, "--accept").code == 0
    assert follow() > 0
