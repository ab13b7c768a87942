"""The lateness horizon (rule M2): a state that purges shows what the oracle shows of the facts that were not late.

CDC_VIEWS_HISTORIES and CDC_VIEWS_SEED as in test_state.py.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from helpers import histories as histories_module
from helpers.aging import Aging
from helpers.growing_states import UNSHARED, small_tables
from helpers.histories import NOW, Histories, histories
from helpers.reading import CASES, SEED, assert_same, one_spelled
from helpers.schemas import INT, NARROW, SUBJECTS, TEXT, Subject, table
from helpers.state_sizes import set_sizes
from helpers.tiers import often

from cdc_views.engines.base import Engine
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.formats.base import WriteOrder
from cdc_views.rules.facts import Fact
from cdc_views.state import state_table as state

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

_NEVER = {"rebase_share": 100, "merge_share": 100, "at_once_share": 100}
_BASE, _REWRITTEN = {"rebase_share": 0.1}, {**_NEVER, "merge_share": 0, "worn_share": 0, "bytes_per_merged": 1 << 40}
SHARES = {0.4: _BASE, 0.05: _NEVER, 0.3: _BASE, 0.06: _REWRITTEN, 0.04: _NEVER}
"""Parts of the facts, and what brings a new base about after each: none, or a merge after which every bucket is rewritten."""


HORIZON = NOW * 1_000_000
"""The write time (µs) of the horizon."""
writes = histories_module._Mutations
ALONE = Subject(table("alone", partition={"case": INT}, regulars={"v": INT, "w": TEXT}))
"""A partition is a row."""
AGED = [*(s for s in SUBJECTS if s.name not in ("plain", "fields")), UNSHARED, ALONE]
"""Of the two, which have a column of each of many types, the others have all that matters here."""


class RandomAging(Aging):
    """Random histories, landed batch by batch, with some that landed before."""

    made: Histories

    def draw(self, *, cases: int) -> None:
        self.made = histories(self.subject, cases=cases, seed=SEED)
        self._rng = Random(f"{SEED} {self.subject.name} aging")
        self._waiting, self._landed = list(self.made.facts), list[Fact]()
        self._rng.shuffle(self._waiting)

    def land_some(self, share: float) -> None:
        count = int(len(self.made.facts) * share)
        fresh, self._waiting = self._waiting[:count], self._waiting[count:]
        self.land(*fresh, *self._rng.sample(self._landed, min(len(self._landed), count // 10)))
        self._landed += fresh

    def check(self, engine: Engine, *, now: int = NOW + 1, how: str = "") -> None:
        answers = self.expected(now=now), self.rows(engine, now=now)
        expected, found = (one_spelled(self.subject.schema, rows) for rows in answers)
        assert_same(expected, found, of=self.made, how=f"{engine.name} {how}")

    def run(self, engine: Engine) -> None:
        """Bring the state up to date, and compare what it counted and remembers with the model."""
        before = sum(self.quarantined().values()) if Path(self.location).exists() else 0
        done = self.materialize(engine)
        assert before + done.late == len(self.ages.late)
        assert self.purged() == self.ages.through
        assert self.quarantined() == self.late(), "what is late is in quarantine, once, and nothing else is"


@pytest.mark.parametrize("subject", often(AGED, NARROW), ids=lambda s: s.name)
def test_a_purged_state_and_its_tail_show_what_was_not_late(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    aging = RandomAging(tmp_path, subject)
    aging.draw(cases=max(6, CASES // (25 if subject.name == "wide" else 12)))
    for share, changes in SHARES.items():
        set_sizes(monkeypatch, **changes)
        aging.land_some(share)
        if Path(aging.location).exists():
            aging.check(duckdb_engine, how="state and tail")
        aging.run(duckdb_engine)
        aging.check(duckdb_engine, how="state at rest")
    assert bool(aging.ages.late) == (subject.order is WriteOrder.MICROS), "sources without a server's time purge nothing"
    for now in (NOW, NOW + 2):
        aging.check(duckdb_engine, now=now, how=f"at {now}")
    aging.land_some(0.05)
    aging.materialize(duckdb_engine, full=True)
    aging.check(duckdb_engine, how="built anew")
    assert aging.quarantined() == aging.late()
    assert aging.purged() == aging.ages.through


@pytest.mark.slow
def test_a_client_whose_clock_is_ahead_makes_nothing_late_but_what_is_old(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    set_sizes(monkeypatch, rebase_share=0.1)
    real = writes._tick
    monkeypatch.setattr(writes, "_tick", lambda self: real(self) + self.rng.choice((0, HORIZON - self.base)))
    aging = RandomAging(tmp_path, NARROW)
    aging.draw(cases=max(6, CASES // 12))
    for share in (0.4, 0.3, 0.2):
        aging.land_some(share)
        aging.run(duckdb_engine)
        aging.check(duckdb_engine)
    assert aging.ages.through, "something was purged"
    assert max(aging.ages.through.values()) <= HORIZON
    assert any(part.written > HORIZON for fact in aging.made.facts for part in fact.cells.values())


def test_the_check_can_fail(duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that has forgotten what it purged takes late facts for new ones."""
    set_sizes(monkeypatch, rebase_share=0.1)
    aging = RandomAging(tmp_path, UNSHARED)
    aging.draw(cases=20)
    aging.land_some(0.6)
    aging.run(duckdb_engine)
    DeltaTable(aging.location).delete("_kind = 'purged'")
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    aging.land_some(0.4)
    with pytest.raises(pytest.fail.Exception):
        aging.check(duckdb_engine)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_purges_and_finds_what_is_late(
    spark_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    set_sizes(monkeypatch, rebase_share=0.1)
    aging = RandomAging(tmp_path, NARROW)
    aging.draw(cases=12)
    aging.land_some(0.5)
    aging.run(spark_engine)
    aging.land_some(0.3)
    for engine in (spark_engine, duckdb_engine):
        aging.check(engine, how="state and tail")
    aging.run(spark_engine)
    assert aging.ages.late, "the test met nothing late"
    aging.check(duckdb_engine, how="Spark's state at rest")
