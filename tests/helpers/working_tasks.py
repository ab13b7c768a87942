"""Engines' tasks without an engine: work is pickled as an engine does it, run in another order, run twice, or fails."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.duckdb.plugin import DuckDbPlugin
from cdc_views.errors import EngineError
from cdc_views.landing import spreading


def once(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
    """Run each task in a copy, the last first."""
    assert all(Path(path.removeprefix("file://")).is_absolute() and Path(path.removeprefix("file://")).exists() for path in sees)
    copies = [(pickle.loads(pickle.dumps(function)), pickle.loads(pickle.dumps(task))) for task in tasks]
    return [pickle.loads(pickle.dumps(run(task))) for run, task in reversed(copies)][::-1]


def twice(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
    """Run each task twice, and take what the first or the second gave."""
    first, second = once(function, tasks, sees=sees), once(function, tasks, sees=sees)
    return [(first, second)[number % 2][number] for number in range(len(tasks))]


class Tells:
    """Tasks that note how many there were, and of which the last fails if the function's name has `fails`."""

    def __init__(self, *, fails: str = "") -> None:
        self.ran: list[tuple[str, int]] = []
        self._fails = fails

    def __call__(self, function: Any, tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        inner = function.args[0]  # `Tasks.each` makes a partial of it
        name = str(getattr(inner, "func", inner).__name__)
        self.ran.append((name, len(tasks)))
        if self._fails and self._fails in name:
            once(function, tasks[:-1], sees=sees)
            raise EngineError("an executor is gone")
        return once(function, tasks, sees=sees)


def use_tasks(monkeypatch: pytest.MonkeyPatch, spread: Any) -> None:
    """Let the local engine have tasks, one for each file."""
    monkeypatch.setattr(spreading, "_GROUP_BYTES", 1)
    monkeypatch.setattr(spreading, "_MOST_GROUPS", 1 << 30)
    monkeypatch.setattr(DuckDbPlugin, "spread_from", 0)

    def asked(engine: Any, function: Any, tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        return list(spread(function, tasks, sees=sees))

    monkeypatch.setattr(DuckDbEngine, "spread", asked)
