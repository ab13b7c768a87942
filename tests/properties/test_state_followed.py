"""A view over the newest state and what landed since, on Spark: it shows what the oracle shows, whatever lands later.

CDC_VIEWS_HISTORIES and CDC_VIEWS_SEED as in test_state.py.
"""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.aging import FORGETS
from helpers.growing_states import merge_next, small_tables
from helpers.histories import NOW
from helpers.lateness import Ages
from helpers.reading import CASES, SEED
from helpers.schemas import BIGINT, DECIMAL, INT, LOGGED, NARROW, SUBJECTS, TEXT, Subject, scalar, table
from helpers.spark_views import SCHEMA, Followed, RandomlyFollowed, assert_shows, now
from helpers.state_sizes import set_sizes
from helpers.tiers import often
from helpers.writing import cell

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.formats.base import order_key
from cdc_views.model.strategy import Strategy
from cdc_views.model.types import Kind, SetOf, Udt
from cdc_views.rules.cells import Deletion, Liveness
from cdc_views.rules.facts import Bound, Fact, FactKind

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.heavy]

SCOPED = Subject(
    table(
        "scoped",
        partition={"case": INT, "p": DECIMAL},
        clustering={"c": INT},
        statics={"s": TEXT, "ss": SetOf(INT, frozen=False)},
        regulars={"v": BIGINT, "t": TEXT, "u": Udt("tests", "clocked", (("at", scalar(Kind.TIME)), ("n", INT)), frozen=True)},
    )
)
"""Every scope of deletion, statics, a collection, and a user type of which a time may be null."""
TURNS = (("base", True), ("", False), ("runs", True), ("merge", False), ("", True))
"""What becomes of the runs after a landing, and whether the view is made again, as `materialize` does unless it is killed."""
FEW_TURNS = (("base", False), ("merge", True))
"""For `make test`, where a read of a view takes seconds of a JVM: a state that the view was not told of, and one that it was."""


@pytest.mark.parametrize("subject", often([*SUBJECTS, SCOPED], SCOPED), ids=lambda s: s.name)
def test_a_view_shows_what_the_oracle_shows_whatever_lands_later(
    duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    kept = Followed.of(tmp_path, subject, overlap=0 if subject is SCOPED else 3600)
    growing = RandomlyFollowed(kept, cases=max(4, CASES // 12), seed=SEED)
    growing.land(0.4)
    kept.materialize(duckdb_engine)
    kept.apply(spark_engine)
    for number, (what, is_applied) in enumerate(TURNS if CASES >= 3000 else FEW_TURNS):
        merge_next(monkeypatch, what, at_once=number % 2 == 1)
        growing.land(0.1)
        kept.check(spark_engine)
        kept.materialize(duckdb_engine)
        if is_applied:
            kept.apply(spark_engine)
    kept.check(spark_engine)


@pytest.mark.parametrize("strategy", often([Strategy.WINDOW, Strategy.SELF_JOIN], Strategy.WINDOW))
def test_other_strategies_show_the_same(
    duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path, strategy: Strategy
) -> None:
    kept = Followed.of(tmp_path, NARROW)
    kept.strategy = strategy
    growing = RandomlyFollowed(kept, cases=max(4, CASES // 12), seed=SEED)
    growing.land(0.6)
    kept.materialize(duckdb_engine)
    kept.apply(spark_engine)
    growing.land(0.4)
    kept.check(spark_engine)


def logged(number: int, *, at: int, v: int = 0) -> Fact:
    """A whole row."""
    return Fact(
        FactKind.ROW, (1, number, Decimal(1)), (), Liveness(order_key(at)), cells={"r_bigint": cell(BIGINT, v, at=order_key(at))}
    )


def test_truncates_that_land_later_are_seen(duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path) -> None:
    kept = Followed.of(tmp_path, LOGGED)
    kept.land(*(logged(number, at=1) for number in range(5)))
    kept.materialize(duckdb_engine)
    kept.apply(spark_engine)
    kept.land(Fact(FactKind.TABLE, (), deletion=Deletion(order_key(2), 0)), logged(7, at=3))
    assert len(kept.check(spark_engine)) == 1
    kept.materialize(duckdb_engine)  # the view of before reads the truncate twice
    kept.check(spark_engine)
    kept.land(logged(1, at=1), logged(2, at=4))
    assert len(kept.check(spark_engine)) == 2


def test_deletions_of_partitions_and_ranges_and_statics_that_land_later_are_seen(
    duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    def row(p: int, c: int) -> Fact:
        return Fact(FactKind.ROW, (p, Decimal(1)), (c,), Liveness(10), cells={"v": cell(BIGINT, c, at=10)})

    kept = Followed.of(tmp_path, SCOPED)
    kept.land(*(row(p, c) for p in range(4) for c in range(4)))
    kept.materialize(duckdb_engine)
    kept.apply(spark_engine)
    kept.land(
        Fact(FactKind.PARTITION, (0, Decimal(1)), deletion=Deletion(20, 1)),
        Fact(
            FactKind.RANGE,
            (1, Decimal(1)),
            deletion=Deletion(20, 1),
            start=Bound((2,), inclusive=True),
            end=Bound((), inclusive=True),
        ),
        Fact(FactKind.STATIC, (2, Decimal(1)), cells={"s": cell(TEXT, "shared", at=20)}),
        Fact(FactKind.STATIC, (9, Decimal(1)), cells={"s": cell(TEXT, "alone", at=20)}),
    )
    assert len(kept.check(spark_engine)) == 2 + 4 + 4 + 1


def test_a_bound_that_is_too_late_is_seen_by_the_check(
    duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    """What the tests here would find if a view read too little."""
    kept = Followed.of(tmp_path, NARROW, overlap=-3600)
    growing = RandomlyFollowed(kept, cases=4, seed=SEED)
    growing.land(0.5)
    kept.materialize(duckdb_engine)
    kept.apply(spark_engine)
    growing.land(0.5)
    with pytest.raises(AssertionError):
        kept.check(spark_engine)
    kept.overlap = 0
    kept.apply(spark_engine)  # its state covers the first half: the second is the tail
    kept.check(spark_engine)


def test_late_facts_are_left_out(
    duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view was made before its state purged anything."""
    small_tables(monkeypatch)
    set_sizes(monkeypatch, rebase_share=0.1)
    kept, ages = Followed.of(tmp_path, SCOPED, forgets=True), Ages(SCOPED.schema, SCOPED.order)

    def landed(*facts: Fact) -> None:
        kept.land(*facts)
        ages.land(facts)

    def row(c: int, *, at: int) -> Fact:
        return Fact(FactKind.ROW, (1, Decimal(1)), (c,), Liveness(at), cells={"v": cell(BIGINT, c, at=at)})

    landed(row(1, at=10), row(2, at=40))
    kept.materialize(duckdb_engine)
    kept.apply(spark_engine)
    landed(Fact(FactKind.ROW, (1, Decimal(1)), (1,), deletion=Deletion(20, NOW - 5)))
    kept.materialize(duckdb_engine, FORGETS)
    ages.purge(horizon=NOW)
    assert ages.through
    landed(row(1, at=15), row(3, at=19), row(4, at=30))
    assert ages.late
    kept.check(spark_engine, ages.counted)
    kept.materialize(duckdb_engine, FORGETS)
    kept.check(spark_engine, ages.counted)
    kept.apply(spark_engine)
    found = kept.check(spark_engine, ages.counted)
    with pytest.raises(AssertionError):
        assert_shows(SCOPED.schema, found, kept.landed, now=int(time.time()))


def read_files(engine: SparkEngine, name: str) -> set[str]:
    """The names of the files that a read of a view opens."""
    return {path.rsplit("/", 1)[1] for path in engine.session.sql(f"SELECT * FROM {SCHEMA}.{name}").inputFiles()}


def test_a_read_opens_only_files_of_the_tail(duckdb_engine: DuckDbEngine, spark_engine: SparkEngine, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    from cdc_views.landing.delta import raw_log_settings

    kept = Followed.of(tmp_path, NARROW, overlap=60)
    DeltaTable(kept.raw.location).alter.set_table_properties(raw_log_settings())
    growing = RandomlyFollowed(kept, cases=4, seed=SEED)
    for _ in range(4):
        kept.land(*growing.made.early[:5], landed_at=now() - 3600 * 1_000_000)
    covered = {uri.rsplit("/", 1)[1] for uri in DeltaTable(kept.raw.location).file_uris()}
    kept.materialize(duckdb_engine)
    kept.apply(spark_engine)
    growing.land(0.1)
    tail = {uri.rsplit("/", 1)[1] for uri in DeltaTable(kept.raw.location).file_uris()} - covered
    found = read_files(spark_engine, "narrow")
    assert tail <= found
    assert not covered & found
    kept.check(spark_engine)
    DeltaTable(kept.raw.location).create_checkpoint()
    assert not covered & read_files(spark_engine, "narrow"), "checkpoints keep landing times, too"
    kept.overlap = 7200
    kept.apply(spark_engine)
    assert covered <= read_files(spark_engine, "narrow")
