"""A state without deletions of partitions and ranges is read without looking for any; one that has some is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.growing_states import UNSHARED, Growing, merge_next, small_tables
from helpers.histories import NOW
from helpers.reading import CASES, SEED, canonical_row, read_rows
from helpers.schemas import DECIMAL, INT, Subject, table

from cdc_views.engines.base import Engine, Read, Sources
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.plan.parts import NO_FILES, Part, Parts, Source
from cdc_views.rules.facts import FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import materialize

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

STATIC = Subject(
    table("static", partition={"case": INT}, clustering={"c1": INT, "c2": DECIMAL}, statics={"s": INT}, regulars={"v": INT})
)


class ByScope(Growing):
    """Facts about rows first, then those about more."""

    def __init__(self, folder: Path, subject: Subject, *, cases: int, seed: int) -> None:
        super().__init__(folder, subject, cases=cases, seed=seed)
        self._waiting.sort(key=lambda fact: fact.kind is not FactKind.ROW)  # those of a kind stay as they were shuffled
        self.rows = sum(fact.kind is FactKind.ROW for fact in self._waiting)
        assert 0 < self.rows < len(self._waiting)


def read_by_turns(growing: ByScope, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Land and read in every order of rows and scopes; whether the tail, and what is below it, may hold scopes."""
    rows, others = growing.rows, len(growing.made.facts) - growing.rows
    few = rows // 2, rows // 4, rows // 8
    mixed = (rows - sum(few)) // 2 + others // 2
    known = []
    for count, what in zip((*few, mixed, 10, 1000), ("base", "merge", "", "base", "merge", "base"), strict=True):
        merge_next(monkeypatch, what)
        growing.land(count)
        if Path(growing.state).exists():
            growing.check(engine, how="state and tail")
            parts = growing.sources().parts
            fresh, settled = (parts.of(source).statistics.has_scopes for source in (Source.FRESH, Source.BASE))
            known.append((fresh, settled))
        materialize(engine, growing.raw, growing.state)
    growing.check(engine, how="at rest")
    return known


@pytest.mark.slow
def test_scopes_are_looked_for_where_there_may_be_some(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = ByScope(tmp_path, UNSHARED, cases=CASES // 8, seed=SEED)
    known = read_by_turns(growing, duckdb_engine, monkeypatch)
    assert known[:2] == [(False, False)] * 2
    assert known[2] == (True, False)
    assert known[-1][1], "what the state has of them is not told"


def test_static_columns_show_where_nothing_was_said_about_them(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read_by_turns(ByScope(tmp_path, STATIC, cases=CASES // 8, seed=SEED), duckdb_engine, monkeypatch)
    assert known[0] == (False, False)


def believed(sources: Sources, has_scopes: Mapping[Part, bool]) -> Sources:
    """The sources with other statistics."""
    files = dict(sources.parts.files)
    for part, has in has_scopes.items():
        known = files.get(part, NO_FILES)
        files[part] = replace(known, statistics=replace(known.statistics, has_scopes=has))
    return replace(sources, parts=Parts(files))


def test_a_state_whose_scopes_are_overlooked_shows_other_rows(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    growing = ByScope(tmp_path, UNSHARED, cases=CASES // 8, seed=SEED)
    growing._waiting.reverse()
    growing.land(len(growing.made.facts) - growing.rows + 10)
    materialize(duckdb_engine, growing.raw, growing.state)
    growing.land(growing.rows // 2)
    growing.check(duckdb_engine)
    sources = believed(growing.sources(), dict.fromkeys(Source.ALL.value, False))
    found = read_rows(duckdb_engine, growing.raw, as_of=NOW, sources=sources)
    expected = latest_rows(UNSHARED.schema, growing.landed, now=NOW)
    assert [*map(canonical_row, found)] != [*map(canonical_row, expected)]


def test_the_text_does_not_look_for_what_is_not_there(tmp_path: Path, duckdb_engine: DuckDbEngine) -> None:
    growing = ByScope(tmp_path, UNSHARED, cases=CASES // 8, seed=SEED)
    growing.land(growing.rows // 2)
    materialize(duckdb_engine, growing.raw, growing.state)
    growing.land(5)
    sources = growing.sources()
    asked = [Read(growing.raw, as_of=NOW, sources=believed(sources, {Part.BASE: old})) for old in (False, True)]
    assert ["'range'" in duckdb_engine.sql(read) for read in asked] == [False, True]


@pytest.mark.slow
@pytest.mark.spark
def test_spark_looks_for_scopes_where_there_may_be_some(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = ByScope(tmp_path, UNSHARED, cases=12, seed=SEED)
    assert read_by_turns(growing, spark_engine, monkeypatch)[0] == (False, False)
