"""A state that grows by random histories, compared with the oracle at each step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from deltalake import write_deltalake

from cdc_views.engines.base import Engine, RawTable, Sources
from cdc_views.model.schema import Column
from cdc_views.model.types import MapOf, SetOf, Udt
from cdc_views.plan.parts import Part, Source
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import sources_of
from helpers.histories import NOW, Histories, histories
from helpers.reading import Row, assert_same, land, one_spelled, read_rows
from helpers.schemas import BIGINT, DECIMAL, DOUBLE, INT, TEXT, Subject, table
from helpers.state_sizes import set_sizes
from helpers.writing import cell

UNSHARED = Subject(
    table(
        "unshared",
        partition={"case": INT, "p": DOUBLE},
        clustering={"c1": INT, "c2": DECIMAL},
        descending=("c2",),
        regulars={
            "v": BIGINT,
            "e": SetOf(DECIMAL, frozen=False),
            "m": MapOf(DOUBLE, INT, frozen=False),
            "u": Udt("tests", "pair", (("a", INT), ("b", TEXT)), frozen=False),
            "again": INT,
        },
        dropped={"again": 4},
    )
)
"""No static columns, so that rows of the base show without being reduced again; every scope of deletion."""

LOOKED_UP = Subject(table("looked_up", partition={"case": INT}, clustering={"id": TEXT}, regulars={"v": BIGINT}))

EARLIER, LATER = NOW - 1, NOW + 1


class Growing:
    """A raw table that facts land in batch by batch, its state, and what the oracle says of what has landed."""

    def __init__(self, folder: Path, subject: Subject, *, cases: int, seed: int) -> None:
        self.made: Histories = histories(subject, cases=cases, seed=seed)
        self.subject, self.state = subject, str(folder / "state")
        self._rng, self.landed = Random(f"{seed} {subject.name} state"), list[Fact]()
        self._waiting = list(self.made.facts)
        self._rng.shuffle(self._waiting)
        self.raw: RawTable = land(folder, subject.relation, [])

    def land(self, count: int) -> None:
        """Land so many facts more, with some that landed before."""
        fresh, self._waiting = self._waiting[:count], self._waiting[count:]
        batch = fresh + self._rng.sample(self.landed, min(len(self.landed), count // 10))
        self.landed += fresh
        write_deltalake(self.raw.location, self.subject.relation.rows(batch, landed_at=0), mode="append")

    def sources(self) -> Sources:
        """Where what landed is read from."""
        found = sources_of(self.raw, self.state)
        assert found is not None, "there is no state to read"
        return found

    def check(self, engine: Engine, *, now: int = NOW, how: str = "") -> None:
        """Compare the hybrid view with the oracle."""
        sources = self.sources()
        found: list[Row] = read_rows(engine, self.raw, as_of=now, sources=sources)
        expected = latest_rows(self.subject.schema, self.landed, now=now)
        parts = [sources.parts.of(part).paths for part in (Source.BASE, [Part.RUN], Source.TAIL)]
        counts = "{} base, {} run, {} raw files".format(*map(len, parts))
        theirs, ours = (one_spelled(self.subject.schema, rows) for rows in (expected, found))
        assert_same(theirs, ours, of=self.made, how=f"{engine.name} {how} of {counts}")


MERGES = {"": (100, 100), "runs": (100, 100), "merge": (100, 0), "base": (0, 100)}
"""The shares of the base, of runs, that bring a new base and a merge about; what landed becomes a run first."""


def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge runs often, rewrite buckets often, and split files finely, as large tables do."""
    digits = ((20, 0), (100_000_000, 5))
    set_sizes(monkeypatch, most_runs=2, run_digits=digits, bucket_bytes=1 << 9, most_small_digits=5)


def merge_next(monkeypatch: pytest.MonkeyPatch, what: str, *, at_once: bool = False) -> None:
    """Let the next run make a new base, merge, or make one of runs alone where there are several; see `MERGES`."""
    rebase, merge = MERGES[what]
    share = 0 if at_once and what == "merge" else 100
    set_sizes(monkeypatch, rebase_share=rebase, merge_share=merge, at_once_share=share)


def widen_next(kept: Growing) -> None:
    """Let the schema file gain the column `newer`, and land facts that have it."""
    kept.subject = Subject(replace(kept.subject.schema, columns=(*kept.subject.schema.columns, Column("newer", INT))))
    kept.raw = RawTable(kept.raw.location, kept.subject.relation)
    rows = [(fact, fact.liveness.written) for fact in kept.landed if fact.kind is FactKind.ROW and fact.liveness][:20]
    facts = [replace(fact, cells={**fact.cells, "newer": cell(INT, n, at=at)}) for n, (fact, at) in enumerate(rows)]
    kept.landed += facts
    rows_of_them = kept.subject.relation.rows(facts, landed_at=0)
    write_deltalake(kept.raw.location, rows_of_them, mode="append", schema_mode="merge")
