"""What landed since a state, all of it newer, is shown beside the state's rows: no write time of the state is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from helpers.growing_states import EARLIER, LATER, Growing, merge_next, small_tables
from helpers.histories import NOW, Histories, histories
from helpers.reading import CASES, SEED, Row, assert_same, canonical_row, land, read_rows
from helpers.schemas import BIGINT, DECIMAL, DOUBLE, INT, LOGGED, PLAIN, SUBJECTS, TEXT, TIMESTAMP, Subject, table
from helpers.tiers import often
from helpers.writing import cell

from cdc_views.engines.base import Engine, Read, ViewDefinition
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.model.types import EMPTY, ListOf
from cdc_views.plan.parts import LATEST, Part, Parts, Source, Statistics
from cdc_views.rules.cells import Liveness
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import materialize
from cdc_views.state.file_statistics import statistics_of
from cdc_views.storage.delta_paths import paths_by_name
from cdc_views.storage.relation import Relation

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

CELLS = Subject(
    table(
        "cells",
        partition={"case": INT, "p": DECIMAL},
        clustering={"c1": INT, "c2": TEXT},
        descending=("c2",),
        regulars={"v": BIGINT, "d": DOUBLE, "n": DECIMAL, "at": TIMESTAMP, "l": ListOf(INT)},
    )
)
"""Keys that show as they are compared, and columns that are one cell each."""
READDED = Subject(
    table("readded", partition={"case": INT}, clustering={"c": INT}, regulars={"v": INT, "w": TEXT}, dropped={"v": 40, "gone": 3})
)
"""A column that was dropped and added again while batches landed (rule W6)."""
HOLLOW = Subject(table("hollow", partition={"case": INT}, clustering={"c": INT}, regulars={"v": INT, "n": DECIMAL}))
ONE_PASS = "rows_by_cell"
"""What the text has that reads a newer tail."""
SPAN = 16
TURNS = ("base", "", "merge", "", "merge", "runs", "base", "")


class Following(Growing):
    """Facts in batches, each written after the one before; those after the first are about rows alone."""

    def __init__(self, folder: Path, subject: Subject, *, cases: int) -> None:
        super().__init__(folder, subject, cases=cases, seed=SEED)
        rows = [fact for fact in self._waiting if fact.kind is FactKind.ROW]
        others = [fact for fact in self._waiting if fact.kind is not FactKind.ROW]
        share = len(rows) // (len(TURNS) + 1)
        batches = [others + rows[: 2 * share], *(rows[n * share : (n + 1) * share] for n in range(2, len(TURNS) + 1))]
        cut, span = unique_times(self._waiting) if subject.is_positioned else (few_times, SPAN)
        self.batches = [[later(fact, by=turn * span, cut=cut) for fact in batch] for turn, batch in enumerate(batches)]
        self.made = Histories(subject, tuple(fact for batch in self.batches for fact in batch), ())

    def land_batch(self, number: int) -> None:
        """Land one of the batches, with copies of some of its own facts."""
        self._waiting, kept = list(self.batches[number]), self.landed
        self.landed = []
        self.land(len(self.batches[number]))
        self.landed += kept

    def rows(self, engine: Engine, **asked: object) -> list[Row]:
        """The rows of a read of state and tail."""
        return read_rows(engine, self.raw, **{"as_of": NOW, "sources": self.sources(), **asked})


def few_times(written: int) -> int:
    """One of a few times, so that many tie."""
    return written % SPAN


def unique_times(facts: Iterable[Fact]) -> tuple[Callable[[int], int], int]:
    """The place of each time among all, and their number: only copies of an event share a log position (rules S2, S3)."""
    places = {at: place for place, at in enumerate(sorted({int(part.written) for fact in facts for part in parts_of(fact)}))}
    return places.__getitem__, len(places)


def later(fact: Fact, *, by: int, cut: Callable[[int], int] = few_times) -> Fact:
    """The fact, written at other times: its own, cut, and so much later."""

    def moved(part: Any) -> Any:
        return None if part is None else replace(part, written=cut(int(part.written)) + by)

    cells = {name: moved(cell) for name, cell in fact.cells.items()}
    return replace(fact, liveness=moved(fact.liveness), deletion=moved(fact.deletion), cells=cells)


def grow(growing: Following, engine: Engine, monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> int:
    """Land and merge by turns, looking at each tail and at what is at rest; how many tails were newer."""
    newer = 0
    for number, what in enumerate(TURNS):
        merge_next(monkeypatch, what, at_once=number % 4 > 1)
        growing.land_batch(number)
        if Path(growing.state).exists():
            newer += growing.sources().parts.is_fresh_newer
            growing.check(engine, how="newer tail")
            look()
        materialize(engine, growing.raw, growing.state)
        growing.check(engine, how="at rest")
    return newer


@pytest.mark.parametrize("subject", often([CELLS, READDED, PLAIN, LOGGED], CELLS), ids=lambda s: s.name)
def test_a_newer_tail_shows_what_raw_shows(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = Following(tmp_path, subject, cases=CASES // 8)

    def look() -> None:
        assert ONE_PASS in duckdb_engine.sql(Read(growing.raw, as_of=NOW, sources=growing.sources()))
        for now in (EARLIER, LATER):
            growing.check(duckdb_engine, now=now, how=f"at {now}")
        column = Random(SEED).choice(subject.schema.regulars).name
        few = growing.rows(duckdb_engine, columns=("case", column), where='"case" < 9')
        expected = [row for row in latest_rows(subject.schema, growing.landed, now=NOW) if row["case"] < 9]
        assert_same([{"case": r["case"], column: r[column]} for r in expected], few, of=growing.made, how="some columns")
        assert_views_agree(duckdb_engine, growing)

    assert grow(growing, duckdb_engine, monkeypatch, look) == len(TURNS) - 1


def assert_views_agree(engine: DuckDbEngine, growing: Following) -> None:
    """The view of state and tail, which takes conditions on keys, shows what the view of raw shows, friendly types too."""
    for name, sources in (("hybrid", growing.sources()), ("of_raw", None)):
        statement = engine.apply(ViewDefinition("shop", name, growing.raw, sources=sources))
        assert (ONE_PASS in statement) == (name == "hybrid")
    for ours, theirs in (("hybrid", "of_raw"), ("of_raw", "hybrid")):
        sql = f'SELECT * FROM shop."{ours}" EXCEPT ALL SELECT * FROM shop."{theirs}"'
        assert engine.connection.execute(sql).fetchall() == []
    counted = 'SELECT count(*) FROM shop.hybrid WHERE "case" = 3'
    assert engine.connection.execute(counted).fetchall() == [
        (sum(row["case"] == 3 for row in latest_rows(growing.subject.schema, growing.landed, now=NOW)),)
    ]


def test_a_row_of_nothing_but_live_values_of_0_bytes_shows_beside_a_newer_tail(
    duckdb_engine: DuckDbEngine, tmp_path: Path
) -> None:
    """A view shows null for them; each row exists by one of them, whether state or tail has it (rules W2, C5)."""
    growing = Following(tmp_path, HOLLOW, cases=1)
    growing.batches = [
        [hollow(1, at=10, v=EMPTY), hollow(2, at=10, n=EMPTY), hollow(3, at=10, v=None), hollow(3, at=11, n=EMPTY)],
        [hollow(1, at=20, n=None), hollow(2, at=20, n=None), hollow(3, at=20, n=None, v=EMPTY), hollow(4, at=20, n=EMPTY)],
    ]
    growing.land_batch(0)
    materialize(duckdb_engine, growing.raw, growing.state)
    growing.land_batch(1)
    assert {row["c"] for row in latest_rows(HOLLOW.schema, growing.landed, now=NOW)} == {1, 3, 4}
    growing.check(duckdb_engine)
    assert_views_agree(duckdb_engine, growing)


def hollow(key: int, *, at: int, **values: Any) -> Fact:
    """Cells without a row marker; None deletes."""
    return Fact(
        FactKind.ROW,
        (3,),
        (key,),
        cells={name: cell(HOLLOW.schema.column(name).type, value, at=at) for name, value in values.items()},
    )


@pytest.mark.parametrize("by", [0, 1])
def test_a_tail_that_is_not_newer_is_reduced_with_the_state(duckdb_engine: DuckDbEngine, tmp_path: Path, by: int) -> None:
    growing = Following(tmp_path, CELLS, cases=CASES // 8)
    growing.land_batch(0)
    materialize(duckdb_engine, growing.raw, growing.state)
    newest = max(int(part.written) for fact in growing.landed for part in parts_of(fact))
    growing.batches[1] = [later(fact, by=0) for fact in growing.batches[1]]
    oldest = min(int(part.written) for fact in growing.batches[1] for part in parts_of(fact))
    growing.batches[1] = [later(fact, by=newest - oldest + by) for fact in growing.batches[1]]
    growing.land_batch(1)
    assert growing.sources().parts.is_fresh_newer == bool(by), "only a tail without a tie is newer"
    growing.check(duckdb_engine)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_footers_tell_the_first_and_last_write_time(tmp_path: Path, subject: Subject) -> None:
    facts = histories(subject, cases=20, seed=SEED).facts
    raw = land(tmp_path, subject.relation, facts)
    found = statistics_of(paths_by_name(DeltaTable(raw.location)).values(), subject.relation)
    times = [int(part.written) for fact in facts for part in parts_of(fact)]
    assert (found.oldest, found.newest) == (min(times), max(times))


def parts_of(fact: Fact) -> list[Any]:
    """Everything of a fact that has a write time."""
    elements = [part for column in fact.elements.values() for part in (column.deletion, *(cell for _, cell in column.cells))]
    return [part for part in (fact.liveness, fact.deletion, *fact.cells.values(), *elements) if part is not None]


def test_a_key_called_written_is_no_write_time(tmp_path: Path) -> None:
    named = table("named", partition={"case": INT, "written": INT}, clustering={"value": INT}, regulars={"cells": INT})
    relation = Relation(named)
    facts = [Fact(FactKind.ROW, (1, 7), (2,), liveness=Liveness(5)), Fact(FactKind.ROW, (1, 900), (2,), liveness=Liveness(6))]
    raw = land(tmp_path, relation, facts)
    found = statistics_of(paths_by_name(DeltaTable(raw.location)).values(), relation)
    assert (found.oldest, found.newest) == (5, 6)


def test_a_tail_that_is_taken_for_newer_shows_other_rows(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    growing = Following(tmp_path, CELLS, cases=CASES // 8)
    growing.batches.reverse()
    growing.land_batch(0)
    materialize(duckdb_engine, growing.raw, growing.state)
    growing.land_batch(1)
    assert not growing.sources().parts.is_fresh_newer
    growing.check(duckdb_engine)
    sources = growing.sources()
    tail = replace(sources.parts.of(Source.TAIL), statistics=Statistics(oldest=LATEST))
    mistaken = growing.rows(duckdb_engine, sources=replace(sources, parts=Parts({**sources.parts.files, Part.TAIL: tail})))
    expected = latest_rows(CELLS.schema, growing.landed, now=NOW)
    assert [*map(canonical_row, mistaken)] != [*map(canonical_row, expected)]


@pytest.mark.parametrize(("what", "at_once"), [("merge", True), ("merge", False), ("base", False)])
def test_what_a_merge_took_in_counts_as_what_a_tail_is_newer_than(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, at_once: bool
) -> None:
    small_tables(monkeypatch)
    growing = Following(tmp_path, CELLS, cases=CASES // 8)
    for number, merge in ((0, "base"), (4, what)):
        merge_next(monkeypatch, merge, at_once=at_once)
        growing.land_batch(number)
        materialize(duckdb_engine, growing.raw, growing.state)
    growing.land_batch(2)
    assert not growing.sources().parts.is_fresh_newer, "the batch that was merged is younger"
    growing.check(duckdb_engine)


@pytest.mark.spark
def test_spark_shows_newer_tails(spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tables(monkeypatch)
    growing = Following(tmp_path, CELLS, cases=12)
    monkeypatch.setattr("test_state_newer.TURNS", TURNS[:3])
    assert grow(growing, spark_engine, monkeypatch, lambda: None) == 2
