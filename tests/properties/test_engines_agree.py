"""Engines and strategies against the oracle, over random histories.

One raw table holds every history of a schema, a case each, so that a schema costs one query a strategy and engine.
CDC_VIEWS_HISTORIES says how many histories (200), CDC_VIEWS_SEED which ones (1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pytest
from strategies.histories import NOW, Histories, histories
from strategies.reading import CASES, SEED, STRATEGIES, Row, assert_same, land, read_rows
from strategies.schemas import SUBJECTS, Subject

from cdc_views.engines.base import Engine, RawTable, Strategy
from cdc_views.engines.duckdb import DuckDbEngine
from cdc_views.oracle import latest_rows


@dataclass
class Trial:
    """A landed table of histories and what it shows."""

    histories: Histories
    raw: RawTable

    @cached_property
    def now(self) -> list[Row]:
        """The oracle's rows at NOW."""
        return self.at(NOW)

    def at(self, now: int) -> list[Row]:
        """The oracle's rows at another instant."""
        return latest_rows(self.histories.subject.schema, self.histories.facts, now=now)


@pytest.fixture(scope="module")
def trial_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Subject], Trial]:
    known: dict[str, Trial] = {}

    def make(subject: Subject) -> Trial:
        if subject.name not in known:
            made = histories(subject, cases=CASES, seed=SEED)
            raw = land(tmp_path_factory.mktemp(subject.name), subject.relation, made.early, made.late)
            known[subject.name] = Trial(made, raw)
        return known[subject.name]

    return make


def check(trial: Trial, engine: Engine, expected: list[Row], **asked: object) -> None:
    found = read_rows(engine, trial.raw, **{"as_of": NOW, **asked})
    assert_same(expected, found, of=trial.histories, how=f"{engine.name}, {asked}")


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.value)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_duckdb_shows_what_the_oracle_shows(
    duckdb_engine: DuckDbEngine, trial_of: Callable[[Subject], Trial], subject: Subject, strategy: Strategy
) -> None:
    trial = trial_of(subject)
    check(trial, duckdb_engine, trial.now, strategy=strategy)
