"""Behind a store that refuses, is slow and breaks connections, nothing is lost, and nothing counts twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.faulty_store import before
from helpers.tiny_project import CQL, event, write_lines
from services.stores import Store

from cdc_views import Project
from cdc_views.errors import TransientError
from cdc_views.storage.delta_tables import opened
from cdc_views.table import Table

pytestmark = pytest.mark.heavy

LANDINGS, EVENTS = 4, 20
_TRIES = 20


def table_at(folder: Path, prefix: str, options: dict[str, str]) -> Table:
    table = {
        "name": "shop.orders",
        "schema": "schema.cql",
        "raw": {"format": "cassandra-mutation"},
        "materialize": {"serving": True},
    }
    told = {"name": "t", "engine": "duckdb", "warehouse": prefix, "storage_options": options, "tables": [table]}
    (folder / "schema.cql").write_text(CQL)
    (folder / "cdc_views.yml").write_text(json.dumps(told))
    return Project.load(folder / "cdc_views.yml").table("shop.orders")


def until_done(work: Callable[[], object]) -> int:
    """Call until it does not fail; return how often it failed. It may fail only with an error that may pass."""
    for failed in range(_TRIES):
        try:
            work()
        except TransientError:
            continue
        return failed
    pytest.fail("it never succeeded")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_nothing_is_lost_and_nothing_counts_twice(tmp_path: Path, prefix: str, store: Store, seed: int) -> None:
    with before(store.port, seed=seed, refused=0.06, lost=0.06, slow=0.04) as faults:
        few = {"max_retries": "2", "retry_timeout": "5s"}
        table = table_at(tmp_path, prefix, {**store.options(port=faults.port), **few})
        for number in range(LANDINGS):
            first = number * EVENTS
            file = write_lines(tmp_path / f"{number}.jsonl", *(event(n) for n in range(first + 1, first + EVENTS + 1)))
            until_done(lambda file=file: table.land(file))
            if number % 2:
                until_done(table.materialize)
        until_done(table.query)
    assert min(faults.happened.get(name, 0) for name in ("refused", "lost", "slow")) > 0, faults.happened
    table = table_at(tmp_path, prefix, store.options())
    table.materialize()
    wanted = LANDINGS * EVENTS
    assert opened(table.raw.location).to_pyarrow_dataset().count_rows() == wanted
    assert table.query().to_arrow().num_rows == table.query(raw_only=True).to_arrow().num_rows == wanted
    assert opened(str(table.serving_location)).to_pyarrow_dataset().count_rows() == wanted
    assert [check.name for check in table.validate().checks if check.broken] == []
