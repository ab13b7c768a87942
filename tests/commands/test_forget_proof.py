"""What `forget` proves: whatever is left of the key in a file is found, wherever it is, and what others have is no remnant."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from helpers.command_line import CommandLine
from helpers.comparing import raw_location
from helpers.forgetting_tables import CQL, FORMAT, KEY, NAME, SECRET, begun, files_with, forget, land, mutation

from cdc_views.landing import vacuum
from cdc_views.operations.erasing import forgetting
from cdc_views.operations.erasing.events import Letters

pytestmark = pytest.mark.heavy


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return begun(tmp_path, monkeypatch, capsys)


def orphan(folder: str) -> None:
    """Somebody's copy of a file that was replaced."""
    (file, *_) = [file for file in Path(folder).rglob("*.parquet") if SECRET in str(pq.read_table(file).to_pylist())]
    shutil.copy(file, "kept")


def restored(folder: str, name: str) -> None:
    shutil.copy("kept", Path(folder) / name)


ORPHANS = {
    "a Parquet file in raw": ("warehouse/raw/shop_orders", "part-copy.parquet"),
    "in the state": ("warehouse/state/shop_orders/2", "_part=b/part-copy.parquet"),
    "under another name": ("warehouse/raw/shop_orders", "copy.bak"),
}


def test_the_proof_finds_a_removed_value_beside_no_key(run: CommandLine) -> None:
    """In a data file of values alone; only the run that removed a value knows it."""
    orphan(raw_location(NAME))
    pq.write_table(pq.read_table("kept").select(["state"]), Path(raw_location(NAME), "part-column.parquet"))
    answer = run("forget", NAME, "--key", KEY)
    told = "part-column.parquet" in answer.err, "removed values in state.value left" in answer.err
    assert (answer.code, told, SECRET in answer.err) == (1, (True, True), False), answer.err


@pytest.mark.parametrize("how", ORPHANS)
def test_the_proof_finds_an_orphan(run: CommandLine, how: str) -> None:
    orphan(raw_location(NAME))
    forget(run)
    folder, name = ORPHANS[how]
    Path(folder, name).parent.mkdir(exist_ok=True)
    restored(folder, name)
    answer = run("forget", NAME, "--key", KEY)
    if name.endswith("bak"):
        os.utime(Path(folder, name), (1, 1))
    else:
        assert (answer.code, name in answer.err, "of the key left" in answer.err) == (1, True, True), answer.err
        assert SECRET not in answer.err
        os.utime(Path(folder, name), (1, 1))
    forget(run)
    assert files_with(SECRET) == [], "no writer's file is an hour old"


def test_the_proof_finds_a_log_entry_whose_statistics_hold_the_value(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Path(raw_location(NAME), "_delta_log/00000000000000000001.json")
    known = '\\"minValues\\":{\\"_landed_at\\":'
    assert known in entry.read_text(), "a landing time is no value"
    text = entry.read_text().replace(known, f'\\"minValues\\":{{\\"state\\":{{\\"value\\":\\"{SECRET}\\"}},\\"_landed_at\\":')
    real = forgetting.begin_log_at

    def leaves_one(location: str, version: int) -> int:
        count = real(location, version)
        Path(location, "_delta_log", entry.name).write_text(text)
        return count

    monkeypatch.setattr(forgetting, "begin_log_at", leaves_one)
    answer = run("forget", NAME, "--key", KEY)
    assert (answer.code, "in the statistics of state.value" in answer.err) == (1, True)


def test_the_proof_finds_rows_that_were_not_deleted(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting._Forgetting, "_deleted", lambda self, place: 0)
    answer = run("forget", NAME, "--key", KEY)
    left = [line.split(": ")[2] for line in answer.err.splitlines() if "rows of the key left" in line]
    assert (answer.code, left) == (1, ["raw", "raw", "state"]), answer.err


@pytest.mark.parametrize("value", ["path", "sha256", "parquet", "\0\0\0\0"])
def test_a_value_that_files_of_this_project_hold_by_their_format_is_no_remnant(run: CommandLine, value: str) -> None:
    land(run, mutation(6, state=value, written=4), mutation(27), file="4.jsonl")
    assert run("materialize").code == 0
    Path("warehouse/raw/shop_orders/.part-00000-c000.parquet.crc").write_bytes(b"crc\0\0\0\0\0\0path")
    forget(run)


def test_the_proof_finds_a_value_beside_the_digests(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(raw_location(NAME), "_digests/sha256.jsonl").open("a") as out:
        out.write(json.dumps({"path": "a.parquet", "sha256": "0" * 64, "was": SECRET}) + "\n")
    monkeypatch.setattr(vacuum, "note_missing", lambda table, *, tasks: 0)
    answer = run("forget", NAME, "--key", KEY)
    assert (answer.code, "sha256.jsonl" in answer.err) == (1, True), answer.err


def test_the_proof_reads_what_spark_lists_in_the_checksum_of_a_version(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = forgetting.begin_log_at

    def leaves_one(location: str, version: int) -> None:
        real(location, version)
        stats = json.dumps({"numRecords": 1, "maxValues": {"state": {"value": SECRET}}})
        listed = json.dumps({"tableSizeBytes": 1, "allFiles": [{"path": "a.parquet", "stats": stats}]})
        Path(location, "_delta_log", f"{0:020}.crc").write_text(listed)

    monkeypatch.setattr(forgetting, "begin_log_at", leaves_one)
    answer = run("forget", NAME, "--key", KEY)
    assert (answer.code, "in the statistics of state.value" in answer.err) == (1, True), answer.err


STEPS: dict[str, tuple[object, str, str]] = {
    "quarantine": (forgetting, "empty", r"quarantine: .*__quarantine: 1 events of the key left"),
    "an old file of quarantine": (forgetting, "purge", r"quarantine: .*__quarantine/part-.*: 2 removed values left"),
    "dead letters": (Letters, "empty", r"dead letters: .*/dead_letters.jsonl: 1 events of the key left"),
}
"""What does not happen, and what is found then."""


@pytest.mark.parametrize("how", STEPS)
def test_the_proof_finds_events_that_were_not_emptied(run: CommandLine, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    column = {"column": "note", "written": 5, "value": SECRET}
    event = mutation(6).replace('"cells": [', f'"cells": [{json.dumps(column)}, ')
    assert run.land(NAME, event, format=FORMAT, file="4.jsonl").code == 1, "there is no column note"
    Path("schema.cql").write_text(CQL.replace("state text", "state text, note text"))
    assert run("replay", NAME).code == 0
    letters = Path("warehouse/http/receiver/dead_letters.jsonl")
    letters.parent.mkdir(parents=True)
    letters.write_text(f"{event}\n")
    place, step, told = STEPS[how]
    with monkeypatch.context() as patch:
        patch.setattr(place, step, lambda *_, **__: 0)
        answer = run("forget", NAME, "--key", KEY)
    assert (answer.code, bool(re.search(told, answer.err))) == (1, True), answer.err
    forget(run)
    assert files_with(SECRET) == []


def test_a_value_that_another_key_has_too_is_no_remnant(run: CommandLine) -> None:
    """An orphan of other keys has the key's write time and node."""
    (other, *_) = [file for file in Path(raw_location(NAME)).glob("*.parquet") if pq.read_table(file)["line"].to_pylist() == [22]]
    shutil.copy(other, other.with_name("part-copy.parquet"))
    forget(run)
