"""Rows that Delta's own commands took out of raw, or changed in a state, are missed: the log is whole, and says who did it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.command_line import CommandLine
from helpers.delta_rows import shown
from helpers.raw_in_doubt import BRIEFLY, NAME, READS, begin, keys, land, raw_of, raws, refuses
from helpers.tiers import often

pytestmark = pytest.mark.heavy


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    begin()
    return CommandLine(capsys)


def _overwritten(raw: DeltaTable) -> None:
    write_deltalake(raw, shown(raw).slice(0, 1), mode="overwrite")


def _merged(raw: DeltaTable) -> None:
    other = pa.table({"id": pa.array([2], pa.int32())})
    raw.merge(other, "raw.id = other.id", source_alias="other", target_alias="raw").when_matched_delete().execute()


TAKING: dict[str, Callable[[DeltaTable], object]] = {
    "RESTORE": lambda raw: raw.restore(raw.version() - 1),
    "DELETE": lambda raw: raw.delete("id = 2"),
    "all deleted": lambda raw: raw.delete(),
    "overwritten": _overwritten,
    "MERGE": _merged,
}


def taken(run: CommandLine, how: str, *, built: bool, knows: bool = True) -> DeltaTable:
    """Two landings, and what Delta's own command then takes out of raw; returns raw as it was before."""
    assert land(run, 0, 2) == 0
    if built:
        assert run("materialize").code == 0
    assert land(run, 2, 4) == 0
    assert keys(run) == [0, 1, 2, 3]
    if not knows:
        shutil.rmtree("warehouse/_cdc_views/raw")
    before = DeltaTable(raw_of(run))
    TAKING[how](DeltaTable(raw_of(run)))
    return before


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("how", often(list(TAKING), "RESTORE"))
def test_events_that_deltas_own_commands_took_out_of_raw_are_missed(run: CommandLine, how: str, built: bool) -> None:
    before = taken(run, how, built=built)
    for command in READS if how == "DELETE" else BRIEFLY:
        said = refuses(run, *command)
        assert f"its version {before.version() + 1} (" in said
        assert f"RESTORE to version {before.version()} undoes it" in said
    assert land(run, 0, 2) == 3, "what landed is not landed again"
    DeltaTable(raw_of(run)).restore(before.version())
    assert keys(run) == [0, 1, 2, 3]
    assert land(run, 4, 5) == 0
    assert run("materialize").code == 0
    assert keys(run) == keys(run, "--raw-only") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", often(list(TAKING), "DELETE"))
def test_what_was_taken_on_purpose_is_accepted(run: CommandLine, how: str) -> None:
    taken(run, how, built=True)
    assert run("rebuild", NAME, "--accept").code == 0
    left = keys(run, "--raw-only")
    assert keys(run) == left != [0, 1, 2, 3]
    assert (land(run, 2, 4), keys(run)) == (0, left), "what landed is not landed again"
    assert (land(run, 4, 5), run("materialize").code) == (0, 0)
    assert keys(run) == [*left, 4]


def test_what_was_taken_stays_in_the_state_on_demand(run: CommandLine) -> None:
    taken(run, "all deleted", built=True)
    assert run("rebuild", NAME, "--accept", "--with-state").code == 0
    assert keys(run) == [0, 1], "what the state had"


def test_a_state_misses_what_it_has_not_seen_without_a_record(run: CommandLine) -> None:
    taken(run, "RESTORE", built=True, knows=False)
    for command in BRIEFLY:
        refuses(run, *command)


def test_upkeep_takes_nothing(run: CommandLine) -> None:
    for first in range(0, 6, 2):
        assert land(run, first, first + 2) == 0
    raw = DeltaTable(raw_of(run))
    raw.optimize.compact()
    raw.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert keys(run) == [0, 1, 2, 3, 4, 5]
    assert (run("materialize").code, run("maintain").code, land(run, 6, 7)) == (0, 0, 0)
    assert keys(run) == keys(run, "--raw-only") == [0, 1, 2, 3, 4, 5, 6]


def changed(run: CommandLine, kind: str, how: str) -> DeltaTable:
    """Two runs, and what Delta's own command then does to the state or the serving table; returns it as it was before."""
    for first in (0, 2):
        assert (land(run, first, first + 2), run("materialize").code) == (0, 0)
    (place,) = Path("warehouse", kind).glob("**/_delta_log")
    before = DeltaTable(place.parent)
    TAKING[how](DeltaTable(place.parent))
    return before


@pytest.mark.parametrize("how", often(list(TAKING), "RESTORE"))
def test_a_state_that_somebody_else_changed_is_not_believed(run: CommandLine, how: str) -> None:
    before = changed(run, "state", how)
    for command in (*BRIEFLY, ("query", "FROM orders"), ("materialize",), ("apply",), ("generate",), ("maintain",)):
        assert "is not as it was left: its version" in refuses(run, *command)
    answer = run("validate", "--format", "jsonl", "--no-docs")
    assert [row["check"] for row in answer.rows if row["status"] == "failed"] == ["only_our_commits.state"]
    if how == "DELETE":
        assert run("rebuild", NAME).code == 1, "what differs is shown"
        DeltaTable(before.table_uri).restore(before.version())
    else:
        assert run("rebuild", NAME, "--accept").code == 0
    assert keys(run) == keys(run, "--raw-only") == [0, 1, 2, 3]
    assert (land(run, 4, 5), run("materialize").code) == (0, 0)
    assert keys(run) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", often(list(TAKING), "RESTORE"))
def test_a_serving_table_that_somebody_else_changed_is_written_anew(run: CommandLine, how: str) -> None:
    before = changed(run, "serving", how)
    assert run("materialize").code == 0
    shown = DeltaTable(before.table_uri).to_pyarrow_table()
    assert sorted(shown["id"].to_pylist()) == [0, 1, 2, 3]


def test_a_state_that_somebody_else_optimized_is_believed(run: CommandLine) -> None:
    for first in (0, 2, 4):
        assert (land(run, first, first + 2), run("materialize").code) == (0, 0)
    (place,) = Path("warehouse/state").glob("**/_delta_log")
    DeltaTable(place.parent).optimize.compact()
    assert keys(run) == [0, 1, 2, 3, 4, 5]
    assert run("forget", NAME, "--key", '{"id": 5, "item": 0}').code == 0
    assert keys(run) == [0, 1, 2, 3, 4]


def test_a_rebuild_that_is_refused_accepts_nothing(run: CommandLine) -> None:
    """Raw was cut, and what is left of it was dropped before: raw alone cannot build a state, whoever accepts it."""
    assert (land(run, 0, 2), run("materialize").code) == (0, 0)
    assert run("maintain", "--drop-raw-older-than", "0s").code == 0
    shutil.copytree(raws(), "raw.backup")
    assert land(run, 2, 4) == 0
    shutil.rmtree(raws())
    Path("raw.backup").rename(raws())
    answer = run("rebuild", NAME, "--accept")
    assert (answer.code, "were dropped from raw" in answer.err) == (2, True), answer
    for command in BRIEFLY:
        refuses(run, *command)
    assert run("rebuild", NAME, "--accept", "--with-state").code == 0
    assert keys(run) == [0, 1]


def test_rows_that_somebody_else_changed_are_no_state_to_keep(run: CommandLine) -> None:
    before = changed(run, "state", "all deleted")
    assert "RESTORE to version" in refuses(run, "rebuild", NAME, "--accept", "--with-state")
    DeltaTable(before.table_uri).restore(before.version())
    assert run("rebuild", NAME, "--accept", "--with-state").code == 0
    assert keys(run) == [0, 1, 2, 3]
