"""Whatever is done to the folders of a project: its rows are the oracle's, or the command refuses.

CDC_VIEWS_HISTORIES (200) divided by 50 is how many histories there are, CDC_VIEWS_SEED (1) which; `make test-long` runs all.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.moving_folders import World
from helpers.reading import CASES, SEED
from helpers.tiers import often

from cdc_views.operations import known_raw
from cdc_views.state import state_table as state

pytestmark = pytest.mark.heavy

HISTORIES = CASES if CASES >= 3000 else CASES // 50
STEPS = int(os.environ.get("CDC_VIEWS_STEPS", "14"))


def history(folder: Path, seed: int, *, engines: tuple[str, ...] = ("duckdb",), steps: int = STEPS) -> World:
    """Run one history; an assertion fails where rows are wrong, with the steps that led there."""
    folder.mkdir()
    world = World(folder, Random(seed))
    for number in range(steps):
        world.engine = engines[number % len(engines)]
        try:
            world.step()
        except BaseException as error:
            raise AssertionError("\n".join([f"seed {seed}: {error!r}", *world.told])) from error
    return world


def test_rows_are_the_oracles_or_the_command_refuses(tmp_path: Path) -> None:
    answered = refused = 0
    for seed in range(SEED, SEED + HISTORIES):
        world = history(tmp_path / str(seed), seed)
        refused += sum("refused" in line for line in world.told)
        answered += len(world.told)
    assert refused, "some of what was done must be noticed"
    assert answered > refused, "and most commands must work"


@pytest.mark.spark
@pytest.mark.slow
def test_two_engines_in_turn(tmp_path: Path, spark_engine: Any) -> None:
    for seed in range(SEED, SEED + 4):
        history(tmp_path / str(seed), seed, engines=("duckdb", "spark"), steps=10)


@pytest.mark.parametrize("believes", often(["state", "record"], "state"))
def test_the_model_finds_a_state_or_a_record_that_is_believed_blindly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, believes: str
) -> None:
    if believes == "state":
        monkeypatch.setattr(state, "why_not_continued", lambda *_: "")
        monkeypatch.setattr(state, "is_continued", lambda *_: True)
    monkeypatch.setattr(known_raw, "check_known", lambda *_: None)
    for module in ("cdc_views.operations.applying", "cdc_views.operations.ingest", "cdc_views.operations.maintaining"):
        monkeypatch.setattr(f"{module}.check_known", lambda *_: None, raising=False)
    with pytest.raises(AssertionError, match="seed"):
        _histories(tmp_path, 60)


def _histories(folder: Path, count: int) -> None:
    for seed in range(count):
        history(folder / str(seed), seed)
