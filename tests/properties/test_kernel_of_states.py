"""DuckDB's SQL in Spark's tasks over a state and its tail, against the oracle; also where each task opens its buckets' files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.aging import Aging
from helpers.growing_states import UNSHARED, Growing, merge_next, small_tables
from helpers.histories import NOW, histories
from helpers.kernels import TRUNCATES, through_spark
from helpers.reading import SEED, one_spelled, read_rows
from helpers.schemas import LOGGED, NARROW, WIDE, Subject
from helpers.state_sizes import set_sizes
from helpers.tiers import often

from cdc_views.engines.base import Engine, Read, Sources, Strategy
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.plan.parts import Part, Parts
from cdc_views.rules.cells import Deletion
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.state import materialize, sources_of
from cdc_views.storage.relation import RawTable

pyspark = pytest.importorskip("pyspark")
from cdc_views_spark import choosing  # noqa: E402  # without PySpark they cannot be imported
from cdc_views_spark.in_place import Spread  # noqa: E402

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("subject", often([UNSHARED, WIDE], WIDE), ids=lambda s: s.name)
def test_the_kernel_reads_state_and_tail(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    set_sizes(monkeypatch, worn_share=2)  # or buckets with hidden rows are rewritten at once
    growing = Growing(tmp_path, subject, cases=20, seed=SEED)
    total = len(growing.made.facts)
    for share, what in ((0.4, "base"), (0.1, "merge"), (0.05, "")):
        merge_next(monkeypatch, what, at_once=True)
        growing.land(int(total * share))
        materialize(duckdb_engine, growing.raw, growing.state)
    growing.land(int(total * 0.1))
    sources = growing.sources()
    assert sources.parts.of(Part).masked, "the test met no hidden rows"
    assert sources.parts.of([Part.RUN]), "the test met no run"
    assert kernel_engine.choice(Read(growing.raw, NOW, sources=sources)).strategy == "kernel"
    growing.check(kernel_engine, how="state and tail, in place")
    for digits in (1, 2) if subject is WIDE else (6,):  # 6 are more than the state's files have
        with in_buckets(digits):
            growing.check(kernel_engine, how=f"state and tail, in place by {digits} digits")
    through_spark(monkeypatch, tasks=3 if subject is WIDE else 1)
    growing.check(kernel_engine, how="state and tail, through Spark")


@contextmanager
def in_buckets(digits: int) -> Iterator[None]:
    """Let tasks open the files of buckets of so many digits."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cdc_views_spark.engine.spread_of", lambda facts: Spread(digits))
        yield


def truncated(tmp_path: Path, engine: DuckDbEngine) -> Growing:
    """A state of a whole-row source with a truncate in its base, and one in its tail that hides some rows only."""
    growing = Growing(tmp_path, LOGGED, cases=20, seed=SEED)
    truncates = [Fact(FactKind.TABLE, (), deletion=Deletion(at, 0)) for at in TRUNCATES]
    for truncate, count in zip(truncates, (len(growing.made.facts) * 2 // 3, len(growing.made.facts)), strict=True):
        growing.land(count)
        growing.landed.append(truncate)
        write_deltalake(growing.raw.location, LOGGED.relation.rows([truncate], landed_at=0), mode="append")
        if truncate is truncates[0]:
            materialize(engine, growing.raw, growing.state)
    return growing


@pytest.mark.parametrize("has_tail", [True, False], ids=["tail", "rest"])
def test_each_task_of_buckets_gets_every_truncate(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_tail: bool
) -> None:
    small_tables(monkeypatch)
    growing = truncated(tmp_path, duckdb_engine)
    if not has_tail:
        materialize(duckdb_engine, growing.raw, growing.state)
    with in_buckets(2):
        growing.check(kernel_engine, how="truncates, in place by 2 digits")


def test_a_file_of_several_buckets_that_a_task_takes_whole_is_noticed(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = truncated(tmp_path, duckdb_engine)
    monkeypatch.setattr("cdc_views.engines.duckdb.tables.is_within", lambda sources, path: True)
    with in_buckets(2), pytest.raises(pytest.fail.Exception, match="of the cases differ"):
        growing.check(kernel_engine)


def test_a_truncate_outside_its_bucket_that_is_left_out_is_noticed(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = truncated(tmp_path, duckdb_engine)
    monkeypatch.setattr("cdc_views.engines.buckets.either", lambda of_table, mine: mine)
    with in_buckets(2), pytest.raises(pytest.fail.Exception, match="of the cases differ"):
        growing.check(kernel_engine)


def test_rows_of_several_tasks_come_in_order(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = Growing(tmp_path, WIDE, cases=10, seed=SEED)
    growing.land(len(growing.made.facts))
    materialize(duckdb_engine, growing.raw, growing.state)
    read = Read(growing.raw, NOW, sources=growing.sources(), limit=11)
    with in_buckets(3):
        assert kernel_engine.read(read).to_pylist() == duckdb_engine.read(read).to_pylist()


def test_large_states_are_spread_over_the_cores(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = Growing(tmp_path, UNSHARED, cases=20, seed=SEED)
    growing.land(len(growing.made.facts) - 5)
    materialize(duckdb_engine, growing.raw, growing.state)
    of_few_bytes = type(kernel_engine)(kernel_engine.session, stops=False, kernel_bytes=1)
    assert "of a state at rest are scanned" in of_few_bytes.choice(Read(growing.raw, NOW, sources=growing.sources())).why
    growing.land(5)
    read = Read(growing.raw, NOW, sources=growing.sources())
    facts = choosing.Facts.of(kernel_engine.session, read)
    with monkeypatch.context() as on_a_cluster:
        on_a_cluster.setattr(choosing, "is_local", lambda session: False)
        assert replace(facts).held_bytes == facts.bytes
    assert facts.held_bytes is not None
    assert facts.bytes is not None
    assert 0 < facts.held_bytes < facts.bytes
    of_newer = type(kernel_engine)(kernel_engine.session, stops=False, kernel_bytes=facts.held_bytes + 1)
    assert of_newer.choice(read).strategy == "kernel"
    assert choosing.spread_of(facts) == Spread(0, threads=1)
    monkeypatch.setattr(choosing, "KERNEL_BYTES", facts.held_bytes + 1)
    cores = kernel_engine.session.sparkContext.defaultParallelism
    assert choosing.spread_of(facts).tasks == 1 << (cores - 1).bit_length()
    assert f"in {choosing.spread_of(facts).tasks} of Spark's tasks, which open the files" in kernel_engine.choice(read).why
    # with statics, a row waits for all rows of its partition
    shared = replace(facts, raw=RawTable(facts.raw.location, WIDE.relation))
    assert shared.held_bytes == shared.bytes


def test_the_kernel_leaves_out_what_is_late(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    set_sizes(monkeypatch, rebase_share=0.1)
    aging, facts = Aging(tmp_path, NARROW), list(histories(NARROW, cases=15, seed=SEED).facts)
    Random(SEED).shuffle(facts)
    first, second, third = (facts[start::3] for start in range(3))
    for some in (first, second):
        aging.land(*some)
        aging.materialize(duckdb_engine)
    aging.land(*third)
    sources = sources_of(aging.raw, aging.location)
    assert sources is not None
    assert aging.ages.late
    check_late(kernel_engine, aging, sources, monkeypatch)
    aging.materialize(duckdb_engine)
    quarantine = Parts({Part.LATE: aging.state.of([Part.LATE])})
    raw_alone = Sources(aging.raw, DeltaTable(aging.raw.location).version(), quarantine, is_raw=True)
    check_late(kernel_engine, aging, raw_alone, monkeypatch)


def check_late(engine: Engine, aging: Aging, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.late_by is not None
    expected = one_spelled(aging.subject.schema, aging.expected())
    for is_in_place in (True, False):
        with monkeypatch.context() as patched:
            if not is_in_place:
                through_spark(patched)
            read = read_rows(engine, aging.raw, as_of=NOW + 1, sources=sources, strategy=Strategy.KERNEL)
        assert one_spelled(aging.subject.schema, read) == expected
