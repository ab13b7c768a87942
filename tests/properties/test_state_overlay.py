"""The state's overlay: rows that stand in for the base's, so that reads need not reduce what was materialized."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.histories import NOW
from helpers.overlays import ROWS, Kept, row
from helpers.reading import read_rows

from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.plan.parts import Part, Source
from cdc_views.rules.cells import Deletion
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.state import run
from cdc_views.state import state_table as state
from cdc_views.state.identity import StateChangedError

pytestmark = pytest.mark.heavy


@pytest.fixture(params=[0, 100], ids=["at_once", "by_a_run"])
def kept(duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Kept:
    """A state with a base of `ROWS` rows of 4 partitions; what comes next goes into an overlay."""
    monkeypatch.setattr(run, "AT_ONCE_SHARE", request.param)
    monkeypatch.setattr(run, "OVERLAY_SHARE", 0)
    monkeypatch.setattr(run, "REBASE_SHARE", 100)
    made = Kept(tmp_path, duckdb_engine)
    made.land([row(number % 4, number, at=10) for number in range(ROWS)])
    return made


def test_rows_of_the_overlay_stand_in_for_those_of_the_base(kept: Kept) -> None:
    assert kept.land([row(0, 0, at=20, v=7), row(9, 9, at=20)]).merged == "merge"
    sources = kept.sources()
    assert (len(sources.parts.of([Part.RUN]).paths), sum(map(_rows, sources.paths(Source.OVERLAY)))) == (0, 2)
    assert kept.land([row(0, 4, at=5), row(1, 1, at=30, v=8)]).merged == "merge"
    assert sum(map(_rows, kept.sources().paths(Source.OVERLAY))) == 4, "the overlay that was, and the rows that came"
    assert kept.is_right()


def test_what_is_much_takes_one_commit(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7)])
    before = DeltaTable(kept.state).version()
    kept.land([row(0, 1, at=19, v=8)])
    table = DeltaTable(kept.state)
    marks = [entry["operation"] for entry in table.history(table.version() - before)]
    assert len(marks) == (1 if run.AT_ONCE_SHARE == 0 else 2), "the bound of write times was recorded for the first"
    assert kept.is_right()


def test_a_read_reduces_nothing_once_it_is_in_the_overlay(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7)])
    split = kept.sources().split()
    assert split is not None
    assert (split.has(Source.OVERLAY), split.has(Source.FRESH)) == (True, False)


def test_a_row_of_which_nothing_is_left_hides_the_base_s(kept: Kept) -> None:
    gone = Fact(FactKind.PARTITION, (1,), deletion=Deletion(15, 1))
    assert kept.land([gone]).merged == "merge"
    assert kept.is_right()
    assert len(read_rows(kept.engine, kept.raw, as_of=NOW, sources=kept.sources())) == ROWS * 3 // 4
    kept.land([row(1, 1, at=14), row(1, 5, at=16, v=3)])
    assert kept.is_right(), "what was written before the deletion stays deleted"


def test_a_lost_overlay_shows(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.land([row(0, 0, at=20, v=7), Fact(FactKind.PARTITION, (1,), deletion=Deletion(15, 1))])
    assert kept.is_right()
    DeltaTable(kept.state).delete("_part >= 'q' AND _part < 't'")
    with pytest.raises(StateChangedError):
        kept.is_right()
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    assert not kept.is_right()


def test_a_base_takes_the_overlay_in(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.land([row(0, 0, at=20, v=7), Fact(FactKind.PARTITION, (1,), deletion=Deletion(15, 1))])
    monkeypatch.setattr(run, "REBASE_SHARE", 0)
    assert kept.land([row(2, 2, at=20, v=9)]).merged == "base"
    sources = kept.sources()
    assert not sources.parts.of([*Source.OVERLAY.value, Part.RUN])
    assert kept.is_right()


def _rows(file: str) -> int:
    return sum(kind == FactKind.ROW.value for kind in pq.read_table(file, columns=["_kind"])["_kind"].to_pylist())


def test_what_is_about_no_row_alone_is_sought_in_no_file_of_plain_rows(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7), Fact(FactKind.PARTITION, (1,), deletion=Deletion(15, 1))])
    facts = [row(2, 2, at=20, v=9), Fact(FactKind.PARTITION, (3,), deletion=Deletion(15, 1))]
    write_deltalake(kept.raw.location, kept.raw.relation.rows(facts, landed_at=0), mode="append")
    kept.facts += facts
    sources = kept.sources()
    plain = sources.paths(Source.PLAIN) + sources.paths(Source.OVERLAY_PLAIN)
    assert plain
    steps = kept.engine.sql(Read(kept.raw, as_of=NOW, sources=sources)).split('), "')
    (partitions,) = (step for step in steps if step.startswith("partition_facts"))
    assert [file for file in sources.paths() if file in partitions] == [file for file in sources.paths() if file not in plain]
    assert kept.is_right()
