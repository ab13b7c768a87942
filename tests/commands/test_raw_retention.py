"""`maintain --drop-raw-older-than`: old events leave raw, state and tail show the same rows, and what needs them refuses."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project
from helpers.corrupting import damaged
from helpers.tiers import often

from cdc_views.api import Project, Table
from cdc_views.export.dbt.duckdb_plugin import Plugin
from cdc_views.operations import answers, retention
from cdc_views.state import state_table as state

pytestmark = pytest.mark.heavy

CASES = {"types3": "hid111.typed", "wide3": "hid211.orders", "names3": "hid311.OrderItems"}
NAME = CASES["names3"]
OLD = datetime.now(timezone.utc) - timedelta(days=40)
DROP = ("maintain", "--drop-raw-older-than", "30d")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def orders(run: CommandLine, cassandra_cases: Path) -> CommandLine:
    """A real table: two replicas' events landed long ago, a state of the first's, and the third's landed now."""
    landed(run, cassandra_cases / "names3", NAME)
    return run


def landed(run: CommandLine, folder: Path, name: str) -> Table:
    write_project(table(name, str(folder / "schema.cql"), "cassandra-mutation", replication_factor=3))
    target = Project.load().table(name)
    target.land(folder / "node1.jsonl", now=OLD)
    assert run("materialize").code == 0
    target.land(folder / "node2.jsonl", now=OLD)
    target.land(folder / "node3.jsonl")
    return target


def rows(run: CommandLine, name: str = NAME, *more: str) -> list[str]:
    answer = run("query", name, "--format", "jsonl", *more)
    assert answer.code == 0, answer.err
    return sorted(answer.out.splitlines())


def raw_facts() -> int:
    (table,) = Project.load().tables
    return int(DeltaTable(table.location).to_pyarrow_table().num_rows)


@pytest.mark.parametrize("case", often(CASES, "names3"))
def test_state_and_tail_show_what_raw_showed(run: CommandLine, cassandra_cases: Path, case: str) -> None:
    name, folder = CASES[case], cassandra_cases / case
    instants = [str(json.loads((folder / f"expected_{which}.json").read_text())["as_of"]) for which in ("early", "late")]
    landed(run, folder, name)
    before = [rows(run, name, "--as-of", instant) for instant in instants]
    count = raw_facts()
    planned = run(*DROP, "--dry-run")
    assert (planned.code, raw_facts()) == (0, count)
    done = run(*DROP)
    assert done.code == 0, done.err
    assert 0 < raw_facts() < count
    assert f"would drop {count - raw_facts():,} raw facts" in planned.err
    assert [rows(run, name, "--as-of", instant) for instant in instants] == before
    assert run("materialize").code == 0
    assert "is up to date" in run("materialize").err, "what was dropped is no news"
    again = (folder / "node1.jsonl").read_text("utf-8").splitlines()
    assert run.land(name, *reversed(again), format="cassandra-mutation", file="again.jsonl").code == 0
    assert [rows(run, name, "--as-of", instant) for instant in instants] == before
    assert run("materialize").code == 0
    assert [rows(run, name, "--as-of", instant) for instant in instants] == before


REFUSED: list[tuple[str, ...]] = [
    ("query", NAME, "--raw-only"),
    ("query", 'FROM hid311."OrderItems"', "--raw-only"),
    ("query", NAME, "--confirmed"),
    ("query", NAME, "--landed-as-of", "2030-01-01"),
    ("query", NAME, "--written-as-of", "2030-01-01"),
    ("explain", NAME, "--key", "KEY"),
    ("history", NAME),
    ("history", NAME, "--key", "KEY"),
    ("replicas", NAME),
    ("history", NAME),
    ("rebuild", NAME),
    ("materialize", "--full", "--format", "jsonl"),
    ("generate", "--dialect", "postgres"),
    ("generate", "--dialect", "trino"),
    ("dbt", "export", "--out", "analytics"),
]


@pytest.mark.slow
def test_what_needs_all_events_refuses_until_they_are_restored(orders: CommandLine) -> None:
    key = json.dumps({name: value for name, value in json.loads(rows(orders)[0]).items() if name in key_columns()})
    commands = [tuple(key if part == "KEY" else part for part in command) for command in REFUSED]
    for command in commands:
        assert orders(*command).code in (0, 1), command
    before, facts = rows(orders, NAME, "--raw-only"), raw_facts()
    assert orders(*DROP, "--archive", "kept").code == 0
    for command in commands:
        answer = orders(*command)
        assert (answer.code, answer.out) == (2, ""), (command, answer)
        assert f"events that landed before {OLD + timedelta(days=10):%Y-%m-%d}" in answer.err
        assert "--restore-raw DIR" in answer.err
    with pytest.raises(DbtRuntimeError, match="were dropped from raw, so what a dbt model makes of raw alone would be wrong"):
        Plugin("cdc_views", {"project": "cdc_views.yml"}).configure_cursor(None)
    assert orders("apply").code == 0, "DuckDB's view reads state and tail"
    assert orders("generate", "--dialect", "spark").code == 0, "and Spark's"
    assert orders("maintain", "--restore-raw", "nowhere").code == 2
    restored = orders("maintain", "--restore-raw", "kept")
    assert restored.code == 0, restored.err
    assert (raw_facts(), rows(orders, NAME, "--raw-only")) == (facts, before)
    for command in commands:
        assert orders(*command).code in (0, 1), command
    assert orders("maintain", "--restore-raw", "kept").code == 2, "nothing is missing"


def key_columns() -> set[str]:
    return {column.name for column in Project.load().table(NAME).schema.row_key}


@pytest.mark.slow
def test_a_lost_state_is_not_built_from_what_is_left(orders: CommandLine) -> None:
    assert orders(*DROP, "--archive", "kept").code == 0
    before = rows(orders)
    shutil.move(Project.load().table(NAME).state_location, "lost")
    for command in (("materialize",), ("query", NAME)):
        answer = orders(*command)
        assert (answer.code, "were dropped from raw" in answer.err) == (2, True), answer.err
    assert orders("maintain", "--restore-raw", "kept").code == 0
    assert orders("materialize").code == 0
    assert rows(orders) == before


def test_what_is_damaged_is_not_rewritten(orders: CommandLine) -> None:
    """Its rows would get a new digest."""
    (target,) = Project.load().tables
    names, facts = damaged(target.location), raw_facts()
    answer = orders(*DROP)
    told = any(name in answer.err for name in names), "put it back from a backup" in answer.err
    assert (answer.code, told, raw_facts()) == (3, (True, True), facts), answer.err


@pytest.mark.parametrize("most", [answers.MOST_COMPARED, 0])
def test_the_proof_can_fail(orders: CommandLine, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(answers, "MOST_COMPARED", most)
    assert orders("materialize").code == 0
    DeltaTable(Project.load().table(NAME).state_location).delete("_kind = 'row'")
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    facts = raw_facts()
    answer = orders(*DROP, "--archive", "kept")
    assert (answer.code, "nothing was dropped" in answer.err) == (1, True), answer.err
    assert ("too many differ" in answer.err) == (not most)
    assert (raw_facts(), Path("kept").exists()) == (facts, False)


@pytest.mark.slow
def test_the_second_proof_can_fail_too(orders: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert orders("maintain", "--drop-raw-older-than", "39d").code == 0
    assert orders(*DROP).code == 0
    DeltaTable(Project.load().table(NAME).state_location).delete("_kind = 'row'")
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    target = Project.load().table(NAME)
    later = datetime.now(timezone.utc) + timedelta(days=60)
    with pytest.raises(retention.CheckFailedError, match="state and raw together"):
        target.drop_raw(older_than="30d", now=later)


@pytest.mark.parametrize("step", ["rewrite", "cover"])
def test_a_run_that_was_killed_loses_nothing(orders: CommandLine, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before, facts = rows(orders), raw_facts()
    real, calls = getattr(retention, step), [0]

    def killed(*arguments: Any, **more: Any) -> Any:
        calls[0] += 1
        if step == "cover" and calls[0] == 1:
            return real(*arguments, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(retention, step, killed)
        assert orders(*DROP, "--archive", "kept").code == 130
    assert rows(orders) == before
    assert orders(*DROP, "--archive", "kept").code == 0
    assert rows(orders) == before
    assert orders("maintain", "--restore-raw", "kept").code == 0
    assert (raw_facts(), rows(orders, NAME, "--raw-only")) == (facts, before)


@pytest.mark.slow
def test_an_older_state_is_not_read_over_the_gap(orders: CommandLine) -> None:
    location = Project.load().table(NAME).state_location
    shutil.copytree(location, "before")
    assert orders("materialize").code == 0
    later = datetime.now(timezone.utc) + timedelta(days=60)
    before = rows(orders)
    assert Project.load().table(NAME).drop_raw(older_than="30d", now=later).rows > 0
    assert rows(orders) == before
    shutil.rmtree(location)
    shutil.copytree("before", location)
    answer = orders("query", NAME)
    assert (answer.code, "were dropped from raw" in answer.err) == (2, True), answer.err


def test_a_key_is_forgotten_where_raw_has_gaps_and_stays_so(orders: CommandLine) -> None:
    assert orders(*DROP, "--archive", "kept").code == 0
    before = rows(orders)
    row = json.loads(before[0])
    key = json.dumps({name: row[name] for name in key_columns()})
    assert orders("forget", NAME, "--key", key).code == 0
    assert rows(orders) == before[1:]
    assert orders("maintain", "--restore-raw", "kept").code == 0
    assert rows(orders) == before[1:] == rows(orders, NAME, "--raw-only")
    assert orders("history", NAME, "--key", key, "--format", "jsonl").rows == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--drop-raw-older-than", "soon"), "as in 30d"),
        (("--archive", "kept"), "--drop-raw-older-than"),
        (("--restore-raw", "kept"), "no events were dropped"),
        (("--restore-raw", "kept", "--dry-run"), "--dry-run"),
    ],
)
def test_slips_are_told(orders: CommandLine, arguments: tuple[str, ...], expected: str) -> None:
    answer = orders("maintain", *arguments)
    assert (answer.code, expected in answer.err) == (2, True), answer.err


@pytest.mark.parametrize(
    ("lateness", "expiry", "ends"),
    [(None, {"ttl": 60, "expires_at": 1}, (1, 1)), ("10d", {"ttl": 60, "expires_at": 1}, (0, 0)), ("10d", {}, (1, 1))],
    ids=["no horizon", "horizon", "horizon, a row of now"],
)
def test_the_proof_looks_before_every_expiry_unless_there_is_a_horizon(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch, lateness: str | None, expiry: dict[str, int], ends: tuple[int, int]
) -> None:
    name, marker = "shop.orders", {"written": 1, **expiry}
    Path("schema.cql").write_text("CREATE TABLE shop.orders (id int PRIMARY KEY, state text);\n")
    write_project(table(name, "schema.cql", "cassandra-mutation", materialize={"lateness": lateness} if lateness else {}))
    at = {"node": "n", "segment": 1, "position": 1, "keyspace": "shop", "table": "orders", "partition": {"id": 1}}
    event = {"format": "cassandra-mutation/1", **at, "rows": [{"kind": "row", "clustering": {}, "liveness": marker}]}
    Path("1.jsonl").write_text(json.dumps(event) + "\n")
    target = Project.load().table(name)
    target.land("1.jsonl", now=OLD)
    assert run("materialize").code == 0
    DeltaTable(target.state_location).delete("_kind = 'row'")  # if it has expired, nobody sees now that it is lost
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    answer = run(*DROP)
    assert (answer.code, raw_facts()) == ends, answer.err


def test_the_proof_does_not_see_a_lost_deletion_that_only_a_later_event_would_reveal(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, at = "shop.orders", {"node": "n", "segment": 1, "keyspace": "shop", "table": "orders", "partition": {"id": 1}}
    Path("schema.cql").write_text("CREATE TABLE shop.orders (id int PRIMARY KEY, state text);\n")
    write_project(table(name, "schema.cql", "cassandra-mutation"))
    rows_of = {"deletion": {"written": 2, "deleted_at": 2}}, {"liveness": {"written": 1}}
    for number, row in enumerate(rows_of, 1):
        event = {"format": "cassandra-mutation/1", **at, "position": number, "rows": [{"kind": "row", "clustering": {}, **row}]}
        Path(f"{number}.jsonl").write_text(json.dumps(event) + "\n")
    target = Project.load().table(name)
    target.land("1.jsonl", now=OLD)
    assert run("materialize").code == 0
    DeltaTable(target.state_location).delete("_kind = 'row'")
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    answer = run(*DROP)
    assert (answer.code, raw_facts()) == (0, 0), answer.err
    target.land("2.jsonl")
    assert len(rows(run, name)) == 1


@pytest.mark.slow
def test_older_generations_go_and_only_every_archive_together_is_put_back(run: CommandLine, cassandra_cases: Path) -> None:
    folder = cassandra_cases / "names3"
    write_project(table(NAME, str(folder / "schema.cql"), "cassandra-mutation"))
    target = Project.load().table(NAME)
    for node, days in ((1, 20), (2, 0)):
        target.land(folder / f"node{node}.jsonl", now=OLD - timedelta(days=days))
    assert run("materialize").code == 0
    assert run("rebuild", NAME).code == 0
    before, facts = rows(run), raw_facts()
    assert run("maintain", "--drop-raw-older-than", "50d", "--archive", "kept").code == 0
    assert [path.name for path in Path("warehouse/state").glob("*/*") if path.is_dir()] == ["2"]
    back = run("rebuild", NAME, "--back")
    assert (back.code, "no generation before 2" in back.err) == (2, True), back.err
    assert run(*DROP, "--archive", "kept").code == 0
    (first,) = Path("kept").rglob("drop-1")
    first.rename("away")
    left = raw_facts()
    assert run("maintain", "--restore-raw", "kept").code == 2
    assert raw_facts() == left < facts
    Path("away").rename(first)
    assert run("maintain", "--restore-raw", "kept").code == 0
    assert (raw_facts(), rows(run, NAME, "--raw-only")) == (facts, before)
    Path("kept").rename("former")
    assert run(*DROP, "--archive", "again").code == 0
    assert raw_facts() < facts
    assert run("maintain", "--restore-raw", "again").code == 0, "archives from before raw was whole again are not asked for"
    assert (raw_facts(), rows(run, NAME, "--raw-only")) == (facts, before)
