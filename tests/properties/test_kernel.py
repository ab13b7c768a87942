"""DuckDB's SQL in Spark's tasks, against the oracle: in one that opens the files, in one and several that Spark hands facts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from helpers.histories import LATE_LANDING, NOW, Histories, histories
from helpers.kernels import TRUNCATES, through_spark
from helpers.reading import CASES, SEED, Row, assert_same, land, read_rows
from helpers.schemas import LOGGED, NARROW, SUBJECTS, WIDE, Subject
from helpers.tiers import often
from helpers.timeline import read_versions, told, written_by

from cdc_views.engines.base import Read, Strategy, ask_of
from cdc_views.engines.duckdb.engine import DuckDbEngine, files_read
from cdc_views.engines.snapshot import snapshot_of
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.operations.reading import condition_errors
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.sql import query_sql
from cdc_views.storage.relation import RawTable

pyspark = pytest.importorskip("pyspark")
from cdc_views_spark import choosing, executors  # noqa: E402  # without PySpark they cannot be imported
from cdc_views_spark.kernel import FACTS, Kernel, in_task  # noqa: E402
from cdc_views_spark.raw_files import raw_files  # noqa: E402

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.spark

WAYS = ("in place", "one", "several")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the kernel runs: one task opens the files, or Spark hands facts to one task, or to several."""
    if request.param != "in place":
        through_spark(monkeypatch, tasks=1 if request.param == "one" else 3)
    return str(request.param)


@dataclass
class Landed:
    """Histories in a raw table; whole-row ones have truncates, which are about every case."""

    folder: Path
    subject: Subject
    made: Histories = field(init=False)
    raw: RawTable = field(init=False)

    def __post_init__(self) -> None:
        self.made = histories(self.subject, cases=CASES, seed=SEED)
        if self.subject is LOGGED:
            truncates = tuple(Fact(FactKind.TABLE, (), deletion=Deletion(at, 0)) for at in TRUNCATES)
            self.made = replace(self.made, early=(*self.made.early, truncates[0]), late=(*self.made.late, truncates[1]))
        self.raw = land(self.folder, self.subject.relation, self.made.early, self.made.late)

    def check(self, engine: SparkEngine, facts: list[Fact] | tuple[Fact, ...] | None = None, **asked: Any) -> None:
        """Compare the kernel's rows with the oracle's."""
        expected = latest_rows(self.subject.schema, self.made.facts if facts is None else facts, now=NOW)
        self.compare(expected, engine, **asked)

    def compare(self, expected: list[Row], engine: SparkEngine, **asked: Any) -> None:
        """Compare the kernel's rows with these."""
        read = {"as_of": NOW, "strategy": Strategy.KERNEL, **asked}
        assert_same(expected, read_rows(engine, self.raw, **read), of=self.made, how=f"the kernel, {asked}")

    def rows(self) -> list[Row]:
        """The oracle's rows."""
        return latest_rows(self.subject.schema, self.made.facts, now=NOW)


@pytest.fixture(scope="module")
def landed_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    known: dict[str, Landed] = {}

    def make(subject: Subject) -> Landed:
        if subject.name not in known:
            known[subject.name] = Landed(tmp_path_factory.mktemp(subject.name), subject)
        return known[subject.name]

    return make


FEW = (*product(["in place"], SUBJECTS), ("one", NARROW), *product(["several"], [NARROW, LOGGED]))


@pytest.mark.parametrize(
    ("way", "subject"), often(product(WAYS, SUBJECTS), *FEW), ids=lambda v: getattr(v, "name", v), indirect=["way"]
)
@pytest.mark.usefixtures("way")
def test_the_kernel_shows_what_the_oracle_shows(kernel_engine: SparkEngine, landed_of: Any, subject: Subject) -> None:
    landed_of(subject).check(kernel_engine)


def test_a_truncate_that_one_task_alone_gets_is_noticed(
    kernel_engine: SparkEngine, landed_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_spark(monkeypatch)
    monkeypatch.setattr(Kernel, "_spread", lambda self, facts, tasks: facts.repartition(tasks, "case", "id"))
    with pytest.raises(pytest.fail.Exception, match="of the cases differ"):
        landed_of(LOGGED).check(kernel_engine)


def test_a_partition_that_two_tasks_share_is_noticed(
    kernel_engine: SparkEngine, landed_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_spark(monkeypatch)
    monkeypatch.setattr(Kernel, "_spread", lambda self, facts, tasks: facts.repartition(tasks))
    with pytest.raises(pytest.fail.Exception, match="of the cases differ"):
        landed_of(NARROW).check(kernel_engine)


@pytest.mark.parametrize("way", ["in place", "several"], indirect=True)
@pytest.mark.usefixtures("way")
def test_the_kernel_takes_every_option_of_a_read(kernel_engine: SparkEngine, landed_of: Any) -> None:
    narrow: Landed = landed_of(NARROW)
    rows, columns = narrow.rows(), ("w", "case")
    narrow.compare(rows[:37], kernel_engine, limit=37)
    narrow.compare([], kernel_engine, limit=0)
    narrow.compare([{n: row[n] for n in columns} for row in rows], kernel_engine, columns=columns)
    some = [row for row in rows if row["case"] % 7 == 3 and row["s"] is None]
    narrow.compare(some[:5], kernel_engine, where='"case" % 7 = 3 AND s IS NULL', limit=5)
    narrow.compare([row for row in rows if row["case"] == 3], kernel_engine, where='"case" = 3')
    narrow.check(kernel_engine, narrow.made.early, landed_as_of=LATE_LANDING - 1)
    narrow.check(kernel_engine, written_by(narrow.made.facts, 4), written_as_of=4)


@pytest.mark.parametrize("way", ["in place", "several"], indirect=True)
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("subject", [WIDE, LOGGED], ids=lambda s: s.name)
def test_the_kernel_gives_the_versions_that_duckdb_gives(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, landed_of: Any, subject: Subject
) -> None:
    raw = landed_of(subject).raw
    found = [*map(told, read_versions(kernel_engine, raw, as_of=NOW, strategy=Strategy.KERNEL))]
    assert found
    assert found == [*map(told, read_versions(duckdb_engine, raw, as_of=NOW))]


def test_the_kernel_runs_the_text_that_duckdb_runs(landed_of: Any) -> None:
    read = Read(landed_of(WIDE).raw, as_of=NOW, where="v > 1", limit=3)
    assert Kernel(read).sql() == query_sql(ask_of(read), dialect_name="duckdb", strategy="auto", table=FACTS, is_pretty=False)


def test_its_rows_have_the_types_of_a_plan(kernel_engine: SparkEngine, landed_of: Any) -> None:
    for subject in (NARROW, LOGGED):
        read = Read(landed_of(subject).raw, as_of=NOW)
        by_kernel, by_plan = (
            kernel_engine.dataframe(replace(read, strategy=strategy)).schema for strategy in (Strategy.KERNEL, Strategy.AGGREGATE)
        )
        assert by_kernel.simpleString() == by_plan.simpleString()


def reasons(engine: SparkEngine, read: Read) -> Iterator[str]:
    choice = engine.choice(read)
    yield from (choice.strategy, choice.why)


def test_auto_says_why(
    spark_engine: SparkEngine, kernel_engine: SparkEngine, landed_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Read(landed_of(NARROW).raw, as_of=NOW)
    strategy, why = reasons(kernel_engine, read)
    assert strategy == "kernel"
    assert "in one of Spark's tasks, which opens the files, since 0." in why
    with monkeypatch.context() as on_a_cluster:
        on_a_cluster.setattr(choosing, "is_local", lambda session: False)
        assert "in one of Spark's tasks, since 0." in kernel_engine.choice(read).why
    strategy, why = reasons(spark_engine, read)
    assert strategy == "aggregate"
    assert "not the kernel, since 0." in why
    assert "it is for less than 0.0 MB" in why
    strategy, why = reasons(kernel_engine, replace(read, strategy=Strategy.WINDOW))
    assert (strategy, why) == ("window", "strategy window, as asked for")


@pytest.mark.parametrize(
    ("version", "told"),
    [(" No module named 'duckdb'", "cannot import DuckDB (No module named 'duckdb')"), ("1.0.0", "have DuckDB 1.0.0")],
)
def test_without_duckdb_on_executors_the_plan_runs(
    kernel_engine: SparkEngine, landed_of: Any, monkeypatch: pytest.MonkeyPatch, version: str, told: str
) -> None:
    monkeypatch.setattr(executors, "are_this_python", lambda session: False)
    monkeypatch.setattr(executors, "_version", lambda session: version)
    monkeypatch.setattr(executors, "_KNOWN", {})
    read = Read(landed_of(NARROW).raw, as_of=NOW)
    strategy, why = reasons(kernel_engine, read)
    assert strategy == "aggregate"
    assert told in why
    with pytest.raises(UnsupportedError, match="strategy kernel cannot run: Spark's executors"):
        kernel_engine.choice(replace(read, strategy=Strategy.KERNEL))


def test_executors_are_asked_for_their_duckdb(kernel_engine: SparkEngine) -> None:
    assert executors._why(executors._version(kernel_engine.session)) == ""


@pytest.mark.parametrize("way", ["in place", "one"], indirect=True)
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("where", ["v > 'a'", "CAST(CAST(v AS VARCHAR) || 'x' AS INTEGER) = 1"], ids=["bound", "run"])
def test_a_condition_that_fails_is_the_callers_fault(kernel_engine: SparkEngine, landed_of: Any, where: str) -> None:
    read = Read(landed_of(NARROW).raw, as_of=NOW, where=where)
    with pytest.raises(UsageError, match="cannot be evaluated: DuckDB: Conversion Error"), condition_errors(where):
        kernel_engine.read(read)


def test_sql_in_a_task_reads_no_files(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("1")
    run = in_task(f"SELECT * FROM read_csv('{tmp_path}/secret.csv')", pa.schema([("column0", pa.int64())]))
    with pytest.raises(duckdb.PermissionException, match="disabled"):
        list(run(pa.table({"a": [1]}).to_batches()))


def test_a_task_opens_the_files_of_its_read_alone(kernel_engine: SparkEngine, landed_of: Any, tmp_path: Path) -> None:
    read = Read(landed_of(NARROW).raw, as_of=NOW)
    files = sorted(files_read(snapshot_of(read.raw), None))
    (tmp_path / "other.parquet").write_bytes(Path(files[0]).read_bytes())
    schema = pa.schema([("n", pa.int64())])
    for file, can in ((files[0], True), (str(tmp_path / "other.parquet"), False)):
        run = in_task(f"SELECT count(*) AS n FROM read_parquet('{file}')", schema, files=files)
        with nullcontext() if can else pytest.raises(duckdb.PermissionException):
            assert list(run(pa.table({"a": [1]}).to_batches()))


def test_in_place_the_kernel_runs_the_text_that_duckdb_runs(
    kernel_engine: SparkEngine, duckdb_engine: DuckDbEngine, landed_of: Any
) -> None:
    read = Read(landed_of(WIDE).raw, as_of=NOW, where="v > 1", limit=3, strategy=Strategy.KERNEL)
    assert kernel_engine.sql(read) == duckdb_engine.sql(replace(read, strategy=Strategy.AUTO))


def test_a_raw_table_of_a_relative_path_is_read_by_spark(
    kernel_engine: SparkEngine, landed_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = landed_of(NARROW).raw
    monkeypatch.chdir(Path(raw.location).parent)
    facts = [choosing.Facts.of(kernel_engine.session, Read(found, NOW)) for found in (raw, replace(raw, location="raw"))]
    assert [one.are_opened for one in facts] == [True, False], "a task has a working folder of its own"


def test_only_reads_on_spark_take_the_kernel(duckdb_engine: DuckDbEngine, landed_of: Any) -> None:
    with pytest.raises(UnsupportedError, match="strategy kernel is for reads on Spark"):
        duckdb_engine.read(Read(landed_of(NARROW).raw, as_of=NOW, strategy=Strategy.KERNEL))


ROWS = [{"case": 1, "v": 1}]


@pytest.fixture
def changed_raw(tmp_path: Path) -> RawTable:
    """A raw table of two rows, of which the first is left."""
    folder = tmp_path / "with a {pattern}"
    folder.mkdir()
    facts = [Fact(FactKind.ROW, (n,), (1,), Liveness(1), cells={"v": Cell(1, n)}) for n in (1, 2)]
    return land(folder, NARROW.relation, facts)


def shown(engine: SparkEngine, raw: RawTable, strategy: Strategy) -> list[Row]:
    return read_rows(engine, raw, as_of=NOW, columns=("case", "v"), strategy=strategy)


@pytest.mark.parametrize("strategy", [Strategy.KERNEL, Strategy.AGGREGATE], ids=lambda s: s.value)
def test_files_that_are_not_plain_are_read_through_deltas_log(
    kernel_engine: SparkEngine, changed_raw: RawTable, strategy: Strategy
) -> None:
    files = raw_files(changed_raw)
    assert files is not None
    assert not files.are_plain, "Spark would take the folder for a pattern"
    assert shown(kernel_engine, changed_raw, strategy) == [*ROWS, {"case": 2, "v": 2}]
    table = f"delta.`{changed_raw.location}`"
    kernel_engine.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    kernel_engine.session.sql(f"DELETE FROM {table} WHERE `case` = 2")
    assert list(Path(changed_raw.location).glob("deletion_vector*.bin"))
    assert shown(kernel_engine, changed_raw, strategy) == ROWS


def test_a_table_without_files_or_without_anything_shows_no_rows(kernel_engine: SparkEngine, tmp_path: Path) -> None:
    for raw in (land(tmp_path, NARROW.relation, []), RawTable(str(tmp_path / "missing"), NARROW.relation)):
        for strategy in (Strategy.AUTO, Strategy.AGGREGATE):
            assert shown(kernel_engine, raw, strategy) == []
