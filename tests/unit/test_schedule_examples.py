"""The example files for orchestrators, run against stand-ins that record what they are called with."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from helpers.tiny_project import CQL, make_project

from cdc_views.errors import TableLockedError
from cdc_views.operations.scheduling import holding, job_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SCHEDULE = {"schedule": "*/15 * * * *"}
BOTH = [("shop.orders", False, None), ("shop.items", False, None)]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, str | None]]:
    """A project of two scheduled tables and another one; the (table, full, engine) of each run asked for, under its lock."""
    project = json.loads(make_project(tmp_path, materialize=SCHEDULE).read_text())
    (orders,) = project["tables"]
    items = {"name": "shop.items", "materialize": {"schedule": "0 4 * * *"}}
    project["tables"] += [orders | items, orders | {"name": "shop.others", "materialize": {}}]
    (tmp_path / "schema.cql").write_text("".join(CQL.replace("orders", name) for name in ("orders", "items", "others")))
    (tmp_path / "cdc_views.yml").write_text(json.dumps(project))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDC_VIEWS_PROJECT", raising=False)
    found: list[tuple[str, bool, str | None]] = []

    def materialize(table: Any, *, full: bool = False, engine: str | None = None) -> SimpleNamespace:
        with pytest.raises(TableLockedError), holding(job_of(table).folder, table=table.name):
            pass
        found.append((table.name, full, engine))
        return SimpleNamespace(is_new=True, raw_version=1, facts=1, line=lambda: "done")

    monkeypatch.setattr("cdc_views.api.Table.materialize", materialize, raising=False)
    return found


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def test_the_airflow_file_makes_a_dag_with_a_task_for_each_scheduled_table(
    monkeypatch: pytest.MonkeyPatch, runs: list[tuple[str, bool, str | None]]
) -> None:
    dags: list[dict[str, Any]] = []
    called: list[str] = []

    class Dag:
        def __init__(self, **settings: Any) -> None:
            dags.append(settings)

        def __enter__(self) -> Dag:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def task(**settings: Any) -> Any:
        assert settings["retries"] == 2
        return lambda function: lambda name: called.append(function(name))

    stand_in(monkeypatch, "airflow")
    stand_in(monkeypatch, "airflow.sdk", DAG=Dag, task=task)
    runpy.run_path(str(EXAMPLES / "airflow_dag.py"))
    assert [(dag["dag_id"], dag["schedule"], dag["catchup"], dag["max_active_runs"]) for dag in dags] == [
        ("materialize.shop.orders", "*/15 * * * *", False, 1),
        ("materialize.shop.items", "0 4 * * *", False, 1),
    ]
    assert dags[0]["start_date"].tzinfo is not None
    assert (called, runs) == (["done", "done"], BOTH)


def test_the_dagster_file_makes_a_job_and_a_schedule_for_each_scheduled_table(
    monkeypatch: pytest.MonkeyPatch, runs: list[tuple[str, bool, str | None]]
) -> None:
    lines: list[str] = []
    context = SimpleNamespace(log=SimpleNamespace(info=lines.append))
    stand_in(
        monkeypatch,
        "dagster",
        op=lambda **settings: lambda function: lambda: function(context),
        job=lambda name: lambda function: (name, function),
        RetryPolicy=SimpleNamespace,
        OpExecutionContext=object,
        ScheduleDefinition=lambda **settings: settings,
        Definitions=lambda schedules: schedules,
    )
    schedules = runpy.run_path(str(EXAMPLES / "dagster_job.py"))["defs"]
    assert [(one["job"][0], one["cron_schedule"], one["execution_timezone"]) for one in schedules] == [
        ("materialize_shop_orders", "*/15 * * * *", "UTC"),
        ("materialize_shop_items", "0 4 * * *", "UTC"),
    ]
    for schedule in schedules:
        schedule["job"][1]()
    assert (lines, runs) == (["done", "done"], BOTH)


def test_tables_without_a_schedule_are_left_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_project(tmp_path)
    stand_in(monkeypatch, "dagster", Definitions=lambda schedules: schedules, ScheduleDefinition=object)
    assert runpy.run_path(str(EXAMPLES / "dagster_job.py"))["defs"] == []
    stand_in(monkeypatch, "airflow")
    stand_in(monkeypatch, "airflow.sdk", DAG=None, task=lambda **_: lambda function: function)
    runpy.run_path(str(EXAMPLES / "airflow_dag.py"))  # a call of `DAG` would fail


def test_the_spark_job_runs_the_tables_it_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs: list[tuple[str, bool, str | None]]
) -> None:
    opened: list[str] = []
    builder = SimpleNamespace(getOrCreate=lambda: opened.append("session"))
    stand_in(monkeypatch, "pyspark.sql", SparkSession=SimpleNamespace(builder=builder))
    monkeypatch.setattr(sys, "argv", ["materialize.py", "--table", "shop.orders", "--full"])
    runpy.run_path(str(ROOT / "spark" / "jobs" / "materialize.py"), run_name="__main__")
    assert (opened, runs, capsys.readouterr().out) == (["session"], [("shop.orders", True, "spark")], "shop.orders: done\n")
