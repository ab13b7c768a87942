"""`forget` that is killed, and `forget` and landing that come between each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine
from helpers.forgetting_tables import FORMAT, KEY, LATER, NAME, SECRET, begun, files_with, forget, mutation, without
from helpers.tiers import often

from cdc_views.api import Project
from cdc_views.landing import denylist, files, pipeline
from cdc_views.landing.denylist import ErasedKey
from cdc_views.operations.erasing import forgetting
from cdc_views.storage.delta_log import Commit

pytestmark = pytest.mark.heavy


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return begun(tmp_path, monkeypatch, capsys)


STEPS = ("replay", "vacuum_all", "purge", "begin_log_at", "materialize", "prove")


@pytest.mark.parametrize("step", often(STEPS, "purge", "materialize"))
def test_a_run_that_was_killed_is_finished_by_the_next(run: CommandLine, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    run.land(NAME, "{", format=FORMAT, file="4.jsonl")
    before = run.query(NAME)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(forgetting, step, killed)
        assert run("forget", NAME, "--key", KEY, "--undecodable", "keep").code == 130
    forget(run, "--undecodable", "keep")
    assert files_with(SECRET) == []
    assert run.query(NAME) == without(before, id=1, line=6) == run.query(NAME, "--raw-only")


def test_a_key_forgotten_while_its_events_land_is_noticed(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.appended
    orders = Project.load().table(NAME)

    def forget_begins_first(*arguments: Any, **more: Any) -> Any:
        key = ErasedKey.parse(orders.schema, KEY)
        denylist.add(orders.forgotten_file, key, forgotten=LATER, through=None)
        return real(*arguments, **more)

    monkeypatch.setattr(pipeline, "appended", forget_begins_first)
    answer = run.land(NAME, mutation(6, state=SECRET, written=2), format=FORMAT, file="4.jsonl")
    assert (answer.code, "forgotten while it landed" in answer.err) == (3, True), answer.err
    forget(run)
    assert files_with(SECRET) == []


@pytest.mark.parametrize("lands_the_key", [True, False])
def test_landing_that_forgetting_came_between_begins_anew_or_says_so(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch, lands_the_key: bool
) -> None:
    real = pipeline.appended
    orders = Project.load().table(NAME)

    def forgets_first(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(pipeline, "appended", real)
        orders.forget(KEY)
        return real(*arguments, **more)

    monkeypatch.setattr(pipeline, "appended", forgets_first)
    answer = run.land(NAME, mutation(6 if lands_the_key else 41, state=SECRET), mutation(40), format=FORMAT, file="4.jsonl")
    assert answer.code == (3 if lands_the_key else 0), answer.err
    if lands_the_key:
        forget(run)
        assert files_with(SECRET) == [], "a commit names what landed"
    assert run("land", FORMAT, "4.jsonl", "--table", NAME).code == 0
    assert 40 in {row["line"] for row in run.query(NAME)}


def test_what_lands_while_forgetting_cuts_the_log_is_there_at_once(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that landing saw, and those after it, are cut off; its commit must not become one of them."""
    orders, real = Project.load().table(NAME), Commit.write
    assert run("maintain").code == 0, "a checkpoint that forgetting removes"

    def forgets_first(commit: Commit, *given: Any, **more: Any) -> bytes:
        monkeypatch.setattr(Commit, "write", real)
        orders.forget(KEY)
        return real(commit, *given, **more)

    monkeypatch.setattr(Commit, "write", forgets_first)
    answer = run.land(NAME, mutation(40), mutation(41), format=FORMAT, file="4.jsonl")
    assert answer.code == 0, answer.err
    assert {40, 41} <= {row["line"] for row in run.query(NAME)}
    assert files_with(SECRET) == []


def test_a_key_forgotten_before_a_batch_is_committed_does_not_land(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.put
    project = Project.load()

    def forgets_first(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(files, "put", real)
        project.table(NAME).forget(KEY)
        return real(*arguments, **more)

    monkeypatch.setattr(files, "put", forgets_first)
    answer = run.land(NAME, mutation(6, state=SECRET, written=2), mutation(40), format=FORMAT, file="4.jsonl")
    assert answer.code == 0, answer.err
    assert files_with(SECRET) == []
    assert 40 in {row["line"] for row in run.query(NAME)}
