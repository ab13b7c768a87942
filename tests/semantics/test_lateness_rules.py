"""Rule M2: what a state may forget by servers' clocks, and what is late after that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from helpers.aging import Aging
from helpers.histories import NOW
from helpers.reading import canonical_row, read_rows
from helpers.schemas import INT, TEXT, Subject, table
from helpers.state_sizes import set_sizes
from helpers.tiers import often
from helpers.writing import OPEN, Writer

from cdc_views.engines.base import Engine, StateWrite, Written
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.errors import EngineError
from cdc_views.operations.lateness import late_parts, lateness_seconds, latest_expiry
from cdc_views.plan.parts import STORED, Part, Source
from cdc_views.rules.cells import Deletion
from cdc_views.rules.facts import Fact
from cdc_views.state import Forgetting, sources_of

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

T = table("t", partition={"p": INT}, clustering={"c": INT}, statics={"s": INT}, regulars={"v": INT, "w": TEXT})
WRITE = Writer(T)
KEEPS = Forgetting()
OLD, RECENT = NOW - 1, NOW + 1
"""Servers' seconds before and after the horizon, which is NOW."""


def at_server(fact: Fact, seconds: int) -> Fact:
    """Return a deletion that a server made at these seconds."""
    assert fact.deletion is not None
    return replace(fact, deletion=Deletion(fact.deletion.written, seconds))


@pytest.fixture
def aging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aging:
    """A table whose every run writes a new base."""
    set_sizes(monkeypatch, rebase_share=0)
    return Aging(tmp_path, Subject(T))


def shown(aging: Aging, engine: Engine) -> list[tuple[int, int]]:
    """Return clustering key and value of each row; they are what the model shows."""
    rows = aging.rows(engine)
    assert [*map(canonical_row, rows)] == [*map(canonical_row, aging.expected())]
    return [(row["c"], row["v"]) for row in rows]


def no_resurrection(aging: Aging, engine: Engine) -> None:
    """Delete, wait past the horizon, purge; then the older insert lands."""
    insert, delete = WRITE.insert(1, 1, at=10, v=7), at_server(WRITE.delete(1, 1, at=11), OLD)
    aging.land(delete, WRITE.insert(1, 2, at=20, v=8))
    aging.materialize(engine)
    assert aging.state.rows(STORED) == 2, "one row, and what the partition has purged"
    aging.land(insert)
    assert shown(aging, engine) == [(2, 8)], "before the next run"
    done = aging.materialize(engine)
    assert (done.late, shown(aging, engine)) == (1, [(2, 8)])
    assert "1 facts landed too late" in done.line()
    for full in (False, True):
        assert aging.materialize(engine, full=full).late == 0, "told once"
        assert shown(aging, engine) == [(2, 8)]
        assert aging.quarantined() == aging.late()


def test_what_was_deleted_and_purged_does_not_rise_again(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    no_resurrection(aging, duckdb_engine)


@pytest.mark.spark
@pytest.mark.slow
def test_nor_on_spark(aging: Aging, spark_engine: SparkEngine) -> None:
    no_resurrection(aging, spark_engine)


@pytest.mark.parametrize("scope", ["row", "range", "partition", "cell", "expiry"])
def test_every_kind_of_deletion_leaves_and_is_remembered(aging: Aging, duckdb_engine: DuckDbEngine, scope: str) -> None:
    gone = {
        "row": at_server(WRITE.delete(1, 1, at=11), OLD),
        "range": at_server(WRITE.delete_range(1, at=11, start=OPEN, end=OPEN), OLD),
        "partition": at_server(WRITE.delete_partition(1, at=11), OLD),
        "cell": WRITE.update(1, 1, at=11, deleted_at=OLD, v=None),
        "expiry": WRITE.insert(1, 1, at=11, expiry=(5, OLD), v=3),
    }[scope]
    aging.land(gone)
    aging.materialize(duckdb_engine)
    assert [part for part in STORED if aging.state.of([part])] == [Part.PURGED]
    assert list(aging.purged().values()) == [11]
    aging.land(WRITE.insert(1, 1, at=11, v=7), WRITE.insert(1, 1, at=12, w="new"))
    assert aging.materialize(duckdb_engine).late == 1
    assert shown(aging, duckdb_engine) == [(1, None)]


FUTURE = NOW * 1_000_000 + 1
"""A write time (µs) just after the horizon, at which nothing can leave it."""
GONE = {
    "row": lambda at: at_server(WRITE.delete(1, 1, at=at), OLD),
    "range": lambda at: at_server(WRITE.delete_range(1, at=at, start=OPEN, end=OPEN), OLD),
    "partition": lambda at: at_server(WRITE.delete_partition(1, at=at), OLD),
    "cell": lambda at: WRITE.update(1, 1, at=at, deleted_at=OLD, v=None),
    "static": lambda at: WRITE.static(1, at=at, expiry=(5, OLD), s=3),
    "expiry": lambda at: WRITE.insert(1, 1, at=at, expiry=(5, OLD), v=3),
}


def nothing_is_late(aging: Aging, engine: Engine, scope: str, *, written: int) -> None:
    """Something ended by the server's clock, and was written later by the client's; then others write as ever."""
    aging.land(GONE[scope](written), WRITE.insert(2, 1, at=10, v=1))
    aging.materialize(engine)
    assert aging.purged() == {}
    aging.land(WRITE.insert(1, 1, at=11, v=7), WRITE.insert(1, 2, at=FUTURE - 1, v=8), WRITE.insert(1, 3, at=FUTURE, v=9))
    for full in (False, True):
        assert aging.materialize(engine, full=full).late == 0
        shown(aging, engine)


@pytest.mark.parametrize("written", often([FUTURE, 4_102_444_800_000_000, 1_700_000_000_000_000_000], FUTURE))
@pytest.mark.parametrize("scope", GONE)
def test_what_was_written_in_the_future_makes_nothing_late(
    aging: Aging, duckdb_engine: DuckDbEngine, scope: str, written: int
) -> None:
    nothing_is_late(aging, duckdb_engine, scope, written=written)


@pytest.mark.spark
@pytest.mark.slow
def test_nor_does_it_on_spark(aging: Aging, spark_engine: SparkEngine) -> None:
    nothing_is_late(aging, spark_engine, "row", written=FUTURE)


@pytest.mark.parametrize("scope", GONE)
def test_it_leaves_once_its_write_time_has_passed_the_horizon_too(aging: Aging, duckdb_engine: DuckDbEngine, scope: str) -> None:
    aging.land(GONE[scope](FUTURE - 1))
    aging.materialize(duckdb_engine)
    assert list(aging.purged().values()) == [FUTURE - 1]


@pytest.mark.parametrize("written", [1, -(1 << 62), (1 << 62)])
def test_old_client_timestamps_alone_make_nothing_late(aging: Aging, duckdb_engine: DuckDbEngine, written: int) -> None:
    aging.land(WRITE.insert(1, 1, at=1 << 61, v=1), WRITE.insert(2, 1, at=1 << 61, v=1))
    aging.materialize(duckdb_engine)
    aging.land(WRITE.insert(1, 2, at=written, v=7), at_server(WRITE.delete(3, 1, at=written), RECENT))
    assert aging.materialize(duckdb_engine).late == 0
    aging.land(WRITE.insert(1, 3, at=written, v=8))
    assert aging.materialize(duckdb_engine).late == 0
    assert shown(aging, duckdb_engine) == [(1, 1), (2, 7), (3, 8), (1, 1)]
    assert not aging.state.of(Source.PURGED), "a deletion is as old as the server's clock says, not the client's"


def test_only_its_own_partition_is_judged_by_what_a_partition_purged(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=100), OLD))
    aging.materialize(duckdb_engine)
    aging.land(WRITE.insert(2, 1, at=1, v=1), WRITE.insert(1, 2, at=101, v=2))
    assert aging.materialize(duckdb_engine).late == 0
    assert len(shown(aging, duckdb_engine)) == 2


def test_a_deletion_without_a_servers_time_stays(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), 0))
    aging.materialize(duckdb_engine)
    assert not aging.state.of(Source.PURGED)
    aging.land(WRITE.insert(1, 1, at=10, v=7))
    assert (aging.materialize(duckdb_engine).late, shown(aging, duckdb_engine)) == (0, [])


def test_nothing_is_purged_by_default(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), 1), WRITE.update(1, 2, at=11, expiry=(5, 6), v=3))
    aging.materialize(duckdb_engine, KEEPS)
    aging.land(WRITE.insert(1, 1, at=10, v=7), WRITE.update(1, 2, at=10, v=7))
    assert (aging.materialize(duckdb_engine, KEEPS).late, shown(aging, duckdb_engine)) == (0, [])
    assert not aging.state.of(Source.PURGED)


@pytest.mark.slow
def test_what_was_purged_is_remembered_when_purging_ends(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), OLD))
    aging.materialize(duckdb_engine)
    for n, full in enumerate((False, False, True, False)):
        aging.land(WRITE.insert(1, 1, at=10 - n, v=7), WRITE.insert(1, 2, at=20 + n, v=n))
        assert aging.materialize(duckdb_engine, KEEPS, full=full).late == 1
    assert shown(aging, duckdb_engine) == [(2, 3)]
    assert sum(aging.quarantined().values()) == 4


def test_of_a_fact_only_the_parts_that_are_late_are(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), OLD))
    aging.materialize(duckdb_engine)
    marker, newer = WRITE.insert(1, 1, at=5, w="late"), WRITE.update(1, 1, at=12, v=7)
    aging.land(replace(marker, cells={**marker.cells, **newer.cells}))
    aging.materialize(duckdb_engine)
    assert shown(aging, duckdb_engine) == [(1, 7)]
    parts = list(late_parts(aging.raw, aging.state))
    assert [(p.what, p.column and p.column.name, p.written, p.purged_through, p.value) for p in parts] == [
        ("row marker", None, 5, 11, None),
        ("cell", "w", 5, 11, "late"),
    ]
    assert (parts[0].key, parts[0].landed_at) == ({"p": 1, "c": 1}, 2_000_000)


def test_the_state_shrinks(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    texts = Random(1)
    dead = [WRITE.insert(p, c, at=11, expiry=(5, OLD), w=f"{texts.randrange(1 << 256):x}") for p in range(5) for c in range(200)]
    aging.land(*dead, WRITE.insert(1, 500, at=12, v=1))
    kept = aging.materialize(duckdb_engine, KEEPS)
    purged = aging.materialize(duckdb_engine, full=True)
    assert (kept.state_facts, purged.state_facts) == (1001, 1 + 5)
    assert purged.state_bytes < kept.state_bytes / 2


def test_what_lives_stays_though_it_is_older_than_what_was_purged(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(WRITE.insert(1, 1, at=1, v=7), WRITE.static(1, at=1, s=3), at_server(WRITE.delete(1, 2, at=11), OLD))
    aging.materialize(duckdb_engine)
    assert list(aging.purged().values()) == [11]
    assert [(row["v"], row["s"]) for row in aging.rows(duckdb_engine)] == [(7, 3)]


def test_a_run_that_fails_before_its_commit_is_done_again(
    aging: Aging, duckdb_engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, quarantine and watermark are one commit; there is no moment between them."""
    aging.land(at_server(WRITE.delete(1, 1, at=11), OLD))
    aging.materialize(duckdb_engine)
    aging.land(WRITE.insert(1, 1, at=10, v=7))
    version = DeltaTable(aging.location).version()

    def killed(*arguments: object, **more: object) -> None:
        raise EngineError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("cdc_views.state.run.commit_written", killed)
        with pytest.raises(EngineError, match="killed"):
            aging.materialize(duckdb_engine)
    assert DeltaTable(aging.location).version() == version
    assert [aging.materialize(duckdb_engine).late for _ in range(3)] == [1, 0, 0]
    assert aging.quarantined() == aging.late()


def test_two_runs_at_once_quarantine_a_fact_once(
    aging: Aging, duckdb_engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), OLD))
    aging.materialize(duckdb_engine)
    aging.land(WRITE.insert(1, 1, at=10, v=7))
    write, others = DuckDbEngine.write_state, list[int]()

    def overtaken(self: DuckDbEngine, asked: StateWrite) -> Written:
        if not others:
            others.append(0)
            others[0] = aging.materialize(duckdb_engine).late
        return write(self, asked)

    monkeypatch.setattr(DuckDbEngine, "write_state", overtaken)
    assert aging.materialize(duckdb_engine).late == 0
    assert others == [1]
    assert aging.quarantined() == aging.late()


def test_files_of_raw_that_were_merged_and_removed_are_not_needed(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), OLD))
    aging.materialize(duckdb_engine)
    aging.land(WRITE.insert(1, 1, at=10, v=7), WRITE.insert(1, 2, at=12, v=8))
    aging.materialize(duckdb_engine)
    raw = DeltaTable(aging.raw.location)
    raw.optimize.compact()
    raw.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert aging.materialize(duckdb_engine, full=True).is_full
    assert shown(aging, duckdb_engine) == [(2, 8)]
    assert aging.quarantined() == aging.late()


def test_when_events_came_back_into_raw_what_was_late_stays_out(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), OLD))
    aging.materialize(duckdb_engine)
    aging.land(WRITE.insert(1, 1, at=10, v=7), WRITE.insert(1, 2, at=12, v=8), WRITE.insert(2, 1, at=3, v=9))
    aging.materialize(duckdb_engine)
    whole = DeltaTable(aging.raw.location).version()
    DeltaTable(aging.raw.location).delete('"p" = 2')
    DeltaTable(aging.raw.location).restore(whole)
    done = aging.materialize(duckdb_engine)
    assert (done.is_full, done.why, done.late) == (True, "events were deleted from the raw table", 0)
    assert [(row["p"], row["v"]) for row in aging.rows(duckdb_engine)] == [(1, 8), (2, 9)]
    assert aging.quarantined() == aging.late()


def test_a_horizon_before_the_epoch_purges_nothing(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(at_server(WRITE.delete(1, 1, at=11), 1), WRITE.insert(1, 2, at=12, v=1, expiry=(1, 1)))
    aging.materialize(duckdb_engine, Forgetting(0))
    assert not aging.state.of(Source.PURGED)


def test_an_earlier_clock_is_told_what_was_purged(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(WRITE.insert(1, 1, at=11, expiry=(5, OLD), v=3), WRITE.insert(2, 1, at=11, expiry=(5, OLD - 9), v=3))
    aging.materialize(duckdb_engine)
    sources = sources_of(aging.raw, aging.location)
    assert sources is not None
    assert latest_expiry(sources.paths(Source.PURGED)) == OLD
    assert len(read_rows(duckdb_engine, aging.raw, as_of=OLD - 1)) == 1, "raw still shows it"


def test_a_state_without_a_horizon_reads_and_writes_as_before(aging: Aging, duckdb_engine: DuckDbEngine) -> None:
    aging.land(WRITE.insert(1, 1, at=1, v=1))
    aging.materialize(duckdb_engine, KEEPS)
    aging.land(WRITE.insert(1, 2, at=2, v=1))
    sources = sources_of(aging.raw, aging.location)
    assert sources is not None
    assert (sources.late_by, sources.paths(Source.PURGED), aging.state.of(Source.LATE).paths) == (None, (), ())


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200), ("10d", 864_000)])
def test_a_lateness_is_a_span(text: str, seconds: int) -> None:
    assert lateness_seconds(text) == seconds
