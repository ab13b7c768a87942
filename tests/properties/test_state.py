"""A state plus what landed since shows what raw shows: on random histories cut anywhere, in any order, with repeats.

CDC_VIEWS_HISTORIES says how many histories a schema gets (200), CDC_VIEWS_SEED which ones (1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.growing_states import EARLIER, LATER, LOOKED_UP, MERGES, UNSHARED, Growing, merge_next, small_tables
from helpers.histories import NOW
from helpers.reading import CASES, SEED, canonical_row, land, read_rows
from helpers.schemas import INT, SUBJECTS, TEXT, Subject, table
from helpers.tiers import often

from cdc_views.engines.base import Engine, RawTable
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.state_plan import digest, digits_in, part_in
from cdc_views.model.types import ListOf, Udt
from cdc_views.rules.cells import Cell
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Elements, Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import materialize, sources_of
from cdc_views.state import state_table as state
from cdc_views.state.identity import RawMismatchError, StateChangedError

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy


STATED = (*SUBJECTS, UNSHARED)
LONG = ("unshared", "narrow", "logged")


STEPS = (
    (0.3, "base"),
    (0.02, ""),
    (0.03, ""),
    (0.03, "runs"),
    (0.05, "merge"),
    (0.04, ""),
    (0.06, "merge"),
    (0.05, ""),
    (0.2, "base"),
    (0.05, "merge"),
    (0.06, ""),
)
"""Parts of the facts, and what the runs are merged into after each."""
SHORT = ((0.3, "base"), (0.02, ""), (0.03, ""), (0.03, "runs"), (0.15, "merge"), (0.2, "base"), (0.2, "merge"))
"""Each kind of merge, after a base and after another: enough where what differs between schemas is a row's reduction."""
BRIEF = SHORT[:6]
KINDS = set(MERGES)


@pytest.mark.parametrize("subject", often(STATED, UNSHARED), ids=lambda s: s.name)
def test_state_and_tail_show_what_raw_shows(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = Growing(tmp_path, subject, cases=max(50, CASES // 4), seed=SEED)
    total, merged = len(growing.made.facts), set[str]()
    for number, (share, what) in enumerate(SHORT if CASES <= 200 and subject is UNSHARED else STEPS):
        merge_next(monkeypatch, what, at_once=number % 4 > 1)
        growing.land(int(total * share))
        if (tmp_path / "state").exists():
            growing.check(duckdb_engine, how="state and tail")
        merged.add(materialize(duckdb_engine, growing.raw, growing.state).merged)
        growing.check(duckdb_engine, how="state at rest")
    assert merged == KINDS, "the test met no merge of some kind"
    for now in (EARLIER, LATER):
        growing.check(duckdb_engine, now=now, how=f"at {now}")


def test_a_second_run_commits_nothing(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    growing = Growing(tmp_path, UNSHARED, cases=5, seed=SEED)
    growing.land(40)
    first = materialize(duckdb_engine, growing.raw, growing.state)
    version = DeltaTable(growing.state).version()
    again = materialize(duckdb_engine, growing.raw, growing.state)
    assert (first.is_new, first.is_full, again.is_new) == (True, True, False)
    assert DeltaTable(growing.state).version() == version


def test_only_what_landed_since_is_read(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    growing = Growing(tmp_path, UNSHARED, cases=20, seed=SEED)
    growing.land(100)
    materialize(duckdb_engine, growing.raw, growing.state)
    DeltaTable(growing.raw.location).optimize.compact()  # a version of its own, without data
    assert not materialize(duckdb_engine, growing.raw, growing.state).is_new
    before = set(DeltaTable(growing.raw.location).file_uris())
    growing.land(10)
    landed = set(DeltaTable(growing.raw.location).file_uris()) - before
    assert {path for path in growing.sources().paths() if not path.startswith(growing.state)} == landed
    assert {*growing.sources().paths()} == landed | {*DeltaTable(growing.state).file_uris()}
    done = materialize(duckdb_engine, growing.raw, growing.state)
    assert (done.facts, done.is_full) == (11, False), "10 facts and one repeated"
    growing.check(duckdb_engine)


def test_what_was_rewritten_before_it_was_seen_is_read(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    growing = Growing(tmp_path, UNSHARED, cases=20, seed=SEED)
    growing.land(60)
    materialize(duckdb_engine, growing.raw, growing.state)
    growing.land(10)
    growing.land(10)
    DeltaTable(growing.raw.location).optimize.compact()
    DeltaTable(growing.raw.location).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    growing.check(duckdb_engine, how="state and optimized tail")
    assert not materialize(duckdb_engine, growing.raw, growing.state).is_full
    growing.check(duckdb_engine)


def test_events_deleted_from_raw_are_missed(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    growing = Growing(tmp_path, UNSHARED, cases=20, seed=SEED)
    growing.land(100)
    materialize(duckdb_engine, growing.raw, growing.state)
    DeltaTable(growing.raw.location).delete('"case" = 3')
    with pytest.raises(RawMismatchError, match="took events out of it"):
        sources_of(growing.raw, growing.state)
    for full in (False, True):
        with pytest.raises(RawMismatchError, match=r"\(DELETE\) took events out of it"):
            materialize(duckdb_engine, growing.raw, growing.state, full=full)
    growing.state = str(tmp_path / "another state")
    growing.landed = [fact for fact in growing.landed if fact.partition[:1] != (3,)]
    assert materialize(duckdb_engine, growing.raw, growing.state).is_full
    growing.check(duckdb_engine)


def test_a_state_of_another_raw_table_is_neither_read_nor_written_over(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    growing = Growing(tmp_path, UNSHARED, cases=5, seed=SEED)
    growing.land(20)
    materialize(duckdb_engine, growing.raw, growing.state)
    other = Growing(tmp_path / "other", UNSHARED, cases=6, seed=SEED + 1)
    other.state = growing.state
    other.land(30)
    with pytest.raises(RawMismatchError, match="another Delta table"):
        sources_of(other.raw, other.state)
    for full in (False, True):
        with pytest.raises(RawMismatchError, match="another Delta table"):
            materialize(duckdb_engine, other.raw, other.state, full=full)
    growing.check(duckdb_engine)
    other.state = str(tmp_path / "another state")
    assert materialize(duckdb_engine, other.raw, other.state).is_full
    other.check(duckdb_engine)


LOOKUPS = ('"case" = 7', '"case" = 7 AND "id" = \'a\'', '7 = "case" AND v > 2', '"case" IN (7, 8)')


@pytest.mark.parametrize("subject", [LOOKED_UP, SUBJECTS[0]], ids=lambda subject: subject.name)
def test_a_lookup_reads_few_files_and_the_same_rows(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = Growing(tmp_path, subject, cases=40, seed=SEED)
    for number, (share, what) in enumerate(STEPS if subject.name in LONG or CASES > 200 else SHORT):
        merge_next(monkeypatch, what, at_once=number % 4 > 1)
        growing.land(int(len(growing.made.facts) * share))
        materialize(duckdb_engine, growing.raw, growing.state)
    for where in LOOKUPS:
        is_known = '"id"' not in where or subject.schema.has("id")
        look_up(duckdb_engine, growing, where if is_known else where.replace("\"id\" = 'a'", "v = 1"))


def look_up(engine: DuckDbEngine, growing: Growing, where: str) -> None:
    """Compare what a condition reads with what passes of everything."""
    whole, some = (sources_of(growing.raw, growing.state, where=given) for given in (None, where))
    assert whole is not None
    assert some is not None
    if "IN" not in where:
        assert len(some.paths()) < len(whole.paths()) / 3
        assert all(digest("7").startswith(digits_in(part_in(path))) for path in some.paths()), "files of other buckets"
    found, expected = (
        [canonical_row(row) for row in read_rows(engine, growing.raw, as_of=NOW, where=where, sources=given)]
        for given in (some, None)
    )
    assert found == expected, where


CORRUPTIONS: dict[str, Callable[[str], None]] = {
    "rows of some cases are lost": lambda state: DeltaTable(state).delete("_kind = 'row' AND \"case\" < 20") and None,
    "deletions are lost": lambda state: DeltaTable(state).delete("_kind <> 'row'") and None,
}


@pytest.mark.parametrize("how", CORRUPTIONS)
def test_the_check_can_fail(duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    growing = Growing(tmp_path, SUBJECTS[0], cases=40, seed=SEED)
    growing.land(len(growing.made.facts) // 2)
    materialize(duckdb_engine, growing.raw, growing.state)
    growing.land(len(growing.made.facts))
    CORRUPTIONS[how](growing.state)
    with pytest.raises(StateChangedError, match=r"\(DELETE\) is somebody else's"):
        growing.check(duckdb_engine)
    monkeypatch.setattr(state, "why_changed", lambda *_, **__: "")
    with pytest.raises(pytest.fail.Exception):
        growing.check(duckdb_engine)


@pytest.mark.spark
def test_spark_state_and_tail_show_what_raw_shows(
    spark_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = Growing(tmp_path, UNSHARED, cases=20, seed=SEED)
    total, merged = len(growing.made.facts), set[str]()
    turns: tuple[Engine, ...] = (spark_engine, spark_engine, duckdb_engine, spark_engine, spark_engine, duckdb_engine)
    both = (*turns, spark_engine, duckdb_engine, *turns)
    if CASES < 3000:  # a run of Spark takes seconds: each kind of merge once
        both = (duckdb_engine, spark_engine, duckdb_engine, spark_engine, spark_engine, spark_engine)
    for number, (engine, (share, what)) in enumerate(zip(both, STEPS if CASES >= 3000 else BRIEF, strict=False)):
        merge_next(monkeypatch, what, at_once=number % 4 > 1)
        growing.land(int(total * share))
        merged.add(materialize(engine, growing.raw, growing.state).merged)
    growing.land(int(total * 0.05))
    growing.check(spark_engine, how="state and tail")
    growing.check(duckdb_engine, how="state and tail, both engines' work")
    assert merged == KINDS
    assert spark_dictionaries(growing.state) == {False}
    assert spark_engine.session.conf.get("parquet.enable.dictionary", "unset") == "unset", "the session is left as it was"


def spark_dictionaries(state: str) -> set[bool]:
    """Whether columns of the files that Spark wrote have a dictionary."""
    footers = map(pq.read_metadata, DeltaTable(state).file_uris())
    groups = [footer.row_group(0) for footer in footers if "parquet-mr" in footer.created_by]
    return {group.column(n).has_dictionary_page for group in groups for n in range(group.num_columns)}


def grown(*fields: str) -> Subject:
    """A table whose user type has these fields, in every place that a user type may have."""
    kind = Udt("tests", "place", tuple((name, INT) for name in fields))
    regulars = {
        "u": replace(kind, frozen=False),
        "f": kind,
        "l": ListOf(kind, frozen=False),
        "n": Udt("tests", "nest", (("p", kind), ("q", TEXT))),
    }
    return Subject(table("grown", partition={"case": INT}, clustering={"c": INT}, regulars=regulars))


def placed(subject: Subject, c: int, value: tuple[int | None, ...], *, at: int) -> Fact:
    """A row that has the user type's value everywhere."""
    kinds = {column.name: column.type for column in subject.schema.regulars}
    nested = {"f": value, "n": (value, "q")}
    cells = {name: Cell(at, native, serialize(kinds[name], native)) for name, native in nested.items()}
    kind = kinds["f"]
    assert isinstance(kind, Udt)
    given = [(name, v) for (name, _), v in zip(kind.fields, value, strict=True) if v is not None]
    fields = tuple((name, Cell(at, v, serialize(INT, v))) for name, v in given)
    item = (UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"), Cell(at, value, serialize(kind, value)))
    return Fact(FactKind.ROW, (1,), (c,), cells=cells, elements={"u": Elements(None, fields), "l": Elements(None, (item,))})


@pytest.mark.slow
@pytest.mark.spark
def test_spark_reads_what_was_written_before_a_user_type_gained_a_field(
    spark_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path
) -> None:
    old, new = grown("a", "b"), grown("a", "b", "c")
    before, state = land(tmp_path, old.relation, [placed(old, c, (c, None), at=1) for c in (1, 2)]), str(tmp_path / "state")
    materialize(spark_engine, before, state)
    raw = RawTable(before.location, new.relation)
    facts = [placed(new, c, (c, None, None), at=1) for c in (1, 2)]

    def check(engine: Engine, *, raw_only: bool = False) -> None:
        found = read_rows(engine, raw, as_of=NOW, sources=None if raw_only else sources_of(raw, state))
        assert [*map(canonical_row, found)] == [*map(canonical_row, latest_rows(new.schema, facts, now=NOW))]

    check(spark_engine)
    check(spark_engine, raw_only=True)
    later = [placed(new, c, (c, 8, 9), at=2) for c in (2, 3)]
    write_deltalake(raw.location, raw.relation.rows(later, landed_at=1), mode="append", schema_mode="merge")
    facts += later
    check(spark_engine)
    check(duckdb_engine)
    materialize(spark_engine, raw, state)
    check(duckdb_engine)
