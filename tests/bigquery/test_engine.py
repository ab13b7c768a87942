"""The engine against a server of the API whose SQL is GoogleSQL's reference implementation: calls and rows together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.bigquery_warehouses import WAREHOUSE, Served, load, project
from helpers.tiny_project import CQL, event

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.errors import EngineError, TransientError, UnsupportedError

if TYPE_CHECKING:
    Captured = pytest.CaptureFixture[str]

AS_OF = 1_800_000_000
RAW, VIEW = "my-project.shop_raw.shop_orders", "my-project.shop.orders"


def command(capsys: Captured, loaded: Project, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments, "--project", str(loaded.file)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def shown(loaded: Project, **asked: Any) -> list[dict[str, Any]]:
    return list(loaded.table("shop.orders").query(as_of=AS_OF, **asked).rows())


def test_apply_makes_what_a_query_then_reads(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url, location="EU", labels={"team": "shop"})
    code, out, _ = command(capsys, loaded, "apply", "--format", "jsonl")
    assert (code, json.loads(out)["state"]) == (0, "applied")
    table, view = server.store.things[RAW].resource, server.store.things[VIEW].resource
    assert (table["partitioned"], table["clustered"]) == (1, 2)
    assert table["labels"] == view["labels"] == {"team": "shop"}
    assert [field["description"] for field in view["schema"]["fields"]][:2] == ["int, partition key", "int, clustering key"]
    assert {server.store.datasets[name]["location"] for name in ("my-project.shop", "my-project.shop_raw")} == {"EU"}
    load(loaded.table("shop.orders"), [event(1), event(2, state="paid"), event(2, state="old", node="n2")])
    code, out, _ = command(capsys, loaded, "query", "shop.orders", "--format", "jsonl", "--where", "state = 'paid'")
    assert (code, json.loads(out)) == (0, {"id": 2, "line": 0, "state": "paid", "note": None})
    code, out, _ = command(capsys, loaded, "status", "--format", "jsonl")
    standing = json.loads(out)
    assert (standing["raw_rows"], standing["view_state"]) == (3, "current")


def test_apply_again_changes_nothing_and_a_new_column_is_added(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(1)])
    assert loaded.table("shop.orders").plan().change == "none"
    (tmp_path / "schema.cql").write_text(CQL.replace("note text", "note text, paid int"))
    planned = Project.load(loaded.file).table("shop.orders").plan()
    assert planned.change == "replace"
    assert f"+ {RAW}: paid STRUCT<written INT64, rank INT64, value INT64>" in planned.schema
    Project.load(loaded.file).table("shop.orders").apply()
    assert shown(Project.load(loaded.file)) == [{"id": 1, "line": 0, "state": "open", "note": None, "paid": None}]
    assert Project.load(loaded.file).table("shop.orders").plan().change == "none"


def test_a_raw_table_that_holds_something_else_is_refused(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    (tmp_path / "schema.cql").write_text(CQL.replace("note text", "note int"))
    table = Project.load(loaded.file).table("shop.orders")
    assert any(line.startswith(f"! {RAW}: note.value is STRING") for line in table.plan().schema)
    with pytest.raises(EngineError, match=r"note\.value is STRING, INT64 was expected"):
        table.apply()


def test_plan_before_anything_is_there_and_a_dry_run_change_nothing(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    for arguments in (("plan",), ("apply", "--dry-run")):
        code, out, _ = command(capsys, loaded, *arguments, "--format", "jsonl")
        planned = json.loads(out)
        assert (code, planned["change"], planned["money"]) == (0, "create", None)
        assert planned["schema"] == [f"+ {RAW} with 11 columns"]
    assert not server.store.things
    assert not server.store.datasets


def test_a_dry_run_says_bytes_and_money(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url, price_per_tib=1024 * 1024.0, currency="EUR", maximum_bytes_billed="1GiB")
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(n) for n in range(20)])
    for arguments in (("plan",), ("apply", "--dry-run")):
        code, out, _ = command(capsys, loaded, *arguments, "--format", "jsonl")
        planned = json.loads(out)
        assert code == 0
        assert planned["read_bytes"] == planned["raw_bytes"] > 0
        assert (planned["money"], planned["currency"], planned["most_bytes"]) == (10.0, "EUR", 1 << 30)  # 10 MiB is the least


def _use_everything(loaded: Project) -> None:
    table = loaded.table("shop.orders")
    table.apply()
    load(table, [event(1)])
    table.plan()
    shown(loaded)
    with loaded.remote() as engine:
        engine.rows(_any_plan(loaded), _all_of(loaded))


def _any_plan(loaded: Project) -> Any:
    from cdc_views.plan.build import Ask, build

    return build(Ask(loaded.table("shop.orders").relation, as_of=AS_OF))


def _all_of(loaded: Project) -> Any:
    from cdc_views.engines.base import Sources

    return Sources(loaded.table("shop.orders").raw, 0, is_raw=True)


def test_no_statement_goes_out_without_a_limit_of_bytes(server: Served, tmp_path: Path) -> None:
    _use_everything(project(tmp_path, server.url, maximum_bytes_billed="20MiB", labels={"team": "shop"}))
    sent = server.store.query_jobs
    assert len(sent) == 8
    assert {job["query"].get("maximumBytesBilled") for job in sent} == {str(20 << 20)}
    assert {json.dumps(job["labels"]) for job in sent} == {'{"tool": "cdc-views", "team": "shop"}'}
    kept = [job["configuration"] for job in server.store.jobs.values()]
    assert [job["labels"] for job in kept if "load" in job] == [{"tool": "cdc-views", "team": "shop"}]


def test_unless_the_project_file_says_so(server: Served, tmp_path: Path) -> None:
    _use_everything(project(tmp_path, server.url, maximum_bytes_billed="unlimited"))
    assert {job["query"].get("maximumBytesBilled") for job in server.store.query_jobs} == {None}


def test_a_read_beyond_the_limit_is_refused_with_the_job(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url, maximum_bytes_billed="1KB")
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(n) for n in range(50)])
    with pytest.raises(EngineError, match=r"bytesBilledLimitExceeded.*job my-project:US\.cdc_views_.*maximum_bytes_billed"):
        shown(loaded)


def test_an_error_names_the_job_and_no_value(server: Served, tmp_path: Path) -> None:
    from services.bigquery import Fault, Refused

    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    refused = Refused(400, "invalidQuery", "Bad int64 value: hunter2")
    server.store.faults.append(Fault("GET", r"/queries/", refused))
    with pytest.raises(EngineError) as caught:
        shown(loaded)
    assert "invalidQuery" in str(caught.value)
    assert "job my-project:US.cdc_views_" in str(caught.value)
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"


def test_what_a_running_query_says_of_values_is_kept_back(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(1, state="hunter2")])
    with loaded.remote() as engine, pytest.raises(EngineError, match="its words may quote rows") as caught:
        engine.connection.rows(f"SELECT CAST(state AS INT64) FROM `{VIEW}`", what="testing")  # type: ignore[attr-defined]
    assert "hunter2" not in str(caught.value)


def test_a_condition_that_cannot_be_evaluated_is_the_callers(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    code, _, err = command(capsys, loaded, "query", "shop.orders", "--where", "state > 3")
    assert code == 2
    assert "No matching signature" in err


def test_a_call_that_fails_for_a_moment_is_repeated(server: Served, tmp_path: Path) -> None:
    from services.bigquery import Fault, Refused

    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    server.store.faults.append(Fault("POST", r"/jobs$", Refused(503, "backendError", "later"), times=1))
    assert shown(loaded) == []
    server.store.faults.append(Fault("GET", r"/tables/", Refused(503, "backendError", "later"), times=99))
    with pytest.raises(TransientError):
        project(tmp_path, server.url, retry_for="1s").table("shop.orders").plan()


def test_what_is_not_there_says_what_to_do(server: Served, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"notFound: Not found: Table my-project\.shop_raw\.shop_orders.*cdc-views apply"):
        shown(project(tmp_path, server.url))


def test_views_may_read_raw_for_those_who_may_not(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    for _ in range(2):
        loaded.table("shop.orders").apply()
        granted = server.store.datasets["my-project.shop_raw"]["access"]
        assert granted == [{"view": {"projectId": "my-project", "datasetId": "shop", "tableId": "orders"}}]
    server.store.clear()
    project(tmp_path, server.url, authorize_views=False).table("shop.orders").apply()
    assert server.store.datasets["my-project.shop_raw"]["access"] == []


def test_a_raw_table_may_be_in_another_dataset(server: Served, tmp_path: Path) -> None:
    raw = {"format": "cassandra-mutation", "table": "other_dataset.orders"}
    loaded = project(tmp_path, server.url, tables=[{"name": "shop.orders", "schema": "schema.cql", "raw": raw}])
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(1)])
    assert len(server.store.sql.records("my-project.other_dataset.orders")) == len(shown(loaded)) == 1
    assert len(server.store.datasets["my-project.other_dataset"]["access"]) == 1
    assert "my-project.shop_raw" not in server.store.datasets


def test_the_table_function_reads_a_span_of_landings(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    table = loaded.table("shop.orders")
    table.apply()
    load(table, [event(1)], landed_at=1_000_000)
    load(table, [event(2)], landed_at=2_000_000)
    note = {"kind": "row", "clustering": {"line": 0}, "cells": [{"column": "note", "written": 9, "value": "late"}]}
    load(table, [event(1, rows=[note])], landed_at=8_000_000)
    call = "SELECT id, state FROM `{}`(TIMESTAMP '1970-01-01 00:00:0{}', TIMESTAMP '1970-01-01 00:00:0{}') ORDER BY id"
    with loaded.remote() as engine:
        function = f"{VIEW}_landed"
        answers = [
            [tuple(row.values()) for row in engine.connection.rows(call.format(function, *span), what="testing").to_pylist()]  # type: ignore[attr-defined]
            for span in ((0, 9), (0, 1), (2, 3), (3, 7), (3, 9))
        ]
        view = engine.connection.rows(f"SELECT id FROM `{VIEW}` ORDER BY id", what="testing")  # type: ignore[attr-defined]
    assert answers == [[(1, "open"), (2, "open")], [(1, "open")], [(2, "open")], [], [(1, None)]], "exact of keys within a span"
    assert view.column("id").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("history", "shop.orders"),
        ("rebuild", "shop.orders"),
        ("tail", "shop.orders", "--once"),
        ("report", "--out", "rep"),
        ("quarantine", "list"),
        ("quarantine", "show", "shop.orders"),
        ("quarantine", "discard", "shop.orders", "--all", "--reason", "none"),
        ("replicas", "shop.orders", "--replication-factor", "3"),
        ("forget", "shop.orders", "--key", '{"id": 1, "line": 0}'),
        ("maintain",),
        ("produce", "http", "--no-auth", "--port", "0"),
        ("produce", "kafka"),
        ("produce", "postgres"),
        ("produce", "mariadb"),
        ("produce", "mysql"),
        ("produce", "cassandra"),
        ("query", "shop.orders", "--engine", "duckdb"),
        ("query", "SELECT 1 AS a"),
        ("query", "shop.orders", "--confirmed"),
    ],
)
def test_what_works_on_delta_tables_alone_exits_2(
    server: Served, tmp_path: Path, capsys: Captured, arguments: tuple[str, ...]
) -> None:
    code, out, err = command(capsys, project(tmp_path, server.url), *arguments)
    assert (code, out) == (2, "")
    assert "bigquery" in err.lower()
    assert "Traceback" not in err
    assert not server.store.requests


def test_a_newer_layout_is_refused(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    loaded.table("shop.orders").apply()
    server.store.things[RAW].resource["description"] = "raw events (cdc-views, raw layout 99)"
    with pytest.raises(UnsupportedError, match="layout 99"):
        loaded.table("shop.orders").apply()


def test_the_warehouse_names_project_and_dataset(tmp_path: Path, capsys: Captured) -> None:
    project(tmp_path, "http://127.0.0.1:1")
    file = tmp_path / "cdc_views.yml"
    for was, now, expected in (
        (WAREHOUSE, "./warehouse", "a project and the dataset of the views were expected"),
        ('"retry_for": "5s"', '"maximum_bytes_billed": "lots"', "100GiB, or unlimited"),
        ('"retry_for": "5s"', '"labels": {"Team": "x"}', "lowercase"),
        ("http://127.0.0.1:1", "http://elsewhere.example", "of this machine only"),
        ('"engine": "bigquery"', '"engine": "duckdb"', "goes with engine bigquery"),
    ):
        before = file.read_text()
        file.write_text(before.replace(was, now))
        code = main(["status", "--project", str(file)])
        file.write_text(before)
        assert code == 2
        assert expected in capsys.readouterr().err


@pytest.mark.parametrize("cause", [None, "no credentials"])
def test_doctor_opens_the_warehouse_once_for_all_tables(
    server: Served, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, cause: str | None
) -> None:
    names = ["shop.orders", "other.orders"]
    tables = [{"name": one, "schema": f"{one}.cql", "raw": {"format": "cassandra-mutation"}} for one in names]
    loaded = project(tmp_path, server.url, tables=tables)
    for one in names:
        (tmp_path / f"{one}.cql").write_text(CQL.replace("shop.orders", one))
    loaded.table("shop.orders").apply()
    opened, real = list[str](), type(loaded.warehouse_plugin).open

    def counted(plugin: Any, config: Any, **asked: Any) -> Any:
        opened.append(config.warehouse)
        if cause:
            raise EngineError(cause)
        return real(plugin, config, **asked)

    monkeypatch.setattr(type(loaded.warehouse_plugin), "open", counted)
    code, out, _ = command(capsys, loaded, "doctor", "--format", "json")
    found = {row["what"]: (row["health"], row["found"]) for row in json.loads(out)}
    assert (code, opened) == (1 if cause else 0, [WAREHOUSE])
    assert found[f"warehouse {WAREHOUSE}"] == (("broken", cause) if cause else ("ok", "its tables are below"))
    told = [found.get(f"{name}: tables") for name in names]
    assert told == ([None, None] if cause else [("ok", "0 changes landed"), ("ok", "nothing has landed yet")])
