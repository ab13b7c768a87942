"""Two answers compared by sums of buckets: what comparing whole answers finds, and no row leaves the engine while they are equal.

The sums are equal on every engine. CDC_VIEWS_HISTORIES says how many histories a schema gets (200), CDC_VIEWS_SEED which (1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.histories import NOW, histories
from helpers.reading import CASES, SEED, land
from helpers.schemas import INT, KEYS, NARROW, PLAIN, SUBJECTS, TEXT, WIDE, Subject, table
from helpers.tiers import often
from helpers.values import some

from cdc_views.engines.base import Engine, Sources
from cdc_views.model.schema import Column
from cdc_views.model.types import EMPTY, is_text
from cdc_views.operations import answers
from cdc_views.operations.answers import Side, compare_sides
from cdc_views.operations.comparing import Comparison, compare
from cdc_views.plan.parts import FileSet, Part, Parts
from cdc_views.plan.sums import Places, Rows
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.state import materialize, sources_of
from cdc_views.storage.relation import RawTable, Relation

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

TEXTS = Subject(table("texts", partition={"case": INT}, clustering={"c": INT}, regulars={"v": TEXT, "w": TEXT}))


@dataclass
class Watched:
    """An engine that notes how many rows leave it."""

    engine: Engine
    rows_out: list[int] = field(default_factory=list)

    def rows(self, *arguments: Any) -> pa.Table:
        found = self.engine.rows(*arguments)
        self.rows_out.append(found.num_rows)
        return found


@pytest.fixture(autouse=True)
def many_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows have as many buckets as many rows have."""
    monkeypatch.setattr(answers, "ROWS_A_BUCKET", 4)


def raw_sources(folder: Path, subject: Subject, facts: Sequence[Fact], name: str) -> Sources:
    """A raw table of its own; `parts` tell of its size alone."""
    raw = land(folder, subject.relation, facts, name=name)
    return Sources(raw, 0, is_raw=True, parts=Parts({Part.PLAIN: FileSet(rows=len(facts))}))


def plain_sources(folder: Path, relation: Relation, facts: Sequence[Fact], name: str) -> Sources:
    """A state of plain rows alone, which are shown one by one, as they are."""
    path = folder / f"{name}.parquet"
    pq.write_table(relation.rows(facts, landed_at=0), path)
    files = FileSet((str(path),), rows=len(facts))
    return Sources(RawTable(str(folder / "raw"), relation), 0, Parts({Part.PLAIN: files}))


def rows_of_texts(count: int, **cells: str) -> list[Fact]:
    """Rows of one partition each, with the same cells."""
    values = {name: Cell(1, value, value.encode()) for name, value in cells.items()}
    return [Fact(FactKind.ROW, (case,), (7,), Liveness(1), cells=values) for case in range(count)]


def whole(engine: Engine, before: Sources, after: Sources) -> Comparison:
    """Both answers, pulled out of the engine."""
    tables = (engine.rows(Rows(s.raw.relation, NOW, s.split()).exact(), s) for s in (before, after))
    return compare(before.raw.relation, *tables)


def compared(engine: Engine, before: Sources, after: Sources) -> Comparison:
    return compare_sides(Side(engine, before, NOW), Side(engine, after, NOW))


@pytest.mark.parametrize("subject", often(SUBJECTS, NARROW, WIDE), ids=lambda s: s.name)
def test_it_finds_what_comparing_whole_answers_finds(duckdb_engine: Engine, tmp_path: Path, subject: Subject) -> None:
    made = histories(subject, cases=CASES, seed=SEED)
    first = made.facts[: len(made.facts) // 8]
    early, late = (raw_sources(tmp_path, subject, facts, n) for n, facts in (("early", first), ("all", made.facts)))
    for before, after in ((early, late), (late, early)):
        found = compared(duckdb_engine, before, after)
        assert found == whole(duckdb_engine, before, after)
        assert not found.is_equal


@pytest.mark.parametrize("subject", often(SUBJECTS, NARROW, KEYS), ids=lambda s: s.name)
def test_a_state_equals_its_raw(duckdb_engine: Engine, tmp_path: Path, subject: Subject) -> None:
    made = histories(subject, cases=CASES, seed=SEED)
    of_raw = raw_sources(tmp_path, subject, made.facts, "raw")
    materialize(duckdb_engine, of_raw.raw, str(tmp_path / "state"))
    state = sources_of(of_raw.raw, str(tmp_path / "state"))
    assert state is not None
    found = compared(duckdb_engine, of_raw, state)
    assert found.is_equal, found.differences
    assert found.equal == whole(duckdb_engine, of_raw, state).equal


@pytest.mark.spark
@pytest.mark.parametrize("subject", often(SUBJECTS, NARROW, PLAIN, WIDE), ids=lambda s: s.name)
def test_engines_give_equal_sums(duckdb_engine: Engine, spark_engine: SparkEngine, tmp_path: Path, subject: Subject) -> None:
    made = histories(subject, cases=CASES, seed=SEED)
    sources = raw_sources(tmp_path, subject, made.facts, "raw")
    for places in (Places(3), Places(4, of_row=8)):
        ours, theirs = (Side(engine, sources, NOW).sums(places) for engine in (duckdb_engine, spark_engine))
        assert ours == theirs
        assert len(ours) > 1


@pytest.mark.spark
def test_spark_finds_the_same(spark_engine: SparkEngine, tmp_path: Path) -> None:
    made = histories(NARROW, cases=CASES, seed=SEED)
    before, after = (raw_sources(tmp_path, NARROW, facts, n) for n, facts in (("early", made.early), ("all", made.facts)))
    assert compared(spark_engine, before, after) == whole(spark_engine, before, after)
    watched = Watched(spark_engine)
    assert compared(watched, after, after).is_equal  # type: ignore[arg-type]
    assert len(watched.rows_out) == 2, "sums alone"


@pytest.mark.parametrize("what", ["another", "null", "empty"])
def test_one_changed_cell_of_any_type_is_found(duckdb_engine: Engine, tmp_path: Path, what: str) -> None:
    """Each column has twenty rows of one value, of which one row changes."""

    def fact(case: int, column: Column, *value: Any) -> Fact:
        cells = [(column.name, Cell(1, v, serialize(column.type, v))) for v in value]
        return Fact(FactKind.ROW, (case, "id"), liveness=Liveness(1), cells=dict(cells))

    columns = [column for column in PLAIN.schema.columns if not column.is_key]
    before, after = list[Fact](), list[Fact]()
    for n, column in enumerate(columns):
        values = [v for v in some(Random(SEED), column.type, 8) if v is not EMPTY]
        first, second = next((a, b) for a in values for b in values if serialize(column.type, a) != serialize(column.type, b))
        before += [fact(20 * n + row, column, first) for row in range(20)]
        after += before[20 * n :]
        after[20 * n + 7] = fact(20 * n + 7, column, *{"another": (second,), "null": (), "empty": (EMPTY,)}[what])
    sources = (plain_sources(tmp_path, PLAIN.relation, facts, name) for name, facts in (("before", before), ("after", after)))
    found = compared(duckdb_engine, *sources)
    assert (found.equal, found.changed, found.gone, found.new) == (19 * len(columns), len(columns), 0, 0)
    assert {(d.key["case"], d.column) for d in found.differences} == {(str(20 * n + 7), c.name) for n, c in enumerate(columns)}
    assert len(found.differences) == len(columns)


def test_a_value_of_0_bytes_is_not_null(duckdb_engine: Engine, tmp_path: Path) -> None:
    columns = [c for c in PLAIN.schema.regulars if not is_text(c.type)]
    before, after = (
        raw_sources(
            tmp_path,
            PLAIN,
            [Fact(FactKind.ROW, (n, "id"), liveness=Liveness(1), cells={c.name: cell}) for n, c in enumerate(columns)],
            name,
        )
        for name, cell in (("empty", Cell(1, EMPTY, b"")), ("null", Cell(1, deleted_at=0)))
    )
    ours, theirs = (Side(duckdb_engine, sources, NOW).sums(Places(14)) for sources in (before, after))
    assert ours.keys() == theirs.keys()
    assert [bucket for bucket, sums in ours.items() if sums == theirs[bucket]] == []
    assert len(ours) == len(columns), "each row has a bucket of its own"


CHANGES: dict[str, list[Fact]] = {
    "a null turned into an empty text": rows_of_texts(1, v="a", w=""),
    "a value moved to the next column": rows_of_texts(1, w="a"),
    "a text that looks like two": rows_of_texts(1, v="a=1:b"),
    "a letter with a combining mark": rows_of_texts(1, v="a\u0301"),
    "a NUL": rows_of_texts(1, v="a\0"),
    "a text like null": rows_of_texts(1, v="~"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_texts_are_told_apart(duckdb_engine: Engine, tmp_path: Path, what: str) -> None:
    facts = rows_of_texts(30, v="a")
    before = plain_sources(tmp_path, TEXTS.relation, facts, "before")
    after = plain_sources(tmp_path, TEXTS.relation, [*CHANGES[what], *facts[1:]], "after")
    found = compared(duckdb_engine, before, after)
    assert (found.equal, found.changed) == (29, 1)
    assert {d.key["case"] for d in found.differences} == {"0"}


@pytest.mark.parametrize("copies", [1, 2])
def test_missing_and_repeated_rows_are_found(duckdb_engine: Engine, tmp_path: Path, copies: int) -> None:
    facts = rows_of_texts(30, v="a")
    before = plain_sources(tmp_path, TEXTS.relation, facts, "before")
    more = plain_sources(tmp_path, TEXTS.relation, [*facts, *facts[3:4] * copies], "more")
    fewer = plain_sources(tmp_path, TEXTS.relation, facts[copies:], "fewer")
    found = [compared(duckdb_engine, before, after) for after in (more, fewer)]
    assert [(f.equal, f.changed, f.gone, f.new) for f in found] == [(30, 0, 0, copies), (30 - copies, 0, copies, 0)]
    assert {d.key["case"] for d in found[0].differences} == {"3"}


def test_only_sums_leave_the_engine_while_nothing_differs(
    duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "ROWS_A_BUCKET", 100)
    facts = rows_of_texts(2_000, v="a")
    before, same, other = (
        plain_sources(tmp_path, TEXTS.relation, rows, name)
        for name, rows in (("before", facts), ("same", facts[::-1]), ("other", [*facts[:-1], *rows_of_texts(1, v="b")]))
    )
    watched = Watched(duckdb_engine)
    assert compared(watched, before, same) == Comparison(2_000, 0, 0, 0, ())  # type: ignore[arg-type]
    assert watched.rows_out == [32, 32]
    watched.rows_out.clear()
    assert compared(watched, before, other).gone == 1  # type: ignore[arg-type]
    assert watched.rows_out[:2] == [32, 32]
    assert max(watched.rows_out[2:]) < 300, "rows of the two buckets that differ"


def test_large_buckets_are_split_before_their_rows_are_read(
    duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "ROWS_A_BUCKET", 10_000)
    monkeypatch.setattr(answers, "MANY", 100)
    of_one = [replace(fact, partition=(0,), clustering=fact.partition) for fact in rows_of_texts(2_000, v="a")]
    before = plain_sources(tmp_path, TEXTS.relation, of_one, "before")
    after = plain_sources(tmp_path, TEXTS.relation, of_one[1:], "after")
    watched = Watched(duckdb_engine)
    found = compared(watched, before, after)  # type: ignore[arg-type]
    assert (found.equal, found.gone, found.uncompared) == (1_999, 1, 0)
    assert watched.rows_out[:2] == [1, 1], "one partition, so one bucket"
    assert sum(watched.rows_out[4:]) < 10


def test_where_too_many_rows_differ_the_others_are_counted(
    duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST_COMPARED", 50)
    before, after = (plain_sources(tmp_path, TEXTS.relation, rows_of_texts(200, v=text), text) for text in "ab")
    found = compared(duckdb_engine, before, after)
    assert 0 < found.changed <= 50
    assert (found.equal, found.changed + found.uncompared) == (0, 200)
    none = plain_sources(tmp_path, TEXTS.relation, [], "none")
    assert replace(compared(duckdb_engine, none, after), differences=()).uncompared > 100
    monkeypatch.setattr(answers, "MOST_COMPARED", 0)
    assert compared(duckdb_engine, before, after) == Comparison(0, 0, 0, 0, (), 200)
    assert not compared(duckdb_engine, before, after).is_equal
