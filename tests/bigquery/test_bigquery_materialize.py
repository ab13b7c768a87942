"""`materialize` with `engine: bigquery`: scripts by the real client against the server, and what they leave there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.bigquery_warehouses import Served, load, project
from helpers.tiny_project import CQL, event

from cdc_views import Project
from cdc_views.cli import main

if TYPE_CHECKING:
    Captured = pytest.CaptureFixture[str]

AS_OF = 1_800_000_000
STATE = "my-project.shop_state.shop_orders"
LANDED = 1_795_000_000_000_000
MINUTE = 60_000_000


def command(capsys: Captured, loaded: Project, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    code = main([*arguments, "--project", str(loaded.file), "--format", "jsonl"])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


def tables(**materialize: Any) -> list[dict[str, Any]]:
    table = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    return [{**table, "materialize": materialize}]


def landed(folder: Path, url: str, *events: str, tables: list[dict[str, Any]] | None = None, **bigquery: Any) -> Project:
    """A project whose view is applied, and events in its raw table."""
    loaded = project(folder, url, tables=tables, **bigquery)
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), events, landed_at=LANDED)
    return loaded


def shown(loaded: Project, **asked: Any) -> list[tuple[Any, ...]]:
    found = Project.load(loaded.file).table("shop.orders").query(as_of=asked.pop("as_of", AS_OF), **asked)
    return [tuple(row.values()) for row in found.rows()]


def sources(server: Served) -> str:
    """The text of the last query."""
    return str(server.store.query_jobs[-1]["query"]["query"])


@pytest.mark.heavy
def test_state_and_tail_are_read_where_there_is_a_state(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = landed(tmp_path, server.url, event(1), event(2), event(2, state="old", node="n2"), tables=tables(serving=True))
    code, (told,), _ = command(capsys, loaded, "materialize")
    assert (code, told["is_new"], told["raw_version"], told["facts"], told["late"]) == (0, True, None, 3, 0)
    assert told["outcome"].startswith("state built from 3 raw facts about 2 keys, landed up to 2026-11-18 ")
    assert "serving table: 2 rows" in told["outcome"]
    load(loaded.table("shop.orders"), [event(3)], landed_at=LANDED + MINUTE)
    assert shown(loaded) == [(1, 0, "open", None), (2, 0, "open", None), (3, 0, "open", None)]
    assert f"`{STATE}__facts`" in sources(server)
    assert len(shown(loaded, raw_only=True)) == 3
    assert "`my-project.shop_raw.shop_orders`" in sources(server)
    assert len(server.store.sql.records("my-project.shop_state.shop_orders")) == 2, "the serving table waits for a run"
    code, (standing,), _ = command(capsys, loaded, "status")
    assert (standing["view_state"], standing["state"], standing["state_rows"]) == ("differs", f"{STATE}__state", 2)
    assert standing["state_landed"].startswith("2026-11-18T")
    assert command(capsys, loaded, "apply")[0] == 0
    view = str(server.store.things["my-project.shop.orders"].query)
    assert f"`{STATE}__facts`" in view
    assert len(server.store.evaluated(view)[1]) == 3, "the state's rows, and what landed since"
    assert command(capsys, loaded, "plan")[1][0]["change"] == "none"
    granted = server.store.datasets["my-project.shop_raw"]["access"]
    assert {entry["view"]["tableId"] for entry in granted} == {"orders", "shop_orders__facts"}
    code, (told,), _ = command(capsys, loaded, "materialize")
    assert (code, told["facts"]) == (0, 1)
    assert len(server.store.sql.records("my-project.shop_state.shop_orders")) == 3


@pytest.mark.slow
def test_every_job_of_a_run_has_labels_and_a_limit_of_bytes(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = landed(tmp_path, server.url, event(1), labels={"team": "shop"}, maximum_bytes_billed="20MiB", overlap="7h")
    before = len(server.store.query_jobs)
    assert command(capsys, loaded, "materialize")[0] == 0
    jobs = server.store.query_jobs[before:]
    assert len(jobs) == 3  # the dataset, the tables, the run
    assert {job["query"]["maximumBytesBilled"] for job in jobs} == {str(20 << 20)}
    assert {json.dumps(job["labels"]) for job in jobs} == {'{"tool": "cdc-views", "team": "shop"}'}
    assert jobs[-1]["query"]["scriptOptions"]["statementByteBudget"] == str(20 << 20)
    assert "INTERVAL 25200 SECOND" in jobs[-1]["query"]["query"], "the overlap of the project file"
    limited = landed(tmp_path, server.url, event(2), maximum_bytes_billed="10B")
    code, _, told = command(capsys, limited, "materialize")
    assert code == 3
    assert "bytesBilledLimitExceeded" in told


@pytest.mark.slow
def test_a_dry_run_says_what_a_run_would_read_and_changes_nothing(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = landed(tmp_path, server.url, event(1), event(2))
    before = set(server.store.things)
    code, (told,), _ = command(capsys, loaded, "materialize", "--dry-run")
    assert (code, told["facts"]) == (0, 2)
    assert told["outcome"].startswith("would build the state from at most 2 raw facts")
    assert f"; + {STATE}__state" in told["outcome"]
    assert set(server.store.things) == before
    command(capsys, loaded, "materialize")
    load(loaded.table("shop.orders"), [event(3)], landed_at=LANDED + MINUTE)
    code, (told,), _ = command(capsys, loaded, "materialize", "--dry-run")
    assert told["outcome"].startswith("would merge at most 1 raw facts")
    assert command(capsys, loaded, "materialize")[1][0]["facts"] == 1
    assert command(capsys, loaded, "materialize", "--dry-run", "--schedule")[0] == 2


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_and_the_next_makes_up_for_it(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = landed(tmp_path, server.url, event(1), tables=tables(serving=True))
    command(capsys, loaded, "materialize")
    load(loaded.table("shop.orders"), [event(2)], landed_at=LANDED + MINUTE)
    before = [server.store.sql.records(f"{STATE}{suffix}") for suffix in ("__state", "__watermark", "__seen", "")]
    server.store.kill_at = 16
    code, _, told = command(capsys, loaded, "materialize")
    assert (code, "job my-project:US.cdc_views_" in told) == (3, True)
    assert [server.store.sql.records(f"{STATE}{suffix}") for suffix in ("__state", "__watermark", "__seen", "")] == before
    assert len(shown(loaded)) == 2, "what landed is read from the tail"
    assert command(capsys, loaded, "materialize")[1][0]["facts"] == 1
    assert len(server.store.sql.records(STATE)) == 2
    code, (told,), _ = command(capsys, loaded, "materialize")
    assert (code, told["facts"], "state is up to date" in told["outcome"]) == (0, 0, True)


@pytest.mark.slow
def test_a_run_that_loses_against_another_is_tried_again(server: Served, tmp_path: Path, capsys: Captured) -> None:
    from services.bigquery import Fault, Refused

    words = "Transaction is aborted due to concurrent update against table p:d.t. Transaction ID: 1"
    loaded = landed(tmp_path, server.url, event(1))
    command(capsys, loaded, "materialize")
    load(loaded.table("shop.orders"), [event(2)], landed_at=LANDED + MINUTE)
    server.store.faults.append(Fault("POST", r"/jobs$", Refused(400, "invalidQuery", words), times=2))
    assert command(capsys, loaded, "materialize")[:2][1][0]["facts"] == 1
    server.store.faults.append(Fault("POST", r"/jobs$", Refused(400, "invalidQuery", words), times=99))
    code, _, told = command(capsys, loaded, "materialize")
    assert (code, "other runs kept changing its state first" in told) == (3, True)


@pytest.mark.slow
def test_a_column_that_the_schema_gained_is_added_to_what_is_there(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = landed(tmp_path, server.url, event(1), tables=tables(serving=True))
    command(capsys, loaded, "materialize")
    (tmp_path / "schema.cql").write_text(CQL.replace("note text", "note text, paid int"))
    Project.load(loaded.file).table("shop.orders").apply()
    assert shown(loaded) == [(1, 0, "open", None, None)]
    assert f"`{STATE}__facts`" not in sources(server), "a state without the column is not read"
    cell = {"column": "paid", "written": 5, "value": 7}
    row = {"kind": "row", "clustering": {"line": 0}, "cells": [cell]}
    load(Project.load(loaded.file).table("shop.orders"), [event(1, rows=[row])], landed_at=LANDED + MINUTE)
    code, (told,), _ = command(capsys, loaded, "materialize")
    assert (code, told["facts"], "built" in told["outcome"]) == (0, 1, False)
    assert f"+ {STATE}__state: paid STRUCT" in told["outcome"]
    assert shown(loaded) == [(1, 0, "open", None, 7)]
    assert f"`{STATE}__facts`" in sources(server)
    assert server.store.sql.records(STATE)[0]["paid"] == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (CQL.replace("note text", "note int"), "note.value is STRING, INT64 was expected"),
        (CQL.replace("(id, line)", "((id, line))"), "was made for another key"),
    ],
    ids=["type", "key"],
)
def test_what_a_state_cannot_follow_is_refused(
    server: Served, tmp_path: Path, capsys: Captured, schema: str, expected: str
) -> None:
    loaded = landed(tmp_path, server.url, event(1))
    command(capsys, loaded, "materialize")
    before = server.store.sql.records(f"{STATE}__state")
    (tmp_path / "schema.cql").write_text(schema)
    code, _, told = command(capsys, loaded, "materialize")
    assert code in (2, 3)
    assert expected in told
    assert server.store.sql.records(f"{STATE}__state") == before


@pytest.mark.slow
def test_a_serving_table_of_other_types_is_made_anew_where_asked_for(server: Served, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "first").mkdir()
    cql = CQL.replace("note text", "note decimal")
    loaded = landed(tmp_path, server.url, tables=tables(serving=True))
    (tmp_path / "schema.cql").write_text(cql)
    server.store.clear()
    loaded = Project.load(loaded.file)
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(1)], landed_at=LANDED)
    assert command(capsys, loaded, "materialize")[0] == 0
    changed = json.loads(loaded.file.read_text())
    changed["tables"][0]["columns"] = {"note": "decimal(18,2)"}
    loaded.file.write_text(json.dumps(changed))
    code, _, told = command(capsys, loaded, "materialize")
    assert code == 2
    assert "--full" in told
    code, (done,), _ = command(capsys, loaded, "materialize", "--full")
    assert code == 0
    assert f"! {STATE} is made anew" in done["outcome"]
    assert len(server.store.sql.records(STATE)) == 1


@pytest.mark.slow
def test_what_landed_too_late_is_told_listed_and_never_shown(server: Served, tmp_path: Path, capsys: Captured) -> None:
    ended = 1_700_000_000

    def deleted(written: int) -> str:
        deletion = {"written": written, "deleted_at": ended}
        return event(1, rows=[{"kind": "row", "clustering": {"line": 0}, "deletion": deletion}])

    loaded = landed(tmp_path, server.url, event(1), deleted(100), tables=tables(lateness="1s"))
    assert command(capsys, loaded, "materialize")[0] == 0
    load(loaded.table("shop.orders"), [event(1, rows=[written(50)]), event(2)], landed_at=LANDED + MINUTE)
    assert shown(loaded) == [(2, 0, "open", None)]
    code, (told,), said = command(capsys, loaded, "materialize")
    assert (code, told["facts"], told["late"]) == (1, 2, 1)
    assert "`cdc-views late shop.orders` lists them" in said
    assert shown(loaded) == [(2, 0, "open", None)]
    code, parts, _ = command(capsys, loaded, "late", "shop.orders")
    assert [(part["what"], part["written"], part["purged_through"]) for part in parts] == [("cell", 50, 100)]
    assert len(shown(loaded, as_of=ended - 1)) == len(shown(loaded, raw_only=True, as_of=ended - 1)), "an older clock reads raw"
    assert command(capsys, loaded, "materialize", "--full")[0] == 0
    assert shown(loaded) == [(2, 0, "open", None)]
    changed = json.loads(loaded.file.read_text())
    del changed["tables"][0]["materialize"]
    loaded.file.write_text(json.dumps(changed))
    code, _, said = command(capsys, loaded, "materialize")
    assert (code, "has forgotten what ended before" in said) == (2, True)


def written(at: int) -> dict[str, Any]:
    """A row with one cell of that write time, older than the row's deletion."""
    return {"kind": "row", "clustering": {"line": 0}, "cells": [{"column": "state", "written": at, "value": "risen"}]}


def test_before_anything_can_have_landed_it_says_so(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    code, _, told = command(capsys, loaded, "materialize")
    assert code == 2
    assert "there is no raw table my-project.shop_raw.shop_orders" in told


def test_jobs_of_a_schedule_have_their_locks_beside_the_project_file(tmp_path: Path) -> None:
    from cdc_views.operations.scheduling import job_of

    loaded = project(tmp_path, "http://127.0.0.1:1", tables=tables(schedule="*/15 * * * *"))
    job = job_of(loaded.table("shop.orders"))
    assert job.cron is not None
    assert job.folder == tmp_path / ".cdc-views" / "locks" / "shop_orders"
