"""Merges of a state: new versions of rows stand beside the base, and deletion vectors hide the old ones from every reader."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from helpers.histories import NOW
from helpers.merged_states import ORDERS, ROWS, Kept, row
from helpers.reading import read_rows
from helpers.schemas import BIGINT, INT, TEXT, Subject, table
from helpers.state_sizes import set_sizes

from cdc_views.engines.base import Engine, Read, ViewDefinition
from cdc_views.engines.duckdb.engine import DuckDbEngine, view_statement
from cdc_views.engines.state_plan import digits_in, part_in
from cdc_views.operations.erasing.rewriting import rewrite
from cdc_views.plan.parts import Part, Source
from cdc_views.rules.cells import Cell, Deletion
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.state import materialize
from cdc_views.state import state_table as state
from cdc_views.state.identity import StateChangedError
from cdc_views.state.state_table import StateTable, open_state
from cdc_views.state.tail import ERASURE
from cdc_views.state.wear import worn_groups
from cdc_views.storage import deletion_vectors
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog

pytestmark = pytest.mark.heavy
GONE = Fact(FactKind.PARTITION, (1,), deletion=Deletion(15, 1))
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(params=[0, 100], ids=["at_once", "by_a_run"])
def kept(duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Kept:
    """A state with a base of `ROWS` rows of 4 partitions; what lands next is merged, and no bucket is rewritten."""
    set_sizes(monkeypatch, at_once_share=request.param, merge_share=0, rebase_share=100, worn_share=2)
    made = Kept(tmp_path, duckdb_engine)
    made.land([row(number % 4, number, at=10) for number in range(ROWS)])
    return made


def opened(kept: Kept) -> StateTable:
    """The state as it is now."""
    found = open_state(kept.state, kept.raw.relation, raw=TableLog.open(kept.raw.location))
    assert found is not None
    return found


def hidden_keys(kept: Kept) -> set[tuple[int, int]]:
    """The keys of the rows that deletion vectors hide."""
    found = set()
    for file in opened(kept).files:
        if file.deleted is not None:
            rows = pa.parquet.read_table(Path(kept.state) / file.path, columns=["p", "c"], partitioning=None).to_pylist()
            positions = deletion_vectors.read(Path(kept.state), file.deleted)
            found |= {(rows[position]["p"], rows[position]["c"]) for position in positions}
    return found


def keys_by_deltalake(location: str) -> list[tuple[int, int]]:
    """The keys of all rows that deltalake shows of a state."""
    sql = "SELECT p, c FROM state WHERE _kind = 'row' ORDER BY p, c"
    rows = pa.table(QueryBuilder().register("state", DeltaTable(location)).execute(sql).read_all())
    return list(zip(rows["p"].to_pylist(), rows["c"].to_pylist(), strict=True))


def test_a_merge_hides_the_rows_that_it_replaces(kept: Kept) -> None:
    assert kept.land([row(0, 0, at=20, v=7), row(9, 9, at=20), GONE]).merged == "merge"
    assert hidden_keys(kept) == {(0, 0)} | {(1, number) for number in range(1, ROWS, 4)}, "(9, 9) was not in the base"
    assert kept.is_right()
    assert kept.land([row(0, 4, at=5), row(2, 2, at=30, v=8), row(0, 0, at=30)]).merged == "merge"
    assert kept.is_right()


def test_a_read_reduces_nothing_once_it_is_merged(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7)])
    split = kept.sources().split()
    assert split is not None
    assert (split.has(Source.BASE), split.has(Source.FRESH)) == (True, False)
    assert "ANTI" not in kept.engine.sql(Read(kept.raw, as_of=NOW, sources=kept.sources()))


def test_other_readers_see_one_row_a_key(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7), row(9, 9, at=20)])
    expected = sorted([(number % 4, number) for number in range(ROWS)] + [(9, 9)])
    assert keys_by_deltalake(kept.state) == expected
    DeltaTable(kept.state).create_checkpoint()
    assert keys_by_deltalake(kept.state) == expected


@pytest.mark.spark
def test_spark_s_own_reader_sees_one_row_a_key(kept: Kept, spark_engine: Engine) -> None:
    kept.land([row(0, 0, at=20, v=7), row(9, 9, at=20)])
    rows = spark_engine.session.read.format("delta").load(kept.state).where("_kind = 'row'")  # type: ignore[attr-defined]
    assert sorted((row.p, row.c) for row in rows.collect()) == keys_by_deltalake(kept.state)
    kept.engine = spark_engine
    assert kept.is_right()
    assert kept.land([row(0, 0, at=40, v=9), GONE]).merged == "merge"
    assert kept.is_right()


@pytest.mark.spark
def test_spark_shows_a_column_that_is_newer_than_the_state(kept: Kept, spark_engine: Engine) -> None:
    """Delta's reader, which applies vectors, shows only columns that the table's schema has."""
    kept.land([row(0, 0, at=20, v=7)])
    widened = Subject(table("orders", partition={"p": INT}, clustering={"c": INT}, regulars={"v": BIGINT, "t": TEXT, "w": INT}))
    kept.raw = RawTable(kept.raw.location, widened.relation)
    told = replace(row(0, 4, at=30), cells={"w": Cell(30, 5, serialize(INT, 5))})
    rows = widened.relation.rows([told], landed_at=0)
    write_deltalake(kept.raw.location, rows, mode="append", schema_mode="merge")
    materialize(kept.engine, kept.raw, kept.state)
    found = read_rows(spark_engine, kept.raw, as_of=NOW, sources=kept.sources())
    assert [(r["p"], r["c"], r["w"]) for r in found if r["w"] is not None] == [(0, 4, 5)]


def test_a_view_leaves_hidden_rows_out(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7), row(9, 9, at=20), GONE])
    kept.engine.connection.execute("CREATE SCHEMA IF NOT EXISTS shown")  # type: ignore[attr-defined]
    kept.engine.connection.execute(  # type: ignore[attr-defined]
        view_statement(ViewDefinition("shown", "orders", kept.raw, sources=kept.sources()))
    )
    shown = kept.engine.connection.sql("SELECT count(*), count(DISTINCT (p, c)), sum(v) FROM shown.orders")  # type: ignore[attr-defined]
    assert shown.fetchall() == [(ROWS * 3 // 4 + 1, ROWS * 3 // 4 + 1, 7)]


def test_a_vector_that_is_lost_or_damaged_is_told(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7)])
    (vector,) = Path(kept.state).glob("deletion_vector_*.bin")
    shutil.rmtree(Path(kept.state) / deletion_vectors.BITS_FOLDER, ignore_errors=True)
    content = vector.read_bytes()
    for damaged in (content[:-1] + bytes([content[-1] ^ 1]), b"", None):
        vector.unlink()
        if damaged is not None:
            vector.write_bytes(damaged)
        with pytest.raises(Exception, match="damaged"):
            kept.is_right()
        vector.touch()


def test_rows_stay_hidden_however_the_folder_is_spelled(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7)])
    assert kept.is_right()
    folder = Path(kept.state)
    for spelling in ("{}//{}", "{}/./{}", "{}/{}/"):
        kept.state = spelling.format(folder.parent, folder.name)
        assert kept.is_right(), spelling


def test_rows_stay_hidden_in_a_folder_that_was_moved(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7)])
    assert kept.is_right()
    assert list(Path(kept.state, deletion_vectors.BITS_FOLDER).iterdir()), "a cache that names the former place"
    kept.state = str(Path(kept.state).rename(Path(kept.state).with_name("moved")))
    assert kept.is_right()


def test_a_state_without_its_vectors_shows_other_rows(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above would find if a reader overlooked vectors."""
    kept.land([row(0, 0, at=20, v=7), GONE])
    monkeypatch.setattr("cdc_views.engines.duckdb.masks.bits", lambda folder, file: bytes((file.rows + 7) // 8))
    shutil.rmtree(Path(kept.state) / deletion_vectors.BITS_FOLDER, ignore_errors=True)
    assert not kept.is_right()


def test_rows_that_somebody_else_removed_are_told(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.land([row(0, 0, at=20, v=7)])
    rows = TableLog.open(kept.state, version=DeltaTable(kept.state).version()).files
    (merged,) = {str(file.partition["_part"]) for file in rows if file.rows == 1}
    assert part_in(f"x/_part={merged}/y") == merged
    log = Path(kept.state) / "_delta_log"
    version = DeltaTable(kept.state).version() + 1
    gone = next(file for file in rows if file.rows == 1)
    remove = {"path": gone.path, "dataChange": True, "deletionTimestamp": 1, "partitionValues": dict(gone.partition)}
    entry = [{"commitInfo": {"operation": "DELETE"}}, {"remove": remove}]
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, entry)))
    with pytest.raises(StateChangedError):
        kept.is_right()
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    assert not kept.is_right()


def test_worn_buckets_are_rewritten_without_hidden_rows(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.land([row(0, 0, at=20, v=7), GONE])
    assert worn_groups(opened(kept).files, budget=0) == ()
    set_sizes(monkeypatch, worn_share=0.125)
    kept.land([row(0, 4, at=20, v=8)])
    found = opened(kept)
    assert [file.deleted for file in found.files] == [None] * len(found.files)
    assert found.rows(Source.BASE) == found.rows([Part.PLAIN]) + 1, "the deletion of partition 1"
    assert kept.is_right()
    assert keys_by_deltalake(kept.state) == sorted({(n % 4, n) for n in range(ROWS) if n % 4 != 1})


def test_a_forgotten_key_leaves_hidden_rows_too(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7)])

    def without(rows: pa.Table) -> pa.Table:
        left = [key != (0, 0) for key in zip(rows["p"].to_pylist(), rows["c"].to_pylist(), strict=True)]
        return rows if all(left) else rows.filter(pa.array(left))

    assert rewrite(DeltaTable(kept.state), without, mark=ERASURE)
    kept.facts = [fact for fact in kept.facts if (fact.partition, fact.clustering) != ((0,), (0,))]
    assert kept.is_right()
    active = [Path(kept.state) / file.path for file in opened(kept).files]
    keys = [key for file in active for key in pa.parquet.read_table(file, columns=["p", "c"], partitioning=None).to_pylist()]
    assert {"p": 0, "c": 0} not in keys
    assert kept.land([row(0, 4, at=20, v=8)]).merged == "merge"
    assert kept.is_right()


def test_what_is_about_no_row_alone_is_sought_in_no_file_of_plain_rows(kept: Kept) -> None:
    kept.land([row(0, 0, at=20, v=7), GONE])
    facts = [row(2, 2, at=20, v=9), Fact(FactKind.PARTITION, (3,), deletion=Deletion(15, 1))]
    write_deltalake(kept.raw.location, kept.raw.relation.rows(facts, landed_at=0), mode="append")
    kept.facts += facts
    sources = kept.sources()
    plain = sources.paths(Source.PLAIN)
    assert plain
    steps = kept.engine.sql(Read(kept.raw, as_of=NOW, sources=sources)).split("), ")
    (partitions,) = (step for step in steps if step.startswith("partition_facts AS"))
    assert [file for file in sources.paths() if file in partitions] == [file for file in sources.paths() if file not in plain]
    assert kept.is_right()


def test_no_read_opens_a_file_of_the_state_to_plan(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.land([row(0, 0, at=20, v=7), GONE])

    def opened(path: object, *_: object, **__: object) -> None:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr("cdc_views.engines.duckdb.tables.pq.read_schema", opened)
    monkeypatch.setattr("cdc_views.state.file_statistics.pq.read_metadata", opened)
    assert kept.is_right()


@pytest.mark.parametrize("is_read_first", [True, False])
def test_a_state_of_the_last_release_is_read_and_taken_over(
    duckdb_engine: DuckDbEngine, tmp_path: Path, *, is_read_first: bool
) -> None:
    with tarfile.open(DATA / "former_state.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    made = Kept.__new__(Kept)
    made.engine, made.state = duckdb_engine, str(tmp_path / "state")
    made.raw = RawTable(str(tmp_path / "raw"), ORDERS.relation)
    made.facts = [row(number % 4, number, at=10) for number in range(ROWS)]
    made.facts += [row(0, 0, at=20, v=7), row(9, 9, at=20), GONE, row(0, 4, at=30, v=8)]
    if is_read_first:
        assert made.is_right()
    done = materialize(duckdb_engine, made.raw, made.state)
    assert (done.merged, made.is_right()) == ("base", True)
    assert all(digits_in(part_in(path)) or "_part=rows" in path or "_part=judged" in path for path in made.sources().paths())
    assert not opened(made).is_former
    assert made.land([row(3, 3, at=40, v=1)]).merged == "merge"
    assert (made.is_right(), len(read_rows(duckdb_engine, made.raw, as_of=NOW, sources=made.sources()))) == (True, 31)
    assert not materialize(duckdb_engine, made.raw, made.state).is_new
