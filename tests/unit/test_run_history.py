"""Records of a process that goes on: about one a minute, at once where something is wrong, and none lost at its end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_views.cli import run_history
from cdc_views.cli.run_history import Runs, failed
from cdc_views.operations.run_records import runs_of


@pytest.fixture
def project(tmp_path: Path) -> Any:
    config = SimpleNamespace(name="x", alerts=None, openlineage=None)
    return SimpleNamespace(is_remote=False, root=tmp_path, warehouse=tmp_path / "w", config=config)


def test_runs_of_a_minute_are_one_record_with_the_last_of_each_table(project: Any) -> None:
    runs = Runs("materialize", project)
    for facts in (1, 2):
        runs.add("a", {"facts": facts}, seconds=1.5)
    runs.add("b", {"facts": 3}, seconds=1.0)
    assert runs_of(project) == []
    runs.keep()
    (record,) = runs_of(project)
    assert (record.command, record.seconds, record.tables) == ("materialize", 4.0, {"a": {"facts": 2}, "b": {"facts": 3}})
    runs.keep()
    assert len(runs_of(project)) == 1


@pytest.mark.parametrize("figures", [failed(ValueError("1")), {"facts": 1, "late": 2}])
def test_what_is_wrong_is_kept_at_once(project: Any, figures: dict[str, Any]) -> None:
    runs = Runs("materialize", project)
    runs.add("a", {"facts": 1})
    runs.add("b", figures)
    (record,) = runs_of(project)
    assert record.tables == {"a": {"facts": 1}, "b": figures}


def test_a_record_is_left_where_nothing_rests(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_history, "SPAN", 0.0)
    runs = Runs("materialize", project)
    for _ in range(3):
        runs.add("a", {"facts": 1})
    assert len(runs_of(project)) == 3
