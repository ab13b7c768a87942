"""The comparison with the oracle notices a plan that breaks any one rule; with none broken it finds no difference.

Each corruptor must change the rows of at least one random history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from helpers.corruptors import CORRUPTORS, Corruptor, Patch
from helpers.histories import NOW, histories
from helpers.reading import Row, different_cases, land, read_rows, same_rows
from helpers.schemas import NARROW, SUBJECTS, Subject

from cdc_views.engines.base import Engine, RawTable
from cdc_views.rules.oracle import latest_rows

FEW_CASES, SEED_OF_ALL = 200, 1
"""Every rule matters in some of these histories, so they are the same whatever CDC_VIEWS_HISTORIES and _SEED say."""


@dataclass(frozen=True)
class Checked:
    """A landed table of histories, the oracle's rows, and an honest plan's."""

    raw: RawTable
    expected: list[Row]
    honest: list[Row]


CheckedOf = Callable[[Subject], Checked]


@pytest.fixture(scope="module")
def checked_of(duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> CheckedOf:
    known: dict[str, Checked] = {}

    def make(subject: Subject) -> Checked:
        if subject.name not in known:
            made = histories(subject, cases=FEW_CASES, seed=SEED_OF_ALL)
            raw = land(tmp_path_factory.mktemp(subject.name), subject.relation, made.early, made.late)
            expected = latest_rows(subject.schema, made.facts, now=NOW)
            known[subject.name] = Checked(raw, expected, read_rows(duckdb_engine, raw, as_of=NOW))
        return known[subject.name]

    return make


@pytest.mark.parametrize(
    "subject", [NARROW, *(pytest.param(s, marks=pytest.mark.heavy) for s in SUBJECTS if s is not NARROW)], ids=lambda s: s.name
)
def test_an_honest_plan_shows_what_the_oracle_shows(checked_of: CheckedOf, subject: Subject) -> None:
    checked = checked_of(subject)
    assert different_cases(checked.expected, checked.honest) == []
    assert same_rows(checked.expected, checked.honest)


NARROW_ONES = {c.rule: c for c in reversed(CORRUPTORS) if c.subjects[0] is NARROW}
"""The first corruptor of each rule that the smallest schema may notice."""
RUNS = [c if c is NARROW_ONES.get(c.rule) else pytest.param(c, marks=pytest.mark.heavy) for c in CORRUPTORS]


def name_of(corruptor: Corruptor) -> str:
    return f"{corruptor.rule}: {corruptor.what} ({', '.join(s.name for s in corruptor.subjects)})"


@pytest.mark.parametrize("corruptor", RUNS, ids=name_of)
def test_a_broken_rule_is_noticed(duckdb_engine: Engine, checked_of: CheckedOf, monkeypatch: Patch, corruptor: Corruptor) -> None:
    """The honest plan's rows are the oracle's, which the test above says; so what differs from them is noticed."""
    for subject in corruptor.subjects:
        checked = checked_of(subject)
        with monkeypatch.context() as patch:
            corruptor.apply(patch)
            found = read_rows(duckdb_engine, checked.raw, as_of=NOW, strategy=corruptor.strategy)
        if not same_rows(checked.honest, found):
            return
    pytest.fail(f"no history of {', '.join(s.name for s in corruptor.subjects)} noticed")
