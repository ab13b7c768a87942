"""`rebuild` and `maintain` through the command line: compare, switch, switch back; nothing that is read is removed."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.command_line import CommandLine, table, write_project
from helpers.comparing import raw_location
from helpers.corrupting import silently
from helpers.delta_rows import shown
from helpers.state_sizes import set_sizes

from cdc_views.engines.state_plan import digest, digits_in, part_in
from cdc_views.landing.delta import append
from cdc_views.operations import answers
from cdc_views.storage.delta_log import DRAFT
from cdc_views.storage.table_log import TableLog

pytestmark = pytest.mark.heavy

NAME = "shop.orders"
CQL = "CREATE TABLE shop.orders (id int, line int, state text, note text, PRIMARY KEY (id, line));\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A table with twenty rows, a state, and two rows since."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL)
    write_project(table(NAME, "schema.cql", "cassandra-mutation"))
    line = CommandLine(capsys)
    line.land(NAME, *(mutation(n) for n in range(20)), format="cassandra-mutation", file="1.jsonl")
    assert line("materialize").code == 0
    line.land(NAME, *(mutation(n) for n in range(19, 22)), format="cassandra-mutation", file="2.jsonl")
    return line


def mutation(number: int, *, state: str = "open", written: int = 1, extra: dict[str, object] | None = None) -> str:
    cells = [{"column": "state", "written": written, "value": state}, *([extra] if extra else [])]
    row = {"kind": "row", "clustering": {"line": number}, "liveness": {"written": 1}, "cells": cells}
    event = {"format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": number, "keyspace": "shop"}
    return json.dumps({**event, "table": "orders", "partition": {"id": number % 5}, "rows": [row]})


def land(run: CommandLine, *lines: str, file: str) -> None:
    """Land events; none may be bad."""
    answer = run.land(NAME, *lines, format="cassandra-mutation", file=file)
    assert answer.code == 0, answer.err


def difference(id: int, line: int, column: str, before: str, after: str) -> dict[str, str]:
    """One line of `rebuild`."""
    return {"key": f'{{"id": {id}, "line": {line}}}', "column": column, "before": before, "after": after}


def current() -> DeltaTable:
    """The state that is read."""
    (root,) = Path("warehouse/state").iterdir()
    number = (root / "current").read_text().strip() if (root / "current").exists() else "1"
    return DeltaTable(str(root / number))


def test_an_equal_state_is_switched_to_and_back(run: CommandLine) -> None:
    before = run.query(NAME)
    assert run("rebuild", NAME, "--dry-run").code == 0
    assert current().table_uri.rstrip("/").endswith("/1")
    done = run("rebuild", NAME, "--format", "jsonl")
    assert (done.code, done.rows) == (0, [])
    assert "22 rows equal, 0 changed, 0 gone, 0 new" in done.err
    assert current().table_uri.rstrip("/").endswith("/2")
    assert run.query(NAME) == before
    assert run("rebuild", NAME, "--back").code == 0
    assert current().table_uri.rstrip("/").endswith("/1")
    assert run.query(NAME) == before
    again = run("rebuild", NAME, "--back")
    assert (again.code, "no generation before 1" in again.err) == (2, True)


def test_a_damaged_state_is_shown_cell_by_cell_and_replaced_when_accepted(run: CommandLine) -> None:
    tampered = shown(current(), where="line = 3")
    row = tampered.to_pylist()[0]
    row["state"]["value"] = "paid"
    right = run.query(NAME, "--raw-only")
    current().delete("line IN (3, 7)")
    write_deltalake(current(), pa.Table.from_pylist([row], schema=tampered.schema), mode="append")
    assert "is not as it was left" in run("query", NAME).err
    done = run("rebuild", NAME, "--format", "jsonl")
    assert done.code == 1
    assert done.rows == [
        difference(2, 7, "", "", '{"id": 2, "line": 7, "state": "open", "note": null}'),
        difference(3, 3, "state", '"paid"', '"open"'),
    ]
    assert run("query", NAME).code == 3, "rows differ, so nobody switched"
    assert run("rebuild", NAME, "--dry-run").code == 1
    accepted = run("rebuild", NAME, "--accept")
    assert accepted.code == 0
    assert run.query(NAME) == right


def test_a_query_of_one_partition_reads_its_bucket_alone(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, bucket_bytes=1, most_small_digits=5)
    assert run("materialize", "--full").code == 0
    before = run.query(NAME, "--where", "id = 3")
    assert {row["id"] for row in before} == {3}
    for file in map(str, current().file_uris()):
        if not digest("3").startswith(digits_in(part_in(file))):
            Path(file.removeprefix("file://")).unlink()
    assert run.query(NAME, "--where", "id = 3") == before
    assert run("query", NAME).code == 3, "others are gone"


def test_where_too_many_rows_differ_rebuild_says_how_many_it_did_not_compare(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    current().delete("line IN (3, 7)")
    monkeypatch.setattr(answers, "MOST_COMPARED", 0)
    done = run("rebuild", NAME, "--format", "jsonl")
    assert (done.code, done.rows) == (1, [])
    assert "22 rows more are near others that differ and were not compared" in done.err
    assert "the state stays generation 1" in done.err
    assert run("rebuild", NAME, "--accept").code == 0


@pytest.mark.slow
def test_a_column_added_widened_and_dropped_needs_no_restart(run: CommandLine) -> None:
    Path("schema.cql").write_text(CQL.replace("note text", "note text, amount int"))
    land(run, mutation(30, extra={"column": "amount", "written": 5, "value": 7}), file="3.jsonl")
    for _ in range(2):
        rows = run.query(NAME)
        assert rows == run.query(NAME, "--raw-only")
        assert {row["line"]: row["amount"] for row in rows}[30] == 7
        assert run("materialize").code == 0
    Path("schema.cql").write_text(CQL.replace("note text,", ""))
    land(run, mutation(31), file="4.jsonl")
    for _ in range(2):
        assert run.query(NAME) == run.query(NAME, "--raw-only")
        assert run("materialize").code == 0
    dropped = CQL.replace("note text", "note text, amount int") + (
        "ALTER TABLE shop.orders DROP amount USING TIMESTAMP 5;\nALTER TABLE shop.orders ADD amount int;\n"
    )
    Path("schema.cql").write_text(dropped)
    land(run, mutation(32, extra={"column": "amount", "written": 6, "value": 8}), file="5.jsonl")
    for _ in range(2):
        rows = run.query(NAME)
        assert rows == run.query(NAME, "--raw-only")
        amounts = {row["line"]: row["amount"] for row in rows}
        assert (amounts[30], amounts[32]) == (None, 8), "written before the drop, and after it (rule W6)"
        assert run("materialize").code == 0
    assert run("materialize", "--full").code == 0
    for time_of_drop, shown_amounts in ((6, (None, None)), (4, (7, 8))):
        Path("schema.cql").write_text(dropped.replace("TIMESTAMP 5", f"TIMESTAMP {time_of_drop}"))
        rows = run.query(NAME)
        assert rows == run.query(NAME, "--raw-only")
        amounts = {row["line"]: row["amount"] for row in rows}
        assert (amounts[30], amounts[32]) == shown_amounts, "the state still has what another drop time hides"


def test_maintain_removes_only_what_nothing_reads(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(40, 44):
        run.land(NAME, mutation(n), format="cassandra-mutation", file=f"{n}.jsonl")
        assert run("materialize").code == 0
    for _ in range(2):
        assert run("rebuild", NAME).code == 0
    before, files = run.query(NAME), set(Path("warehouse").rglob("*.parquet"))
    planned = run("maintain", "--dry-run", "--format", "jsonl")
    assert planned.code == 0
    assert files == set(Path("warehouse").rglob("*.parquet")), "a dry run changes nothing"
    done = run("maintain", "--format", "jsonl")
    assert done.code == 0
    by_what = {row["what"]: row for row in done.rows}
    assert by_what["raw"]["merged"] == 6, "the files of six landings became one"
    assert by_what["old generation"]["removed"] > 0
    assert [row["what"] for row in planned.rows] == [row["what"] for row in done.rows]
    assert run.query(NAME) == before == run.query(NAME, "--raw-only")
    (root,) = Path("warehouse/state").iterdir()
    assert {path.name for path in root.iterdir()} == {"2", "3", "current"}
    assert run("rebuild", NAME, "--back").code == 0, "the generation before is kept"
    assert run.query(NAME) == before
    assert {row["log_entries"] for row in run("maintain", "--format", "jsonl").rows} == {0}, "entries are young"
    assert run("maintain", "--retention-hours", "0").code == 2


@pytest.mark.parametrize(("hours", "more"), [(167, ()), (169, ()), (169, ("--retention-hours", "170"))])
def test_maintain_merges_the_quarantine_and_removes_what_was_replaced_a_week_ago(
    run: CommandLine, hours: int, more: tuple[str, ...]
) -> None:
    for n in range(6):
        assert run.land(NAME, mutation(50 + n), '{"no": "event"}', format="cassandra-mutation", file=f"{n}.bad.jsonl").code == 1
    raw = Path(raw_location(NAME))
    replaced = set(raw.glob("*.parquet"))
    DeltaTable(str(raw)).optimize.compact()
    (entry,) = (path for path in raw.glob("_delta_log/*.json") if '"remove"' in path.read_text("utf-8"))
    then = int((time.time() - hours * 3600) * 1000)
    entry.write_text(re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{then}', entry.read_text("utf-8")), "utf-8")
    before = run.query(NAME)
    done = {row["what"]: row for row in run("maintain", "--format", "jsonl", *more).rows}
    assert done["quarantine"]["merged"] == 6
    assert (done["raw"]["removed"], replaced & set(raw.glob("*.parquet"))) == (
        (len(replaced), set()) if hours > 168 and not more else (0, replaced)
    )
    assert run.query(NAME) == before == run.query(NAME, "--raw-only")


def test_a_state_keeps_rows_that_were_deleted_or_have_expired(run: CommandLine) -> None:
    event = json.loads(mutation(60))
    gone = {"kind": "row", "clustering": {"line": 60}, "deletion": {"written": 2, "deleted_at": 1}}
    old = {"kind": "row", "clustering": {"line": 61}, "liveness": {"written": 1, "ttl": 60, "expires_at": 1_000}}
    land(run, json.dumps(event | {"rows": [*event["rows"], gone, old]}), file="60.jsonl")
    assert run("materialize").code == 0
    kept = shown(current(), where="_kind = 'row'").column("line").to_pylist()
    assert {60, 61} <= set(kept), "other readers see them"
    assert not {60, 61} & {row["line"] for row in run.query(NAME)}


def test_maintain_removes_what_old_vectors_left(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, at_once_share=0, merge_share=0, rebase_share=100, worn_share=2)
    for n in range(3):
        land(run, mutation(n, state="paid", written=7 + n), file=f"{n}.paid.jsonl")
        assert run("materialize").code == 0
        assert run.query(NAME)
    state = Path(current().table_uri.removeprefix("file://"))
    draft = state / f"{DRAFT}of a killed run" / "_part=rows" / "part.parquet"
    draft.parent.mkdir(parents=True)
    draft.touch()
    before, count = run.query(NAME), len([*state.glob("deletion_vector_*.bin")])
    assert run("maintain").code == 0
    assert (len([*state.glob("deletion_vector_*.bin")]), draft.exists()) == (count, True), "they are young"
    for path in (*state.glob("deletion_vector_*.bin"), *state.glob("_bits/*"), draft):
        os.utime(path, (1, 1))
    assert run("maintain").code == 0
    used = {file.deleted.file for file in TableLog.open(state, version=current().version()).files if file.deleted is not None}
    assert {path.name for path in state.glob("deletion_vector_*.bin")} == used
    assert (1 <= len(used) < count, draft.exists(), len([*state.glob("_bits/*")])) == (True, False, 1)
    assert run.query(NAME) == before == run.query(NAME, "--raw-only")


def commits(folder: str, *, many: int) -> None:
    """Commits without rows, and a log that is old."""
    raw = DeltaTable(folder)
    nothing = pa.schema(raw.schema().to_arrow()).empty_table()
    for number in range(many):
        append(raw, nothing, transactions={"x": number})
    for entry in Path(folder, "_delta_log").iterdir():
        os.utime(entry, (1, 1))


@pytest.mark.slow
def test_a_log_is_trimmed_but_for_what_the_state_has_not_covered(run: CommandLine) -> None:
    raw = raw_location(NAME)
    covered = 1
    commits(raw, many=50)
    assert run("maintain", "--format", "jsonl").code == 0
    assert Path(raw, "_delta_log", f"{covered:020}.json").exists(), "what landed since the state is read from the log"
    before, done = run.query(NAME), run("materialize", "--format", "jsonl")
    assert "state brought up to date (" in done.rows[0]["outcome"], "it is not built anew"
    commits(raw, many=50)
    assert run("rebuild", NAME).code == 0

    def planned_at(hours: float, *more: str) -> list[dict[str, Any]]:
        for entry in Path(raw, "_delta_log").iterdir():
            os.utime(entry, (time.time() - hours * 3600,) * 2)
        return run("maintain", "--dry-run", "--format", "jsonl", *more).rows

    assert [planned_at(*age)[0]["log_entries"] for age in ((167,), (169, "--retention-hours", "170"))] == [1, 1]
    planned = planned_at(169)
    done = run("maintain", "--format", "jsonl")
    trimmed = {row["what"]: row["log_entries"] for row in done.rows}
    assert {row["what"]: row["log_entries"] for row in planned} == trimmed
    assert trimmed["raw"] > 40, trimmed
    assert not Path(raw, "_delta_log", f"{covered:020}.json").exists()
    assert run.query(NAME) == before == run.query(NAME, "--raw-only")
    run.land(NAME, mutation(60), format="cassandra-mutation", file="60.jsonl")
    assert "brought up to date" in run("materialize", "--format", "jsonl").rows[0]["outcome"]
    assert run("rebuild", NAME, "--back").code == 0
    assert run.query(NAME) == run.query(NAME, "--raw-only")
    assert run("validate", "--no-docs").code == 0


@pytest.mark.parametrize("command", [("rebuild", NAME, "--accept"), ("materialize", "--full")], ids=["rebuild", "full"])
def test_an_applied_view_shows_what_was_built_again(run: CommandLine, command: tuple[str, ...]) -> None:
    def wrong(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for row in rows:
            row["state"]["value"] = "wrong"
        return rows

    def viewed() -> set[str]:
        with duckdb.connect("warehouse/views.duckdb", read_only=True) as views:
            return {state for (state,) in views.sql("SELECT DISTINCT state FROM shop.orders").fetchall()}

    assert run("materialize").code == 0
    assert silently(current().table_uri.removeprefix("file://"), wrong, most=99)
    assert run("apply").code == 0
    assert viewed() == {"wrong"}
    assert run(*command).code == 0
    assert viewed() == {"open"}
