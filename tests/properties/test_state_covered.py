"""Which rows of the base an overlay stands in for, by their places: what reads leave out without looking up a key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from helpers.histories import NOW
from helpers.overlays import ROWS, Kept, row

from cdc_views.engines.base import Engine, Read, ViewDefinition
from cdc_views.engines.duckdb.engine import DuckDbEngine, view_statement
from cdc_views.operations.erasing.rewriting import rewrite
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import COVERS, Part, Source
from cdc_views.quality.counting import counts
from cdc_views.rules.cells import Deletion
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.state import run, sources_of
from cdc_views.state.tail import ERASURE

pytestmark = pytest.mark.heavy


@pytest.fixture
def kept(duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """A base, and an overlay that replaces, deletes and adds rows of it."""
    monkeypatch.setattr(run, "AT_ONCE_SHARE", 0)
    monkeypatch.setattr(run, "OVERLAY_SHARE", 0)
    monkeypatch.setattr(run, "REBASE_SHARE", 100)
    made = Kept(tmp_path, duckdb_engine)
    made.land([row(number % 4, number, at=10) for number in range(ROWS)])
    made.land([row(0, 0, at=20, v=7), row(9, 9, at=20), Fact(FactKind.PARTITION, (1,), deletion=Deletion(15, 1))])
    return made


def covered(kept: Kept) -> dict[str, list[int]]:
    """The numbers of the rows covered of each file."""
    listed = pq.read_table(kept.sources().covered, columns=[COVERS])[COVERS].to_pylist()
    return {one["file"]: [n for n in range(len(one["rows"]) * 8) if one["rows"][n // 8] >> (7 - n % 8) & 1] for one in listed}


def test_the_places_are_those_of_the_overlay_s_keys(kept: Kept) -> None:
    found = set()
    for file, places in covered(kept).items():
        stored = pq.read_table(Path(kept.state) / file, columns=["p", "c"], partitioning=None).to_pylist()
        found |= {(stored[place]["p"], stored[place]["c"]) for place in places}
    assert found == {(0, 0)} | {(1, number) for number in range(1, ROWS, 4)}, "(9, 9) is not in the base"


def test_a_read_looks_up_no_key_of_the_overlay(kept: Kept) -> None:
    sources = kept.sources()
    text = kept.engine.sql(Read(kept.raw, as_of=NOW, sources=sources))
    assert ("ANTI" in text, sources.covered in text) == (False, True)
    assert kept.is_right()
    assert "ANTI" in kept.engine.sql(Read(kept.raw, as_of=NOW, sources=sources_of(kept.raw, kept.state, where="p = 0")))


def test_a_view_leaves_them_out_too(kept: Kept) -> None:
    statement = view_statement(ViewDefinition("shown", "orders", kept.raw, sources=kept.sources()))
    assert "ANTI" not in statement
    kept.engine.connection.execute("CREATE SCHEMA shown")
    kept.engine.connection.execute(statement)
    shown = kept.engine.connection.sql("SELECT count(*), count(DISTINCT (p, c)), sum(v) FROM shown.orders").fetchall()
    assert shown == [(ROWS * 3 // 4 + 1, ROWS * 3 // 4 + 1, 7)]


@pytest.mark.parametrize("is_more", [False, True])
def test_a_wrong_bit_shows(kept: Kept, *, is_more: bool) -> None:
    file = kept.sources().covered
    stored = pq.ParquetFile(file).read()
    flipped = [
        {"file": one["file"], "rows": bytes([255 if is_more else 0] * len(one["rows"]))} for one in stored[COVERS].to_pylist()
    ]
    place = stored.schema.get_field_index(COVERS)
    pq.write_table(stored.set_column(place, COVERS, pa.array(flipped, stored.schema.field(place).type)), file)
    assert not kept.is_right()
    counted = counts(kept.engine, kept.sources(), as_of=NOW, wanted={})
    duplicates = {check.name: check.broken for check in counted if check.broken}
    assert duplicates == ({} if is_more else {"one_row_per_key": 1}), "a row that is hidden is for the sample to find"


def test_other_files_of_the_base_are_looked_up_by_key(kept: Kept) -> None:
    def one_less(rows: pa.Table) -> pa.Table:
        keys = zip(rows["p"].to_pylist(), rows["c"].to_pylist(), strict=True)
        left = [key != (2, 2) for key in keys]
        return rows if all(left) else rows.filter(pa.array(left))

    assert rewrite(DeltaTable(kept.state), one_less, mark=ERASURE)
    sources = kept.sources()
    assert (sources.covered, sources.parts.has(Source.OVERLAY)) == ("", True)
    kept.facts = [fact for fact in kept.facts if (fact.partition, fact.clustering) != ((2,), (2,))]
    assert kept.is_right()


def test_a_base_has_no_rows_that_are_covered(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def files() -> int:
        return sum(f"{PART}={Part.COVERED.value}" in uri for uri in DeltaTable(kept.state).file_uris())

    assert files() == 1
    monkeypatch.setattr(run, "REBASE_SHARE", 0)
    assert kept.land([row(2, 2, at=20, v=9)]).merged == "base"
    assert (kept.sources().covered, files()) == ("", 0)
    assert kept.is_right()


@pytest.mark.spark
def test_an_overlay_that_spark_writes_covers_by_keys(kept: Kept, spark_engine: Engine) -> None:
    by_duckdb, kept.engine = kept.engine, spark_engine
    assert kept.is_right(), "Spark looks up the keys of an overlay that DuckDB wrote"
    assert kept.land([row(2, 2, at=20, v=9)]).merged == "overlay"
    assert (kept.sources().covered, kept.is_right()) == ("", True)
    kept.engine = by_duckdb
    assert kept.is_right()
    assert kept.land([row(3, 3, at=20, v=9)]).merged == "overlay"
    assert kept.sources().covered
    assert kept.is_right()
