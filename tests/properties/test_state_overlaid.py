"""Facts that are newer than all of a state's base are laid over its plain rows: the same rows as the oracle's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import write_deltalake
from strategies.histories import NOW, Histories, histories
from strategies.reading import CASES, SEED, assert_same, land, read_rows
from strategies.schemas import BIGINT, DECIMAL, INT, LOGGED, PLAIN, TEXT, Subject, table

from cdc_views.cells import Cell, Deletion, Liveness
from cdc_views.engines.base import Engine, RawTable, Read, Sources
from cdc_views.engines.duckdb import DuckDbEngine
from cdc_views.facts import Fact, FactKind
from cdc_views.materialize import materialize, sources_of
from cdc_views.oracle import latest_rows
from cdc_views.plan import overlay

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

CLUSTERED = Subject(
    table("clustered", partition={"case": INT}, clustering={"c": INT}, regulars={"v": INT, "w": TEXT, "x": BIGINT})
)
FORMS = Subject(table("forms", partition={"case": INT}, clustering={"c": DECIMAL}, regulars={"v": INT, "w": TEXT}))
"""Its keys are equal where they are the same number, and show as the least that was written."""


def times(fact: Fact) -> Iterator[int]:
    """Every write time in a fact."""
    stamped: list[Cell | Deletion | Liveness | None] = [fact.liveness, fact.deletion, *fact.cells.values()]
    stamped += [part for elements in fact.elements.values() for part in (elements.deletion, *(c for _, c in elements.cells))]
    yield from (part.written for part in stamped if part is not None)


def later(fact: Fact, by: int) -> Fact:
    """The fact, written later."""

    def moved(part):  # type: ignore[no-untyped-def]  # each kind of part to the same kind
        return None if part is None else replace(part, written=part.written + by)

    cells = {name: moved(cell) for name, cell in fact.cells.items()}
    return replace(fact, liveness=moved(fact.liveness), deletion=moved(fact.deletion), cells=cells)


class Overlaid:
    """A state of half the facts, and a tail of the others' rows, written after all of these."""

    def __init__(self, folder: Path, subject: Subject) -> None:
        self.made: Histories = histories(subject, cases=CASES // 2, seed=SEED)
        most = 1 << 110 if subject is LOGGED else 1 << 60  # so that there are later times
        facts = [fact for fact in self.made.facts if all(0 <= time <= most for time in times(fact))]
        base, others = facts[::2], [fact for fact in facts[1::2] if fact.kind is FactKind.ROW]
        gap = max(t for fact in base for t in times(fact)) - min(t for fact in others for t in times(fact)) + 1
        tail = [later(fact, gap) for fact in others]
        self.subject, self.facts, self.state = subject, [*base, *tail], str(folder / "state")
        self.raw: RawTable = land(folder, subject.relation, base)
        materialize(DuckDbEngine(), self.raw, self.state)
        write_deltalake(self.raw.location, subject.relation.rows(tail, landed_at=0), mode="append")

    @property
    def sources(self) -> Sources:
        """The state, which is as old as it was, and the tail."""
        sources = sources_of(self.raw, self.state)
        assert sources is not None
        assert sources.is_fresh_newer
        assert sources.plain
        return sources

    def check(self, engine: Engine, *, now: int, columns: tuple[str, ...] = ()) -> None:
        """Compare what the engine shows with the oracle."""
        expected = latest_rows(self.subject.schema, self.facts, now=now)
        if columns:
            expected = [{name: row[name] for name in columns} for row in expected]
        found = read_rows(engine, self.raw, as_of=now, sources=self.sources, columns=columns)
        assert_same(expected, found, of=self.made, how=f"{engine.name} overlaid at {now}")


@pytest.mark.heavy
@pytest.mark.parametrize("subject", [CLUSTERED, PLAIN, LOGGED], ids=lambda subject: subject.name)
def test_duckdb_lays_newer_facts_over_plain_rows(duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject) -> None:
    overlaid = Overlaid(tmp_path, subject)
    assert "overlaid_rows" in duckdb_engine.sql(Read(overlaid.raw, NOW, sources=overlaid.sources))
    for now in (NOW - 1, NOW, NOW + 1):
        overlaid.check(duckdb_engine, now=now)


SOME = [(CLUSTERED, ("case", "c", "v")), (LOGGED, ("case", "id", "num", "r_text"))]


@pytest.mark.parametrize(("subject", "columns"), SOME, ids=["clustered", "logged"])
def test_a_column_alone_exists_as_the_row_does(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, columns: tuple[str, ...]
) -> None:
    Overlaid(tmp_path, subject).check(duckdb_engine, now=NOW, columns=columns)


def test_a_broken_overlay_is_noticed(duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "_is_replaced", lambda name: overlay.Lit(False))
    with pytest.raises(pytest.fail.Exception, match="of the cases differ"):
        Overlaid(tmp_path, CLUSTERED).check(duckdb_engine, now=NOW)


def test_facts_that_are_not_newer_are_compared(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    overlaid = Overlaid(tmp_path, CLUSTERED)
    write_deltalake(overlaid.raw.location, CLUSTERED.relation.rows(overlaid.facts[:1], landed_at=0), mode="append")
    sources = sources_of(overlaid.raw, overlaid.state)
    assert sources is not None
    assert not sources.is_fresh_newer
    assert "overlaid_rows" not in duckdb_engine.sql(Read(overlaid.raw, NOW, sources=sources))


def test_keys_that_show_in_several_forms_are_compared(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    overlaid = Overlaid(tmp_path, FORMS)
    assert "overlaid_rows" not in duckdb_engine.sql(Read(overlaid.raw, NOW, sources=overlaid.sources))
    overlaid.check(duckdb_engine, now=NOW)


@pytest.mark.spark
def test_spark_lays_newer_facts_over_plain_rows(spark_engine: SparkEngine, tmp_path: Path) -> None:
    Overlaid(tmp_path, CLUSTERED).check(spark_engine, now=NOW)
