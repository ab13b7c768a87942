"""Each commit of a state is as Delta's protocol asks of writers. CDC_VIEWS_HISTORIES as elsewhere."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from helpers.delta_protocol import violations
from helpers.growing_states import UNSHARED, Growing, merge_next, small_tables, widen_next
from helpers.merged_states import ORDERS, ROWS, Kept, row
from helpers.reading import CASES, SEED
from helpers.schemas import LOGGED, NARROW, SUBJECTS, Subject
from helpers.state_sizes import set_sizes
from helpers.tiers import often

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.operations.erasing.rewriting import rewrite
from cdc_views.state import materialize
from cdc_views.state.tail import ERASURE
from cdc_views.storage.delta_log import entry_of
from cdc_views.storage.relation import RawTable

pytestmark = pytest.mark.heavy
DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("subject", often([*SUBJECTS, UNSHARED], NARROW, UNSHARED, LOGGED), ids=lambda s: s.name)
def test_each_commit_is_as_the_protocol_asks(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    kept, rng = Growing(tmp_path, subject, cases=max(16, CASES // 12), seed=SEED), Random(SEED)
    for number in range(12):
        set_sizes(monkeypatch, worn_share=rng.choice([0, 0.1, 2]), bytes_per_merged=rng.choice([1, 100]))
        merge_next(monkeypatch, rng.choice(["base", "merge", "merge", "merge", "runs", ""]), at_once=rng.random() < 0.5)
        if number == 8 and subject is not LOGGED:
            widen_next(kept)
        kept.land(len(kept.made.facts) // 12)
        materialize(duckdb_engine, kept.raw, kept.state)
    assert violations(Path(kept.state)) == []
    assert any('"deletionVector"' in entry.read_text() for entry in Path(kept.state, "_delta_log").glob("*.json"))
