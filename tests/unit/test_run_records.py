"""Records of runs: small, bounded in number, and never a reason for a run to fail."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_views.operations import run_records
from cdc_views.operations.run_records import FOLDER, LARGEST, RunRecord, keep_run, of_table, runs_of

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def project(folder: Path) -> Any:
    """What a record needs of a project: where its warehouse is."""
    return SimpleNamespace(is_remote=False, root=folder, warehouse=folder / "warehouse")


def keep(of: Any, command: str, minute: int, tables: dict[str, Any]) -> str:
    return keep_run(of, RunRecord.of(command, tables, now=START + timedelta(minutes=minute), seconds=1.5))


def test_records_come_back_in_the_order_of_their_runs(tmp_path: Path) -> None:
    of = project(tmp_path)
    assert runs_of(of) == []
    for minute, command in ((2, "verify"), (0, "validate"), (1, "validate")):
        assert keep(of, command, minute, {"t": {"passed": minute}}) == ""
    assert [(one.command, one.tables["t"]["passed"]) for one in runs_of(of)] == [("validate", 0), ("validate", 1), ("verify", 2)]
    assert [figures["passed"] for _, figures in of_table(runs_of(of, "validate"), "t")] == [0, 1]
    assert of_table(runs_of(of), "other") == []


def test_the_oldest_of_each_command_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_records, "KEPT", 3)
    of = project(tmp_path)
    keep(of, "validate", 0, {"t": {}})
    for minute in range(1, 9):
        keep(of, "materialize", minute, {"t": {"n": minute}})
    assert [one.tables["t"].get("n") for one in runs_of(of)] == [None, 6, 7, 8]


def test_two_runs_of_one_instant_both_stay(tmp_path: Path) -> None:
    of = project(tmp_path)
    for number in range(5):
        keep(of, "validate", 0, {"t": {"n": number}})
    assert sorted(one.tables["t"]["n"] for one in runs_of(of)) == list(range(5))


def test_a_record_is_bounded_and_tells_what_it_left_out(tmp_path: Path) -> None:
    of = project(tmp_path)
    assert keep(of, "validate", 0, {f"t{number}": {"text": "x" * 1_000} for number in range(500)}) == ""
    (file,) = (tmp_path / "warehouse" / FOLDER).iterdir()
    assert file.stat().st_size <= LARGEST
    (record,) = runs_of(of)
    assert len(record.tables) + record.left_out == 500
    assert 0 < len(record.tables) < 100


def test_damaged_and_foreign_files_are_passed_over(tmp_path: Path) -> None:
    of = project(tmp_path)
    keep(of, "validate", 0, {"t": {}})
    folder = tmp_path / "warehouse" / FOLDER
    for name, text in {"a-validate-b.json": "{", "c-validate-d.json": "[]", "note.txt": "x", "e.json": "{}"}.items():
        (folder / name).write_text(text)
    assert len(runs_of(of, "validate")) == 1


def test_a_warehouse_that_cannot_be_written_is_told_and_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "warehouse").write_text("a file")
    assert "warehouse" in keep(project(tmp_path), "validate", 0, {"t": {}})
    assert runs_of(project(tmp_path)) == []
