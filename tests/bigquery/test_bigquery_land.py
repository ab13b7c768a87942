"""`land` and `replay` with `engine: bigquery`: each event once, whatever is killed, repeated, cut short or lands at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.bigquery_warehouses import Served, project
from helpers.tiny_project import CQL, NOW, append_lines, event, write_lines

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.landing.denylist import Denylist, ErasedKey, add

if TYPE_CHECKING:
    Captured = pytest.CaptureFixture[str]

RAW = "my-project.shop_raw.shop_orders"


def command(capsys: Captured, loaded: Project, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    code = main([*arguments, "--project", str(loaded.file), "--format", "jsonl"])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


def land(capsys: Captured, loaded: Project, *files: Path) -> tuple[int, list[dict[str, Any]], str]:
    return command(capsys, loaded, "land", "cassandra-mutation", *map(str, files), "--table", "shop.orders")


def ids(server: Served) -> list[int]:
    return sorted(row["id"] for row in server.store.sql.records(RAW))


def test_a_file_lands_once_and_what_it_grew_by_next(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    file = write_lines(tmp_path / "a.jsonl", event(1), "{no json", event(2))
    code, (told,), said = land(capsys, loaded, file)
    assert (code, told["events"], told["facts"], told["quarantined"]) == (1, 2, 2, 1)
    assert "a.jsonl:2:" in said
    assert f"{RAW}__quarantine" in said
    (bad,) = server.store.sql.records(f"{RAW}__quarantine")
    assert (bad["line"], bad["event"], bad["table"], bad["replay"]) == (2, b"{no json", "shop.orders", None)
    append_lines(file, event(3))
    moved, earlier = file.rename(tmp_path / "b.jsonl"), set(server.store.jobs)
    code, (told,), _ = land(capsys, loaded, moved)
    assert (code, told["events"], told["quarantined"], told["skipped_bytes"] > 0) == (0, 1, 0, True)
    ran = [job["configuration"] for name, job in server.store.jobs.items() if name not in earlier]
    adds = [one for one in ran if "query" in one and f"INSERT INTO `{RAW}`" in one["query"]["query"]]
    assert (sum("load" in one for one in ran), len(adds)) == (1, 1)
    code, (told,), _ = land(capsys, loaded, moved)
    assert (code, told["events"], told["landed_bytes"]) == (0, 0, 0)
    assert ids(server) == [1, 2, 3]
    assert [row["id"] for row in loaded.table("shop.orders").query().rows()] == [1, 2, 3]
    assert not [name for name in server.store.things if "__incoming_" in name]


@pytest.mark.slow
def test_a_landing_that_is_killed_lands_nothing_and_the_next_all(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    first, second = write_lines(tmp_path / "a.jsonl", event(1)), write_lines(tmp_path / "b.jsonl", event(2), "bad")
    assert land(capsys, loaded, first)[0] == 0
    marks = server.store.sql.records(f"{RAW}__marks")
    for statement in range(8):  # the last is COMMIT
        server.store.kill_at = statement
        assert land(capsys, loaded, second)[0] == 3
        assert (ids(server), server.store.sql.records(f"{RAW}__marks")) == ([1], marks)
        assert not server.store.sql.records(f"{RAW}__quarantine")
    assert land(capsys, loaded, second)[0] == 1
    assert ids(server) == [1, 2]


@pytest.mark.slow
def test_an_answer_that_is_lost_makes_no_second_copy(server: Served, tmp_path: Path, capsys: Captured) -> None:
    from services.bigquery import Refused

    loaded = project(tmp_path, server.url, retry_for="1s")
    file = write_lines(tmp_path / "a.jsonl", event(1))
    loaded.table("shop.orders").apply()
    land(capsys, loaded, write_lines(tmp_path / "b.jsonl", event(2)))
    lost = server.store.run

    def answer_is_lost(name: str, body: dict[str, Any]) -> Any:
        done = lost(name, body)
        if "COMMIT TRANSACTION" in body["configuration"].get("query", {}).get("query", ""):
            raise Refused(400, "invalid", "the answer is lost")
        return done

    server.store.run = answer_is_lost  # type: ignore[method-assign]
    try:
        assert land(capsys, loaded, file)[0] == 3
    finally:
        del server.store.run  # type: ignore[method-assign]
    assert ids(server) == [1, 2]
    assert land(capsys, loaded, file)[1][0]["events"] == 0
    assert ids(server) == [1, 2]


@pytest.mark.slow
def test_two_landings_of_one_file_at_once_land_it_once(server: Served, tmp_path: Path) -> None:
    loaded = project(tmp_path, server.url)
    file = write_lines(tmp_path / "a.jsonl", *map(event, range(5)))
    loaded.table("shop.orders").land(write_lines(tmp_path / "first.jsonl", event(9)))

    def land_it(_: int) -> int:
        return Project.load(loaded.file).table("shop.orders").land(file).events

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(land_it, range(2))) == [0, 5]
    assert ids(server) == [0, 1, 2, 3, 4, 9]


@pytest.mark.slow
def test_an_event_cut_short_lands_whole_once_the_file_has_grown(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    file = tmp_path / "a.jsonl"
    whole = event(2).encode()
    file.write_bytes(event(1).encode() + b"\n" + whole[:40])
    code, (told,), _ = land(capsys, loaded, file)
    assert (code, told["events"], told["quarantined"]) == (1, 1, 1)
    code, (told,), _ = land(capsys, loaded, file)
    assert (code, told["events"], told["quarantined"]) == (0, 0, 0)
    file.write_bytes(event(1).encode() + b"\n" + whole + b"\n")
    code, (told,), _ = land(capsys, loaded, file)
    assert (code, told["events"]) == (0, 1)
    assert ids(server) == [1, 2]
    (fragment,) = server.store.sql.records(f"{RAW}__quarantine")
    assert fragment["replay"] == 0
    assert command(capsys, loaded, "replay", "shop.orders")[1][0]["waiting"] == 0


def test_older_events_of_forgotten_keys_do_not_land(
    server: Served, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = project(tmp_path, server.url)
    orders, file = loaded.table("shop.orders"), tmp_path / "forgotten.jsonl"
    row = {"kind": "row", "clustering": {"line": 0}, "cells": [{"column": "paid", "written": 5, "value": 7}]}
    assert land(capsys, loaded, write_lines(tmp_path / "a.jsonl", event(1, rows=[row]), event(3)))[1][0]["quarantined"] == 1
    for number in (1, 2):
        add(file, ErasedKey.parse(orders.schema, {"id": number}), forgotten=NOW * 1_000_000, through=None)
    monkeypatch.setattr("cdc_views.operations.ingest.forgotten_of", lambda table: Denylist.read(file))
    _, (told,), _ = land(capsys, loaded, write_lines(tmp_path / "b.jsonl", event(2), event(4)))
    assert (told["events"], told["quarantined"]) == (1, 0)
    (kept,) = [row for row in server.store.sql.records(f"{RAW}__quarantine") if row["source"].endswith("b.jsonl")]
    assert (kept["event"], kept["replay"]) == (b"", 0)
    (tmp_path / "schema.cql").write_text(CQL.replace("note text", "note text, paid int"))
    assert command(capsys, loaded, "replay", "shop.orders")[1][0]["events"] == 0
    assert ids(server) == [3, 4]


@pytest.mark.slow
def test_replay_lands_what_decodes_now(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    cell = {"column": "paid", "written": 5, "value": 7}
    row = {"kind": "row", "clustering": {"line": 0}, "cells": [cell]}
    file = write_lines(tmp_path / "a.jsonl", event(1), event(2, rows=[row]), "never")
    assert land(capsys, loaded, file)[1][0]["quarantined"] == 2
    code, (told,), _ = command(capsys, loaded, "replay", "shop.orders")
    assert (code, told["events"], told["waiting"]) == (1, 0, 2)
    (tmp_path / "schema.cql").write_text(CQL.replace("note text", "note text, paid int"))
    for statement in range(2, 6):
        server.store.kill_at = statement
        assert command(capsys, loaded, "replay", "shop.orders")[0] == 3
        assert (ids(server), {row["replay"] for row in server.store.sql.records(f"{RAW}__quarantine")}) == ([1], {None})
    code, (told,), _ = command(capsys, loaded, "replay", "shop.orders")
    assert (code, told["events"], told["facts"], told["waiting"]) == (1, 1, 1, 1)
    assert command(capsys, loaded, "replay", "shop.orders")[1][0]["events"] == 0
    assert ids(server) == [1, 2]
    assert [row["replay"] for row in server.store.sql.records(f"{RAW}__quarantine")] == [1, None]


def test_an_event_with_null_in_an_array_goes_to_quarantine(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    (tmp_path / "schema.cql").write_text(CQL.replace("note text", "note frozen<list<int>>"))
    rows = [{"kind": "row", "clustering": {"line": 0}, "cells": [{"column": "note", "written": 5, "value": [7, ""]}]}]
    code, (told,), said = land(capsys, loaded, write_lines(tmp_path / "a.jsonl", event(1), event(2, rows=rows)))
    assert (code, told["events"], told["quarantined"], ids(server)) == (1, 1, 1, [1])
    assert "note holds null in an array, which BigQuery cannot keep" in said


def test_a_file_that_is_not_there_and_a_table_of_others_are_refused(server: Served, tmp_path: Path, capsys: Captured) -> None:
    loaded = project(tmp_path, server.url)
    code, _, told = land(capsys, loaded, tmp_path / "none.jsonl")
    assert (code, "no such file" in told, server.store.things) == (2, True, {})
