"""A serving table shows what raw shows, at each run's clock: on random histories cut anywhere, while rows expire."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.growing_states import LOOKED_UP, UNSHARED, small_tables
from helpers.histories import MAX_SECONDS, NOW
from helpers.kept_tables import Kept
from helpers.reading import CASES, SEED
from helpers.schemas import FIELDS, INT, LOGGED, NARROW, PLAIN, SUBJECTS, Subject, table
from helpers.serving import assert_serves, opened
from helpers.state_sizes import set_sizes
from helpers.tiers import often
from helpers.writing import Writer

from cdc_views.engines.base import Engine
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.errors import UsageError
from cdc_views.model.schema import DroppedColumn
from cdc_views.plan.build import Ask
from cdc_views.plan.serving import serving_names
from cdc_views.sql import rows_sql
from cdc_views.state import materialize
from cdc_views.state.serving import Served, serve
from cdc_views.storage.relation import RawTable, Relation

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

STATED = (*SUBJECTS, UNSHARED)
STEPS = ((0.4, NOW - 2), (0.02, NOW - 1), (0.3, NOW), (0.0, NOW + 1), (0.1, NOW + 2))
"""Parts of the facts that land before each run, and the run's clock."""


@pytest.mark.parametrize("subject", often(STATED, LOGGED, UNSHARED), ids=lambda s: s.name)
def test_a_serving_table_shows_what_raw_shows(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    kept = Kept(tmp_path, subject, cases=CASES // 4)
    total, done = len(kept.made.facts), list[Served]()
    for share, now in STEPS:
        kept.land(int(total * share))
        done.append(kept.run(duckdb_engine, now))
        assert_serves(duckdb_engine, kept.serving, kept.raw, now=now, how=f"at {now}, by {done[-1].line()}")
    assert done[0].why == "it held nothing of this state"
    if subject.relation.order.value == "micros":
        assert not any(one.why for one in done[1:]), "only a truncate needs all of it"
        assert all(one.is_new for one in done), "something expired whenever the clock moved"
    assert not kept.run(duckdb_engine, NOW + 2).is_new


@pytest.mark.parametrize("subject", often([NARROW, FIELDS, UNSHARED], NARROW), ids=lambda s: s.name)
def test_whatever_expires_is_noticed(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket for each partition, and only the clock moves: a row whose expiry is missed has nobody else to renew it."""
    set_sizes(monkeypatch, run_digits=((100_000_000, 12),))
    kept = Kept(tmp_path, subject, cases=30)
    kept.land(len(kept.made.facts))
    written = []
    for now in (NOW - 2, NOW - 1, NOW, NOW + 1, NOW + 2, MAX_SECONDS):
        written.append(kept.run(duckdb_engine, now).buckets)
        assert_serves(duckdb_engine, kept.serving, kept.raw, now=now, how=f"at {now}")
    assert all(0 < count < 30 for count in written[2:]), "each instant changes some partitions, and none all of them"


def test_only_buckets_that_changed_are_written(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    kept, writer = Kept(tmp_path, UNSHARED, cases=60), Writer(UNSHARED.schema)
    kept.land(len(kept.made.facts))
    kept.run(duckdb_engine, NOW + 2)
    before, version = kept.files, DeltaTable(kept.serving).version()
    facts = [writer.insert(7, 1.5, 1, Decimal(2), at=5, v=3)]
    write_deltalake(kept.raw.location, kept.raw.relation.rows(facts, landed_at=0), mode="append")
    kept.landed += facts
    assert kept.run(duckdb_engine, NOW + 2).buckets == 1
    assert DeltaTable(kept.serving).version() == version + 1
    assert len(before) > 10
    assert len(kept.files - before) == 1
    assert len(before - kept.files) <= 1, "a bucket that had no row has no file"
    assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW + 2)
    before = kept.files
    write_deltalake(kept.raw.location, kept.raw.relation.rows(kept.landed, landed_at=1), mode="append")
    assert not kept.run(duckdb_engine, NOW + 2).why
    assert not kept.files & before, "something landed in each bucket"
    assert {Path(file) for file in before} <= set(Path(kept.serving).rglob("*.parquet")), "what was replaced is still there"


def _next_changes(kept: Kept) -> list[int | None]:
    """What each row of the serving table has as `_changes_at`, nulls last."""
    found = DeltaTable(kept.serving).to_pyarrow_table().column("_changes_at").to_pylist()
    return sorted(found, key=lambda second: (second is None, second))


def test_a_row_that_expires_leaves_though_nobody_wrote_to_it(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    kept, writer = Kept(tmp_path, NARROW, cases=0), Writer(NARROW.schema)
    facts = [
        writer.insert(1, 1, at=1, expiry=(10, NOW + 10), v=1),
        writer.insert(1, 2, at=1, v=2),
        writer.static(2, at=1, s="stays"),
        writer.insert(2, 1, at=1, expiry=(20, NOW + 20), v=3),
    ]
    write_deltalake(kept.raw.location, kept.raw.relation.rows(facts, landed_at=0), mode="append")
    counted = {}
    for now in (NOW, NOW + 9, NOW + 10, NOW + 11, NOW + 20):
        is_new, seconds = kept.run(duckdb_engine, now).is_new, _next_changes(kept)
        counted[now - NOW] = (is_new, [second and second - NOW for second in seconds])
        assert_serves(duckdb_engine, kept.serving, kept.raw, now=now)
    # at 20 the static columns of partition 2 show as a row of their own (rule W3)
    left, none = [20, None], [None, None]
    assert counted == {0: (True, [10, *left]), 9: (False, [10, *left]), 10: (True, left), 11: (False, left), 20: (True, none)}
    assert opened(kept.serving, kept.raw).soonest == (("s", None),)


def test_a_table_that_grew_gets_more_buckets(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path, UNSHARED, cases=20)
    kept.land(60)
    kept.run(duckdb_engine, NOW)
    small_tables(monkeypatch)
    kept.land(60)
    assert kept.run(duckdb_engine, NOW).why == "it grew and gets more buckets"
    assert len(opened(kept.serving, kept.raw).soonest) > 1
    assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW)


def test_an_earlier_clock_counts_as_the_last(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    kept = Kept(tmp_path, UNSHARED, cases=20)
    kept.land(60)
    kept.run(duckdb_engine, NOW + 2)
    kept.land(60)
    assert kept.run(duckdb_engine, NOW - 2).clock == NOW + 2
    assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW + 2)


def test_names_that_a_serving_table_cannot_have_are_encoded() -> None:
    names = serving_names(table("t", partition={"id": INT}, regulars=dict.fromkeys(("Id", "OrderId", "_op", "x_a", "a b"), INT)))
    assert list(names.values()) == ["id", "x__49d", "OrderId", "x___op", "x_x__a", "x_a_20b"]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_it_has_the_views_columns_and_types(duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject) -> None:
    kept = Kept(tmp_path, subject, cases=5)
    kept.land(len(kept.made.facts))
    kept.run(duckdb_engine, NOW)
    raw, held = (f"read_parquet({DeltaTable(folder).file_uris()})" for folder in (kept.raw.location, kept.serving))
    view = rows_sql(Ask(kept.raw.relation), dialect_name="duckdb", strategy="auto", table=raw, clock=str(NOW))
    shown, found = (duckdb_engine.connection.sql(f"DESCRIBE {sql}").fetchall() for sql in (view, f"FROM {held}"))
    names = serving_names(subject.schema)
    theirs = [(names[name], kind) for name, kind, *_ in shown]
    assert [row[:2] for row in found] == [*theirs, ("_changes_at", "BIGINT"), ("_part", "VARCHAR")]


def _other_state(kept: Kept) -> None:
    kept.state += "2"


def _dropped_column(kept: Kept) -> None:
    gone = (DroppedColumn("again", 6),)
    schema = replace(kept.subject.schema, dropped=gone)
    kept.raw = RawTable(kept.raw.location, Relation(schema, kept.subject.order))


def _added_column(kept: Kept) -> None:
    columns = kept.subject.schema.columns
    schema = replace(kept.subject.schema, columns=(*columns, replace(columns[-1], name="New One")))
    kept.raw = RawTable(kept.raw.location, Relation(schema, kept.subject.order))


def _truncated(kept: Kept) -> None:
    facts = [Writer(UNSHARED.schema).truncate(at=3)]
    write_deltalake(kept.raw.location, kept.raw.relation.rows(facts, landed_at=0), mode="append")


WHOLE: dict[str, tuple[Callable[[Kept], None], str]] = {
    "another generation of state": (_other_state, "it held nothing of this state"),
    "a later drop time": (_dropped_column, "the schema, or what columns are shown as, changed"),
    "another column": (_added_column, "the schema, or what columns are shown as, changed"),
    "a truncate": (_truncated, "the table was truncated"),
    "the folder is gone": (lambda kept: shutil.rmtree(kept.serving), "it held nothing of this state"),
}


@pytest.mark.parametrize("how", WHOLE)
def test_what_changes_everything_writes_everything(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    small_tables(monkeypatch)
    change, why = WHOLE[how]
    kept = Kept(tmp_path, UNSHARED, cases=20)
    kept.land(100)
    kept.run(duckdb_engine, NOW)
    assert kept.run(duckdb_engine, NOW, full=True).why == "as asked for"
    before = kept.files
    change(kept)
    assert kept.run(duckdb_engine, NOW).why == why
    assert len(before) > 1
    assert not kept.files & before, "each bucket is written"
    assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW)
    assert not kept.run(duckdb_engine, NOW).is_new


def test_rows_of_another_state_are_all_written_anew(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    kept, other = Kept(tmp_path, UNSHARED, cases=5), Kept(tmp_path / "other", UNSHARED, cases=6, seed=SEED + 1)
    other.serving = kept.serving
    for one in (kept, other):
        one.land(30)
        assert one.run(duckdb_engine, NOW).why == "it held nothing of this state"
        assert_serves(duckdb_engine, one.serving, one.raw, now=NOW)
    assert kept.run(duckdb_engine, NOW).why == "the state is another one", "it was this one before, as after `rebuild --back`"
    assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW)


def test_a_run_that_lost_the_race_begins_anew(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run commits, with more of raw, between this one's look and its commit."""
    kept = Kept(tmp_path, UNSHARED, cases=20)
    kept.land(60)
    kept.run(duckdb_engine, NOW)
    kept.land(60)
    materialize(duckdb_engine, kept.raw, kept.state)
    write = duckdb_engine.write_serving

    def late(*args: object) -> None:
        monkeypatch.undo()
        kept.land(20)
        kept.run(duckdb_engine, NOW + 1)
        write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(duckdb_engine, "write_serving", late)
    assert not serve(duckdb_engine, kept.raw, kept.state, kept.serving, now=NOW).is_new
    assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW + 1)


CORRUPTIONS: dict[str, Callable[[str], None]] = {
    "a row is lost": lambda serving: DeltaTable(serving).delete('"case" = 5') and None,
    "a value is another": lambda serving: DeltaTable(serving).update({"v": "v + 1"}, predicate="v IS NOT NULL") and None,
}


@pytest.mark.parametrize("how", CORRUPTIONS)
def test_the_check_can_fail(duckdb_engine: DuckDbEngine, tmp_path: Path, how: str) -> None:
    kept = Kept(tmp_path, UNSHARED, cases=40)
    kept.land(len(kept.made.facts))
    kept.run(duckdb_engine, NOW)
    assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW)
    CORRUPTIONS[how](kept.serving)
    with pytest.raises(AssertionError, match="rows expected"):
        assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW)


@pytest.mark.parametrize("what", ["file", "folder", "state"])
def test_what_is_not_ours_is_left_alone(duckdb_engine: DuckDbEngine, tmp_path: Path, what: str) -> None:
    kept = Kept(tmp_path, UNSHARED, cases=5)
    kept.land(20)
    materialize(duckdb_engine, kept.raw, kept.state)
    if what == "file":
        Path(kept.serving).write_text("mine")
    elif what == "folder":
        Path(kept.serving).mkdir()
        (Path(kept.serving) / "notes.txt").write_text("mine")
    else:
        kept.serving = kept.state
    with pytest.raises(UsageError, match="no serving table of cdc-views"):
        kept.run(duckdb_engine, NOW)


@pytest.mark.spark
def test_spark_and_duckdb_keep_one_serving_table(
    spark_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State by DuckDB, and few columns, since Spark plans slowly; the slow tests have every type."""
    small_tables(monkeypatch)
    kept = Kept(tmp_path, LOOKED_UP, cases=20)
    engines: list[Engine] = [spark_engine, duckdb_engine, spark_engine]
    for engine, (share, now) in zip(engines, ((0.5, NOW - 1), (0.02, NOW), (0.02, NOW + 1)), strict=True):
        kept.land(int(len(kept.made.facts) * share))
        materialize(duckdb_engine, kept.raw, kept.state)
        done = serve(engine, kept.raw, kept.state, kept.serving, now=now)
        assert_serves(duckdb_engine, kept.serving, kept.raw, now=now, how=f"by {engine.name}")
    assert done.buckets
    assert not serve(spark_engine, kept.raw, kept.state, kept.serving, now=NOW + 1).is_new


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("subject", [s for s in STATED if s is not PLAIN], ids=lambda s: s.name)
def test_spark_writes_the_rows_that_its_view_shows(
    spark_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject
) -> None:
    kept = Kept(tmp_path, subject, cases=20)
    kept.land(len(kept.made.facts))
    materialize(duckdb_engine, kept.raw, kept.state)
    for engine in (duckdb_engine, spark_engine):
        serve(engine, kept.raw, kept.state, kept.serving, now=NOW, full=True)
        assert_serves(duckdb_engine, kept.serving, kept.raw, now=NOW, how=f"by {engine.name}", by=engine)


@pytest.mark.spark
@pytest.mark.slow
def test_both_engines_give_a_column_of_each_type_one_type(
    spark_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path
) -> None:
    kept = Kept(tmp_path, PLAIN, cases=20)
    kept.land(len(kept.made.facts))
    materialize(duckdb_engine, kept.raw, kept.state)
    found = []
    for engine in (duckdb_engine, spark_engine):
        serve(engine, kept.raw, kept.state, kept.serving, now=NOW, full=True)
        rows = DeltaTable(kept.serving).file_uris()
        read = duckdb_engine.connection.sql(f"SELECT * FROM read_parquet({rows})")
        found.append((read.columns, [str(kind) for kind in read.types], len(read.fetchall())))
    assert found[0] == found[1]
    assert spark_engine.session.sql(f"SELECT * FROM delta.`{kept.serving}`").count() == found[1][2] > 0
