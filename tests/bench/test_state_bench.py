"""The state's benchmark runs, small: each of its figures is taken and its answers are equal; the times mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import state
from state_data import Source, open_engine

pytestmark = pytest.mark.slow

KEYS = 2000


def test_the_states_benchmark_takes_each_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "RUNS", 1)
    monkeypatch.setattr(state, "WARM_UPS", 0)
    engine = open_engine("duckdb", tmp_path)
    small = state.Smaller(engine, tmp_path, keys=KEYS // 10)
    large = state.measure(engine, Source(tmp_path, keys=KEYS), tmp_path, count=2, beside=small)
    assert (large["keys"], len(large["tails"]["each"]), len(large["ratios"])) == (KEYS, 2, 5)
    assert len(small.measured()["tails"]["each"]) == 1
