"""Commits of raw without facts (only bad events came, or a producer noted how far it has read) are no landings."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.tiny_project import CQL, event

from cdc_views import Project
from cdc_views.state.tail import committed_at, last_landed
from cdc_views.storage.table_log import TableLog

NAME = "shop.orders"
TESTS = [{"lag_within": "1d"}, {"fresh_within": "1s", "severity": "warning"}]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    Path("shop.cql").write_text(CQL)
    write_project(table(NAME, "shop.cql", "cassandra-mutation", tests=TESTS))
    line = CommandLine(capsys)
    line.land(NAME, event(1), format="cassandra-mutation")
    return line


def log() -> TableLog:
    return TableLog.open(Project.load().table(NAME).location)


def test_bad_events_alone_are_no_landing(run: CommandLine) -> None:
    assert run("materialize").code == 0
    landed = committed_at(log(), log().version)
    for number in range(12):  # more than are looked at first
        Path("bad.jsonl").write_text(f'{{"bad": {number}}}\n')
        assert run("land", "cassandra-mutation", "bad.jsonl", "--table", NAME).code == 1
    assert log().version >= 12
    assert last_landed(log()) == landed
    assert "state is up to date" in run("materialize").err
    checks = {one["check"]: one for one in run("validate", "--no-docs", "--format", "jsonl").rows}
    assert checks["state_lag"]["status"] == "passed"
    assert "0 landings are not in the state yet" in checks["state_lag"]["result"]
    (row,) = run("status", "--format", "jsonl").rows
    assert row["unmerged"] == 0


def test_a_landing_is_one(run: CommandLine) -> None:
    run("materialize")
    before = last_landed(log())
    assert before is not None
    run.land(NAME, event(2), format="cassandra-mutation")
    after = last_landed(log())
    assert after is not None
    assert after > before
    assert after == committed_at(log(), log().version)
    checks = {one["check"]: one for one in run("validate", "--no-docs", "--format", "jsonl").rows}
    assert "1 landing is not in the state yet, the oldest for" in checks["state_lag"]["result"]
    assert checks["state_lag"]["status"] == "passed", "it may wait for as long as the limit says"
