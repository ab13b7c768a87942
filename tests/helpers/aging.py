"""A raw table whose state purges, and the model of both (rule M2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import write_deltalake

from cdc_views.engines.base import Engine, RawTable
from cdc_views.operations.lateness import purged_through
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import Source
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import Forgetting, Materialization, materialize, sizes, sources_of
from cdc_views.state.state_table import StateTable, open_state
from cdc_views.storage.table_log import TableLog
from helpers.histories import NOW
from helpers.lateness import Ages, Identity
from helpers.reading import Row, land, read_rows
from helpers.schemas import Subject

SECOND = 1_000_000
FORGETS = Forgetting(horizon=NOW)


@dataclass
class Aging:
    """A raw table that facts land in, its state, which purges, and the model of both."""

    folder: Path
    subject: Subject
    ages: Ages = field(init=False)
    raw: RawTable = field(init=False)
    landings: int = 0

    def __post_init__(self) -> None:
        self.ages = Ages(self.subject.schema, self.subject.order)
        self.raw = land(self.folder, self.subject.relation, [])

    @property
    def location(self) -> str:
        return str(self.folder / "state")

    def land(self, *facts: Fact) -> None:
        self.landings += 1
        rows = self.subject.relation.rows(facts, landed_at=self.landings * SECOND)
        write_deltalake(self.raw.location, rows, mode="append")
        self.ages.land(facts)

    def materialize(self, engine: Engine, forgetting: Forgetting = FORGETS, *, full: bool = False) -> Materialization:
        done = materialize(engine, self.raw, self.location, full=full, forgetting=forgetting)
        is_whole = done.is_full or done.merged == "base" or (done.merged == "merge" and not sizes.SIZES.worn_share)
        if is_whole and forgetting.horizon is not None:
            self.ages.purge(horizon=forgetting.horizon)
        return done

    @property
    def state(self) -> StateTable:
        state = open_state(self.location, self.raw.relation, raw=TableLog.open(self.raw.location))
        assert state is not None
        return state

    def rows(self, engine: Engine, *, now: int = NOW + 1) -> list[Row]:
        """Return what state and tail show."""
        sources = sources_of(self.raw, self.location)
        assert sources is not None
        return read_rows(engine, self.raw, as_of=now, sources=sources)

    def expected(self, *, now: int = NOW + 1) -> list[Row]:
        """Return what the oracle shows of the facts that were not late."""
        return latest_rows(self.subject.schema, self.ages.counted, now=now)

    def quarantined(self) -> Counter[str]:
        """Return the late facts of the state, as texts."""
        return Counter(
            text for path in self.state.of(Source.LATE).paths for text in _texts(pq.ParquetFile(path).read().to_pylist())
        )

    def late(self) -> Counter[str]:
        """Return those of the model."""
        return Counter(_texts(self.subject.relation.rows(self.ages.late, landed_at=0).to_pylist()))

    def purged(self) -> dict[Identity, int]:
        """Return what each partition of the state has purged."""
        return purged_through(self.subject.relation, self.state)


def _texts(records: Sequence[Row]) -> list[str]:
    skipped = ("_landed_at", PART)  # Spark writes the partition column into its files, too
    return [repr(sorted((name, value) for name, value in record.items() if name not in skipped)) for record in records]
