"""States that DuckDB writes in Spark's tasks, a task for some buckets, against the oracle; each step of a run."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.aging import Aging
from helpers.growing_states import UNSHARED, Growing, merge_next, small_tables
from helpers.histories import histories
from helpers.kernels import TRUNCATES
from helpers.reading import SEED, one_spelled
from helpers.schemas import LOGGED, NARROW, WIDE, Subject
from helpers.state_sizes import set_sizes
from helpers.tiers import often

from cdc_views.engines.base import Written
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.errors import EngineError
from cdc_views.plan import names
from cdc_views.plan.compact import Step
from cdc_views.rules.cells import Deletion
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.state import materialize

pyspark = pytest.importorskip("pyspark")
from cdc_views_spark import engine as spark_module  # noqa: E402  # without PySpark they cannot be imported
from cdc_views_spark import writing_in_place  # noqa: E402
from cdc_views_spark.in_place import Spread  # noqa: E402

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.spark


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Step, int]]:
    """The step and the tasks of each commit, at most 4 of a merge, others of as little as there is; none by Spark's own plan."""
    found, really = list[tuple[Step, int]](), writing_in_place.write_in_tasks

    def noted(session: Any, pieces: list[writing_in_place.Piece]) -> Written:
        found.append((pieces[0].write.step, len(pieces)))
        return really(session, pieces)

    def no_plan(*arguments: Any) -> Written:
        raise AssertionError("Spark's own plan wrote a commit")

    monkeypatch.setattr(writing_in_place, "spread_of", lambda facts: Spread(2))
    monkeypatch.setattr(writing_in_place, "BYTES_PER_TASK", 1)
    monkeypatch.setattr(spark_module, "write_in_tasks", noted)
    monkeypatch.setattr(spark_module, "write_state", no_plan)
    return found


@pytest.mark.parametrize("subject", often([UNSHARED, WIDE], WIDE), ids=lambda s: s.name)
def test_each_step_in_tasks(
    kernel_engine: SparkEngine,
    duckdb_engine: DuckDbEngine,
    tmp_path: Path,
    subject: Subject,
    monkeypatch: pytest.MonkeyPatch,
    commits: list[tuple[Step, int]],
) -> None:
    small_tables(monkeypatch)
    growing = Growing(tmp_path, subject, cases=20, seed=SEED)
    total = len(growing.made.facts)
    steps = ((0.4, "base", False), (0.1, "", False), (0.1, "merge", False), (0.1, "merge", True), (0.05, "", False))
    for share, what, at_once in (*steps, (0.05, "runs", False), (0.05, "runs", False), (0.05, "base", False)):
        merge_next(monkeypatch, what, at_once=at_once)
        set_sizes(monkeypatch, worn_share=0 if at_once else 2)
        growing.land(int(total * share))
        materialize(kernel_engine, growing.raw, growing.state)
        growing.check(duckdb_engine, how=f"written in tasks, {what}")
    assert {step for step, _ in commits} == set(Step)
    assert {step for step, tasks in commits if tasks >= 4} >= {Step.MERGE, Step.BUCKETS, Step.BASE}


def truncates_in(state: str) -> list[int]:
    """The write times of the facts about the whole table in all files of a state."""
    tables = [pq.ParquetFile(path).read().to_pylist() for path in DeltaTable(state).file_uris()]
    facts = [row for rows in tables for row in rows if row[names.KIND] == FactKind.TABLE.value]
    return [fact[names.DELETED]["written"] for fact in facts]


def truncated(tmp_path: Path, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> Growing:
    """A state of a whole-row source whose base, written in tasks of a bucket each, has a truncate."""
    small_tables(monkeypatch)
    growing = Growing(tmp_path, LOGGED, cases=20, seed=SEED)
    growing.land(len(growing.made.facts) // 2)
    materialize(engine, growing.raw, growing.state)
    growing.land(len(growing.made.facts))
    truncate = Fact(FactKind.TABLE, (), deletion=Deletion(TRUNCATES[0], 0))
    growing.landed.append(truncate)
    write_deltalake(growing.raw.location, LOGGED.relation.rows([truncate], landed_at=0), mode="append")
    materialize(engine, growing.raw, growing.state)
    return growing


def test_one_task_writes_what_is_about_the_whole_table(
    kernel_engine: SparkEngine,
    duckdb_engine: DuckDbEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commits: list[tuple[Step, int]],
) -> None:
    growing = truncated(tmp_path, kernel_engine, monkeypatch)
    merge_next(monkeypatch, "base")
    write_deltalake(growing.raw.location, LOGGED.relation.rows(growing.landed[:5], landed_at=0), mode="append")
    materialize(kernel_engine, growing.raw, growing.state)
    growing.check(duckdb_engine, how="truncated")
    assert commits[-1][0] is Step.BASE
    assert commits[-1][1] >= 4
    assert len(truncates_in(growing.state)) == 1


@pytest.mark.usefixtures("commits")
def test_late_facts_in_tasks(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    set_sizes(monkeypatch, rebase_share=0.1)
    aging, facts = Aging(tmp_path, NARROW), list(histories(NARROW, cases=15, seed=SEED).facts)
    Random(SEED).shuffle(facts)
    for start in range(4):
        aging.land(*facts[start::4])
        aging.materialize(kernel_engine)
        assert one_spelled(NARROW.schema, aging.rows(duckdb_engine)) == one_spelled(NARROW.schema, aging.expected())
    assert aging.ages.late
    assert aging.quarantined() == aging.late()


@pytest.mark.usefixtures("commits")
def test_a_damaged_file_ends_a_run_in_words(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    growing = Growing(tmp_path, NARROW, cases=10, seed=SEED)
    growing.land(len(growing.made.facts) // 2)
    materialize(duckdb_engine, growing.raw, growing.state)
    growing.land(len(growing.made.facts))
    merge_next(monkeypatch, "merge", at_once=True)
    for path in growing.sources().paths():
        if "_part=" in path:
            Path(path).write_bytes(b"no Parquet file")
    with pytest.raises(EngineError) as raised:
        materialize(kernel_engine, growing.raw, growing.state)
    assert str(raised.value).startswith("DuckDB: "), raised.value
    assert "magic bytes" in str(raised.value), raised.value


def test_a_merge_of_one_key_takes_one_task(
    kernel_engine: SparkEngine,
    duckdb_engine: DuckDbEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commits: list[tuple[Step, int]],
) -> None:
    small_tables(monkeypatch)
    set_sizes(monkeypatch, run_digits=((100_000_000, 5),), worn_share=2)
    growing = Growing(tmp_path, NARROW, cases=20, seed=SEED)
    growing.land(len(growing.made.facts))
    materialize(kernel_engine, growing.raw, growing.state)
    merge_next(monkeypatch, "merge")
    fact = growing.landed[0]
    write_deltalake(growing.raw.location, NARROW.relation.rows([fact], landed_at=0), mode="append")
    materialize(kernel_engine, growing.raw, growing.state)
    growing.check(duckdb_engine, how="one key merged")
    assert commits[-1] == (Step.MERGE, 1)
