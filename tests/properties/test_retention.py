"""State and tail after raw was dropped show what raw showed: on random histories, dropped twice, with more landing between.

CDC_VIEWS_HISTORIES says how many histories a schema gets (200), CDC_VIEWS_SEED which ones (1).
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.histories import NOW, histories
from helpers.projects import add, project_of
from helpers.reading import CASES, SEED, assert_same, read_rows
from helpers.schemas import NARROW, SUBJECTS, Subject
from helpers.tiers import often

from cdc_views.api import Table
from cdc_views.engines.base import Engine
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import materialize, sources_of
from cdc_views.state.tail import dropped_through

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

DAY = 86_400_000_000


def at(day: int) -> datetime:
    return datetime.fromtimestamp(day * 86_400, timezone.utc)


def grow_and_drop(table: Table, engine: Engine, subject: Subject, *, cases: int) -> None:
    """Land a sixth a day, drop what is older than a day on days 3 and 5, and compare all the time."""
    made = histories(subject, cases=cases, seed=SEED)
    facts = made.facts
    size = len(facts) // 6 + 1
    for day in range(6):
        # what landed on another day lands again: it may have been dropped
        add(table, [*facts[day * size : (day + 1) * size], *facts[: size // 3]], landed_at=day * DAY)
        if day in (2, 4):
            materialize(engine, table.raw, table.state_location)
        if day in (3, 5):
            dropped = table.drop_raw(older_than="1d", now=at(day), engine=engine.name)
            assert dropped.rows > 0
            assert dropped_through(table.raw.location) == (day - 1) * DAY
        sources = sources_of(table.raw, table.state_location) if day > 1 else None
        found = read_rows(engine, table.raw, as_of=NOW, sources=sources)
        expected = latest_rows(subject.schema, facts[: (day + 1) * size], now=NOW)
        assert_same(expected, found, of=made, how=f"{engine.name} on day {day}")


@pytest.mark.parametrize("subject", often(SUBJECTS, NARROW), ids=lambda s: s.name)
def test_state_and_tail_show_what_raw_showed(
    duckdb_engine: Engine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grow_and_drop(project_of(subject.schema, subject.order.value), duckdb_engine, subject, cases=max(4, CASES // 20))


@pytest.mark.slow
@pytest.mark.spark
def test_spark_proves_and_shows_the_same(spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = project_of(SUBJECTS[0].schema)
    made = histories(SUBJECTS[0], cases=5, seed=SEED)
    add(table, made.early, landed_at=0)
    materialize(spark_engine, table.raw, table.state_location)
    assert table.drop_raw(older_than="1d", now=at(3)).rows == len(made.early)
    add(table, made.late, landed_at=3 * DAY)
    for _ in range(2):
        found = read_rows(spark_engine, table.raw, as_of=NOW, sources=sources_of(table.raw, table.state_location))
        assert_same(latest_rows(table.schema, made.facts, now=NOW), found, of=made, how="spark")
        materialize(spark_engine, table.raw, table.state_location)
