"""The lateness horizon (rule M2): a state that purges shows what the oracle shows of the facts that were not late.

CDC_VIEWS_HISTORIES and CDC_VIEWS_SEED as in test_state.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from properties.test_state import SHARES, STATED, UNSHARED, small_tables
from strategies.histories import NOW, Histories, histories
from strategies.lateness import Ages, Identity
from strategies.reading import CASES, SEED, Row, assert_same, land, read_rows
from strategies.schemas import INT, TEXT, Subject, table
from strategies.writing import Writer

from cdc_views.engines.base import Engine, RawTable
from cdc_views.engines.duckdb import DuckDbEngine
from cdc_views.facts import Fact
from cdc_views.lateness import latest_expiry, purged_through
from cdc_views.materialize import Forgetting, Materialization, materialize, run, sources_of
from cdc_views.materialize.state import StateTable, open_state
from cdc_views.oracle import latest_rows
from cdc_views.plan.compact import BASE, LATE, PURGED, RUN
from cdc_views.types import MapOf, SetOf

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

SECOND = 1_000_000
FORGETS, KEEPS = Forgetting(horizon=NOW), Forgetting()


@dataclass
class Aging:
    """A raw table that facts land in, its state, which purges, and the model of both."""

    folder: Path
    subject: Subject
    ages: Ages = field(init=False)
    raw: RawTable = field(init=False)
    landings: int = 0

    def __post_init__(self) -> None:
        self.ages = Ages(self.subject.schema)
        self.raw = land(self.folder, self.subject.relation, [])

    @property
    def location(self) -> str:
        return str(self.folder / "state")

    def land(self, facts: Sequence[Fact]) -> None:
        self.landings += 1
        rows = self.subject.relation.rows(facts, landed_at=self.landings * SECOND)
        write_deltalake(self.raw.location, rows, mode="append")
        self.ages.land(facts)

    def materialize(self, engine: Engine, forgetting: Forgetting = FORGETS, *, full: bool = False) -> Materialization:
        done = materialize(engine, self.raw, self.location, full=full, forgetting=forgetting)
        if done.is_full or done.merged == "base":
            assert forgetting.horizon is not None
            self.ages.purge(horizon=forgetting.horizon)
        return done

    @property
    def state(self) -> StateTable:
        raw_id = str(DeltaTable(self.raw.location).metadata().id)
        state = open_state(self.location, self.raw.relation, raw_id=raw_id)
        assert state is not None
        return state

    def rows(self, engine: Engine, *, now: int = NOW + 1) -> list[Row]:
        sources = sources_of(self.raw, self.location)
        assert sources is not None
        return read_rows(engine, self.raw, as_of=now, sources=sources)

    def expected(self, *, now: int = NOW + 1) -> list[Row]:
        return latest_rows(self.subject.schema, self.ages.counted, now=now)

    def quarantined(self) -> Counter[str]:
        """The late facts of the state, as texts."""
        return Counter(text for file in self.state.of(LATE) for text in texts(pq.ParquetFile(file.path).read().to_pylist()))

    def late(self) -> Counter[str]:
        """Those of the model."""
        return Counter(texts(self.subject.relation.rows(self.ages.late, landed_at=0).to_pylist()))

    def purged(self) -> dict[Identity, int]:
        return purged_through(self.subject.relation, self.state)


def texts(records: Sequence[Row]) -> list[str]:
    return [repr(sorted((name, value) for name, value in record.items() if name != "_landed_at")) for record in records]


class Random_(Aging):
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
        self.land(fresh + self._rng.sample(self._landed, min(len(self._landed), count // 10)))
        self._landed += fresh

    def check(self, engine: Engine, *, now: int = NOW + 1, how: str = "") -> None:
        assert_same(self.expected(now=now), self.rows(engine, now=now), of=self.made, how=f"{engine.name} {how}")


@pytest.mark.heavy
@pytest.mark.parametrize("subject", STATED, ids=lambda s: s.name)
def test_a_purged_state_and_its_tail_show_what_was_not_late(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    aging = Random_(tmp_path, subject)
    aging.draw(cases=CASES // 4)
    for share, rebase in SHARES.items():
        monkeypatch.setattr(run, "REBASE_SHARE", rebase)
        aging.land_some(share)
        if (tmp_path / "state").exists():
            aging.check(duckdb_engine, how="state and tail")
        known = len(aging.ages.late)
        before = sum(aging.quarantined().values()) if (tmp_path / "state").exists() else 0
        done = aging.materialize(duckdb_engine)
        assert (done.late, before + done.late) == (len(aging.ages.late) - before, known)
        aging.check(duckdb_engine, how="state at rest")
        assert aging.purged() == aging.ages.through
    assert aging.quarantined() == aging.late(), "what is late is in quarantine, once, and nothing else is"
    for now in (NOW, NOW + 2):
        aging.check(duckdb_engine, now=now, how=f"at {now}")
    aging.materialize(duckdb_engine, full=True)
    aging.check(duckdb_engine, how="built anew")
    assert aging.quarantined() == aging.late()
    assert aging.purged() == aging.ages.through
    if subject.order.value == "micros":
        assert aging.ages.late, "the test met nothing late"
