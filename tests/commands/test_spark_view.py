"""A view on Spark over state and tail: applied once, made again as the state changes, read by sessions that know only Delta."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.command_line import Answer, CommandLine, table
from helpers.spark_views import now

from cdc_views import Project
from cdc_views.formats.base import SourceLine
from cdc_views.model.whole_files import write_whole
from cdc_views.operations import materializing
from cdc_views.operations.applied import applied_file, followed_by
from cdc_views.operations.generating import definition_on
from cdc_views.table import Table

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.heavy]

NAME = "shop.orders"
CQL = "CREATE TYPE shop.place (street text{});\nCREATE TABLE shop.orders (id int PRIMARY KEY, state text, home place{});\n"
HOUR = 3_600_000_000
"""In µs."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark_engine: SparkEngine) -> Any:
    """A Spark project of one table, on the session of the tests."""
    monkeypatch.chdir(tmp_path)
    write_schema()
    write_project()
    spark_engine.session.sql("DROP VIEW IF EXISTS shop.orders") if "shop" in databases(spark_engine) else None
    return CommandLine(capsys)


def databases(engine: SparkEngine) -> set[str]:
    return {row[0] for row in engine.session.sql("SHOW DATABASES").collect()}


def write_schema(field: str = "", column: str = "") -> None:
    Path("schema.cql").write_text(CQL.format(field, column))


def write_project(engine: str = "spark", **materialize: str) -> None:
    body = table(NAME, "schema.cql", "cassandra-mutation", materialize=materialize)
    Path("cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": engine, "tables": [body]}))


def event(number: int, *, state: str = "open", at: int | None = None, **home: str) -> str:
    """A mutation that inserts a row, or writes it again."""
    written = number if at is None else at
    cells: list[dict[str, Any]] = [{"column": "state", "written": written, "value": state}]
    cells += [{"column": "home", "written": written, "path": name, "value": value} for name, value in home.items()]
    row = {"kind": "row", "clustering": {}, "liveness": {"written": written}, "cells": cells}
    place = {"node": "n", "segment": 1, "position": number, "keyspace": "shop", "table": "orders", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **place, "rows": [row]})


def orders() -> Table:
    return Project.load("cdc_views.yml").table(NAME)


def land(run: CommandLine, *lines: str) -> None:
    answer = run.land(NAME, *lines, format="cassandra-mutation")
    assert answer.code == 0, answer.err


def land_stamped(line: str, *, at: int) -> None:
    """Land an event whose lander stamped it long before its commit."""
    mine = orders()
    rows = mine.relation.rows(mine.format.decode(SourceLine(line), mine.schema), landed_at=at)
    write_deltalake(mine.raw.location, rows, mode="append")


def done(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def shown(engine: SparkEngine, columns: str = "id") -> list[Any]:
    """What the view shows, read by name as anybody reads it."""
    return sorted(tuple(row) for row in engine.session.sql(f"SELECT {columns} FROM shop.orders").collect())


def applied() -> str:
    return applied_file(orders()).read_text("utf-8")


def test_materialize_makes_an_applied_view_anew_over_the_state(run: CommandLine, spark_engine: SparkEngine) -> None:
    land(run, event(1))
    done(run("apply"))
    assert ("/state/" in applied(), shown(spark_engine)) == (False, [(1,)])
    done(run("materialize"))
    assert "/state/" in applied()
    land(run, event(2), event(1, state="paid", at=5))
    assert shown(spark_engine, "id, state") == [(1, "paid"), (2, "open")], "nobody has to apply it again"
    done(run("materialize"))
    land(run, event(3))
    assert shown(spark_engine) == [(1,), (2,), (3,)]


def test_a_view_that_shows_other_rows_is_stale(run: CommandLine, spark_engine: SparkEngine) -> None:
    """As after somebody else has replaced or dropped it; `verify` calls it a stale view."""
    land(run, event(1, street="Low"), event(2))
    done(run("materialize"))
    done(run("apply"))
    land(run, event(3))
    definition, statement = definition_on(orders(), orders().project.engine_plugin), applied()
    assert spark_engine.stale_rows(definition) == 0
    replaced = "CREATE OR REPLACE VIEW shop.orders AS SELECT {} FROM ({})"
    query = statement.partition(" AS\n")[2]
    for columns, differing in (("*", 0), ("id, coalesce(state, '') || 'x' AS state, home", 6), ("id, state", 3)):
        spark_engine.session.sql(replaced.format(columns, query))
        assert spark_engine.stale_rows(definition) == differing, columns
    spark_engine.session.sql("DROP VIEW shop.orders")
    assert spark_engine.stale_rows(definition) == 3


def test_a_view_that_was_not_applied_is_not_made(run: CommandLine, spark_engine: SparkEngine) -> None:
    land(run, event(1))
    done(run("materialize"))
    assert not applied_file(orders()).exists()
    assert "shop" not in databases(spark_engine) or not spark_engine.session.catalog.tableExists("shop.orders")


def test_a_plan_shows_no_difference_because_the_bound_moved(run: CommandLine) -> None:
    def change() -> str:
        return str(done(run("plan", "--format", "jsonl")).rows[0]["change"])

    land(run, event(1))
    done(run("materialize"))
    assert change() == "create"
    done(run("apply"))
    assert change() == "none"
    before, record = applied(), applied_file(orders()).with_suffix(".json")
    bound = record.read_text()
    land(run, event(2))
    done(run("materialize", "--engine", "duckdb"))
    assert applied() != before, "it reads a shorter tail"
    assert change() == "none"
    write_whole(record, bound)  # as after a kill: the view of before, and a state that is newer
    write_whole(applied_file(orders()), before)
    assert change() == "none"
    write_project(overlap="2h")
    assert change() == "replace"


def test_generate_prints_what_apply_runs(run: CommandLine) -> None:
    land(run, event(1))
    done(run("materialize"))
    done(run("apply"))
    assert done(run("generate", "--dialect", "spark")).out.strip() == applied().strip()
    (taken,) = done(run("query", NAME, "--explain", "--format", "jsonl")).rows
    assert (taken["strategy"], "which opens the files" in taken["why"]) == ("kernel", True)
    databricks = done(run("generate", "--dialect", "databricks")).out
    assert "/state/shop_orders/" in databricks
    assert "_landed_at >= TIMESTAMP '" in databricks
    write_project("duckdb")
    assert done(run("generate", "--dialect", "databricks")).out == databricks, "whatever the project's engine is"
    assert "_landed_at" not in done(run("generate", "--dialect", "postgres")).out
    assert "purged%" not in applied()
    write_project(lateness="10d")
    done(run("apply"))
    assert "purged%" in applied(), "it leaves out late facts"


def test_facts_that_were_committed_too_late_are_told_once(run: CommandLine, spark_engine: SparkEngine) -> None:
    land(run, event(1))
    done(run("materialize"))
    done(run("apply"))
    view, commit = followed_by(orders()), DeltaTable(orders().raw.location).history(1)[0]["timestamp"]
    assert view is not None
    assert view.reads.since == commit * 1_000 - HOUR, "not before the view was made"
    land_stamped(event(2), at=now() - 2 * HOUR)
    land_stamped(event(3), at=now() - HOUR // 2)
    assert shown(spark_engine) == [(1,), (3,)], "its overlap is an hour"
    answer = run("materialize")
    assert answer.code == 1
    for part in ("until now its view lacked facts", "materialize: {overlap: …}", "now 1h", "Version"):
        assert part in answer.err, answer.err
    assert shown(spark_engine) == [(1,), (2,), (3,)]
    assert run.query(NAME, "--columns", "id", "--raw-only") == run.query(NAME, "--columns", "id")
    done(run("materialize"))
    write_project(overlap="3h")
    done(run("apply"))
    land_stamped(event(4), at=now() - 2 * HOUR)
    assert shown(spark_engine) == [(1,), (2,), (3,), (4,)]
    done(run("materialize"))


def test_a_kill_before_the_view_is_made_again_hides_nothing(
    run: CommandLine, spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(run, event(1))
    done(run("materialize"))
    done(run("apply"))
    before = followed_by(orders())
    land_stamped(event(2), at=now() - 2 * HOUR)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(materializing, "refresh_view", killed)
        with pytest.raises(KeyboardInterrupt):
            orders().materialize()
    assert followed_by(orders()) == before
    land(run, event(3), event(1, state="paid", at=5))
    assert shown(spark_engine, "id, state") == [(1, "paid"), (2, "open"), (3, "open")]
    answer = run("materialize")
    assert (answer.code, "until now its view lacked facts" in answer.err) == (1, True), "the killed run told nobody"
    after = followed_by(orders())
    assert before is not None
    assert after is not None
    assert (after.reads.since or 0) > (before.reads.since or 0)


def test_columns_and_fields_that_are_newer_than_the_state_are_shown(run: CommandLine, spark_engine: SparkEngine) -> None:
    land(run, *(event(number, street="a") for number in range(1, 5)))
    done(run("materialize"))
    done(run("apply"))
    write_schema(", town text", ", note text")
    land(run, event(2, at=10, street="b", town="c"), event(5, state="x"))
    done(run("apply"))
    assert "/state/" not in applied(), "Delta would show null for what the state's schema lacks"
    homes = [(1, ("a", None)), (2, ("b", "c")), (3, ("a", None)), (4, ("a", None)), (5, None)]
    assert [(id, home and tuple(home)) for id, home in shown(spark_engine, "id, home")] == homes
    done(run("materialize"))
    assert "/state/" in applied()
    assert [(id, home and tuple(home)) for id, home in shown(spark_engine, "id, home")] == homes
    land(run, event(3, at=10, street="d", town="e"))
    done(run("materialize"))
    homes[2] = (3, ("d", "e"))
    assert [(id, home and tuple(home)) for id, home in shown(spark_engine, "id, home")] == homes
    assert shown(spark_engine, "id, note") == [(id, None) for id, _ in homes]


def test_a_rebuilt_state_is_followed(run: CommandLine, spark_engine: SparkEngine) -> None:
    land(run, event(1))
    done(run("materialize"))
    done(run("apply"))
    views = [followed_by(orders())]
    for number in (2, 3):
        land(run, event(number))
        done(run("rebuild", NAME))
        assert f"/state/shop_orders/{number}`" in applied()
        views.append(followed_by(orders()))
    bounds = [one.reads.since or 0 for one in views if one]
    assert bounds == sorted({*bounds}), "each is later"
    assert len(bounds) == 3
    done(run("maintain"))
    land(run, event(4))
    assert shown(spark_engine) == [(1,), (2,), (3,), (4,)]
    done(run("rebuild", NAME, "--back"))
    assert "/state/shop_orders/2`" in applied()
    assert shown(spark_engine) == [(1,), (2,), (3,), (4,)]


def test_a_view_outlives_the_raw_facts_that_its_state_covers(run: CommandLine, spark_engine: SparkEngine) -> None:
    land(run, event(1))
    done(run("apply"))
    land_stamped(event(2), at=now() - 48 * HOUR)
    done(run("materialize"))
    done(run("maintain", "--drop-raw-older-than", "1d"))
    assert DeltaTable(orders().raw.location).to_pyarrow_dataset().count_rows() == 1
    assert shown(spark_engine) == [(1,), (2,)]
    done(run("apply"))
    land(run, event(3))
    assert shown(spark_engine) == [(1,), (2,), (3,)]
    write_schema("", ", note text")
    answer = run("apply")
    assert (answer.code, "landed before" in answer.err) == (2, True), "raw alone lacks what was dropped"


READER = """
import json, os, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for key, value in json.loads(os.environ["SETTINGS"]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
for statement in os.environ["VIEW"].split(";;"):
    session.sql(statement)
print(json.dumps(sorted(tuple(row) for row in session.sql("SELECT id, state FROM shop.orders").collect())))
assert not [name for name in sys.modules if name.startswith("cdc_views")]
"""


@pytest.mark.slow
def test_a_session_that_knows_only_delta_reads_it(run: CommandLine, tmp_path: Path) -> None:
    """The statement that was applied, in a process without our Python: it then shows what lands."""
    from cdc_views_spark.java import cache_folder, java_home
    from cdc_views_spark.session import delta_jars

    land(run, event(1), event(2))
    done(run("materialize"))
    done(run("apply"))
    land(run, event(2, state="paid", at=7), event(3))
    jars = os.pathsep.join(map(str, delta_jars()))
    settings = {
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "America/Los_Angeles",
        "spark.sql.warehouse.dir": str(tmp_path / "elsewhere"),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    view = f"CREATE DATABASE shop;;{applied()}"
    java = {"JAVA_HOME": str(java_home(cache_folder())), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environment = {**os.environ, **java, "SETTINGS": json.dumps(settings), "VIEW": view}
    command = [sys.executable, "-c", READER]
    answer = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert json.loads(answer.stdout.splitlines()[-1]) == [[1, "open"], [2, "paid"], [3, "open"]]
