"""`forget`, `maintain` and `validate` in an engine's tasks: what they do and find in this process, on random tables."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from helpers.command_line import table, write_project
from helpers.corrupting import silently
from helpers.forgetting_tables import CQL, FORMAT, KEY, NAME, SECRET, files_with, mutation
from helpers.working_tasks import Tells, once, twice, use_tasks

from cdc_views.api import Project, Table
from cdc_views.engines.plugin import engine_plugin
from cdc_views.errors import EngineError
from cdc_views.landing import quarantine_location, spreading
from cdc_views.landing.digests import changed
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.operations import merging
from cdc_views.operations.erasing.forgetting import Erasure
from cdc_views.operations.maintaining import Upkeep
from cdc_views.quality import bookkeeping
from cdc_views.storage.table_log import TableLog

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

NOW = datetime(2026, 11, 27, tzinfo=timezone.utc)
FILES = 5


def orders(folder: Path) -> Table:
    return Project.load(folder / "cdc_views.yml").table(NAME)


def made(folder: Path, random: Random, *, bad: float = 0.1, keeps_state: bool = True) -> Table:
    """Events of a few files, of which one key has a secret, some bad; a state with an older generation, a serving table."""
    folder.mkdir()
    os.chdir(folder)
    Path("schema.cql").write_text(CQL)
    more = {"materialize": {"serving": True}} if keeps_state else {}
    write_project(table(NAME, "schema.cql", FORMAT, **more))
    found = orders(folder)
    for number in range(FILES):
        lines = [mutation(random.randrange(60), written=random.randrange(1, 50)) for _ in range(random.randrange(2, 40))]
        if number in (0, FILES - 1):
            lines.append(mutation(6, state=SECRET, written=60 + number))
        lines = [line.replace('"state ', '["state ') if random.random() < bad else line for line in lines]
        Path(f"{number}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        found.land(f"{number}.jsonl")
        if keeps_state and number in (1, 3):
            found.materialize()
    return found


def copied(before: Table, folder: Path) -> Table:
    shutil.copytree(before.project.root, folder)
    return orders(folder)


def rows_of(found: Table) -> list[Any]:
    """All that is kept: facts, quarantined events, and what the view and the serving table show."""
    locations = [found.raw.location, quarantine_location(found.raw), str(found.serving_location)]
    tables = [DeltaTable(location) for location in locations if DeltaTable.is_deltatable(location)]
    kept = [sorted(map(repr, one.to_pyarrow_table().to_pylist())) for one in tables]
    return [kept, list(found.query().rows())]


def told(done: Erasure, found: Table, *, counts: bool) -> Any:
    """An erasure without places, instants and sizes of logs; `counts`: with how much the proof read."""
    root = str(found.project.root)
    removed = [replace(one, location=one.location.removeprefix(root)) for one in done.removed]
    proof = done.proof
    assert proof is not None
    read = (proof.files, proof.rows) if counts else ()
    left = sorted((one.what, one.found) for one in proof.leftovers)
    return removed, done.undecodable, done.mentioning, done.notes, done.is_done, read, left


@pytest.mark.parametrize("seed", range(2))
def test_tasks_forget_what_this_process_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    before = made(tmp_path / "before", random)
    key = KEY if seed else '{"id": 1}'
    how: dict[str, Any] = {"now": NOW, "undecodable": random.choice(["fail", "keep", "drop"])}
    here = copied(before, tmp_path / "here")
    expected = here.forget(key, **how)
    assert expected.proof is not None
    assert expected.proof.is_clean
    for spread in (once, twice):
        there = copied(before, tmp_path / spread.__name__)
        with monkeypatch.context() as patch:
            use_tasks(patch, spread)
            planned, done = there.forget(key, dry_run=True), there.forget(key, **how)
        assert planned.undecodable >= done.undecodable
        # a task that ran twice leaves a file that no commit names, which the proof reads, too
        counts = spread is once
        assert told(done, there, counts=counts) == told(expected, here, counts=counts)
        assert rows_of(there) == rows_of(here)
        assert changed(there.raw.location) == ([], 0)


def test_the_proof_finds_in_tasks_what_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(tmp_path / "orders", Random(7), bad=0)
    raw = Path(found.raw.location)
    (file, *_) = [file for file in raw.glob("*.parquet") if SECRET in str(pq.read_table(file).to_pylist())]
    shutil.copy(file, raw / "part-copy.parquet")
    shutil.copy(file, raw / "copy.bak")
    tells = Tells()
    use_tasks(monkeypatch, tells)
    done = found.forget(KEY)
    assert done.proof is not None
    left = {Path(one.file).name: one.found for one in done.proof.leftovers}
    assert not done.is_done
    assert {"part-copy.parquet", "copy.bak"} <= left.keys()
    assert {name for name, count in tells.ran if count > 1} >= {"_in_file", "_count", "_rewritten", "in_newest", "in_other"}
    for name in ("part-copy.parquet", "copy.bak"):
        os.utime(raw / name, (1, 1))
    assert found.forget(KEY).is_done
    assert files_with(SECRET) == []


@pytest.mark.parametrize("step", ["_in_file", "_rewritten", "in_newest"])
def test_an_erasure_whose_task_fails_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    found = made(tmp_path / "orders", Random(8), bad=0)
    with monkeypatch.context() as patch:
        use_tasks(patch, Tells(fails=step))
        with pytest.raises(EngineError, match="gone"):
            found.forget(KEY)
    assert found.forget(KEY).is_done
    assert files_with(SECRET) == []


def upkeep(done: list[Upkeep]) -> list[Any]:
    return [(one.what, one.merged, one.log_entries) for one in done]


@pytest.mark.parametrize("seed", range(2))
def test_tasks_merge_what_this_process_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    before = made(tmp_path / "before", random)
    monkeypatch.setattr(
        merging, "_USUAL_TARGET", (seed and 1 << 20) or 2 * max(file.size for file in TableLog.open(before.raw.location).files)
    )
    here, rows = copied(before, tmp_path / "here"), rows_of(before)
    expected = here.maintain()
    for spread in (once, twice):
        there = copied(before, tmp_path / spread.__name__)
        with monkeypatch.context() as patch:
            use_tasks(patch, spread)
            done = there.maintain()
        assert upkeep(done) == upkeep(expected)
        assert rows_of(there) == rows_of(here) == rows
        assert not there.materialize().is_full, "merging is no change of data"
        assert rows_of(there)[-1] == rows[-1]
        assert changed(there.raw.location) == ([], 0)
    log = TableLog.open(there.raw.location)
    sizes = [len(TableLog.open(one.raw.location).files) for one in (before, here, there)]
    assert sizes[0] > sizes[1] == sizes[2]
    assert all("_landed_at" in json.loads(file.stats)["minValues"] for file in log.files)


def test_a_merge_whose_task_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(tmp_path / "orders", Random(9))
    monkeypatch.setattr(merging, "_USUAL_TARGET", 2 * max(file.size for file in TableLog.open(found.raw.location).files))
    rows, files = rows_of(found), sorted(Path(found.raw.location).rglob("*.parquet"))
    with monkeypatch.context() as patch:
        use_tasks(patch, Tells(fails="_merged"))
        with pytest.raises(EngineError, match="gone"):
            found.maintain()
    assert rows_of(found) == rows
    assert sorted(file for file in Path(found.raw.location).rglob("*.parquet") if "_delta_log" not in str(file)) == files


@contextmanager
def before_the_commit(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> Any:
    real = merging.committed
    calls: list[int] = []

    def late(*given: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            what()
        return real(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(merging, "committed", late)
        yield calls


def test_a_merge_goes_above_landings_and_begins_anew_after_a_rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(tmp_path / "orders", Random(10), bad=0, keeps_state=False)
    Path("late.jsonl").write_text(mutation(77) + "\n")
    with before_the_commit(monkeypatch, lambda: found.land("late.jsonl")) as calls:
        (merged, *_) = found.maintain()
    assert (len(calls), merged.merged) == (1, FILES)
    assert 77 in {row["line"] for row in found.query().rows()}
    assert len(TableLog.open(found.raw.location).files) == 2
    rows = list(found.query().rows())
    with before_the_commit(monkeypatch, lambda: found.forget(KEY)) as calls:
        found.maintain()
    assert len(calls) == 2, "the merged file had the key"
    assert files_with(SECRET) == []
    assert list(found.query().rows()) == [row for row in rows if (row["id"], row["line"]) != (1, 6)]


def wrong(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a serving table of which one stands there twice."""
    return [*rows, rows[0]]


def test_tasks_find_what_this_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(tmp_path / "orders", Random(11))
    found.materialize()
    tells = Tells()

    def judged() -> list[Any]:
        return [(c.name, c.status, c.broken, c.where, c.note) for c in found.validate(sample=5, now=NOW).checks]

    def checks() -> Any:
        expected = judged()
        with monkeypatch.context() as patch:
            use_tasks(patch, tells)
            assert judged() == expected
        return {name: broken for name, _, broken, *_ in expected if broken}

    assert "files_are_whole.raw" not in checks()
    assert {name for name, count in tells.ran if count > 1} >= {"_misfit", "_digest"}
    assert silently(str(found.serving_location), wrong, most=1)
    assert checks().get("one_row_per_key.serving") == 1
    raw = Path(found.raw.location)
    one, other, *_ = sorted(raw.glob("*.parquet"))
    content = one.read_bytes()
    one.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    other.unlink()
    assert {"files_are_whole.raw": 1, "files_are_as_written.raw": 1}.items() <= checks().items()


def test_few_bytes_are_no_work_for_tasks() -> None:
    tells = Tells()
    tasks = Tasks(tells, 10)
    assert tasks.each(str, [1, 2], sizes=[4, 5], sees=[]) == ["1", "2"]
    assert tells.ran == []
    assert tasks.each(str, [1, 2], sizes=[5, 5], sees=[]) == ["1", "2"]
    assert tells.ran == [("str", 1)]


@pytest.mark.spark
def test_spark_s_tasks_do_all_three(spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made(tmp_path / "before", Random(12), keeps_state=False)
    raw, ran = Path(before.raw.location), set[str]()
    (file, *_) = [file for file in raw.glob("*.parquet") if SECRET in str(pq.read_table(file).to_pylist())]
    shutil.copy(file, raw / "part-copy.parquet")
    shutil.copy(file, raw / "copy.bak")
    here, real = copied(before, tmp_path / "here"), type(spark_engine).spread
    monkeypatch.setattr(merging, "_USUAL_TARGET", 2 * max(file.size for file in TableLog.open(str(raw)).files))

    def noted(engine: Any, function: Any, tasks: Any, *, sees: Any) -> Any:
        inner = function.args[0]
        ran.add(str(getattr(inner, "func", inner).__name__))
        return real(engine, function, tasks, sees=sees)

    def done_by(found: Table, tasks: Tasks, engine: str | None) -> Any:
        erased = found.forget(KEY, now=NOW, undecodable="keep", engine=engine)
        assert erased.proof is not None
        files = [*Path(found.raw.location).rglob("*.parquet"), *Path(quarantine_location(found.raw)).glob("_delta_log/*.parquet")]
        assert erased.proof.rows == sum(pq.read_metadata(file).num_rows for file in files) > 0, "every file was read"
        merged = merging.merge_files(found.raw.location, tasks=tasks)
        checks = [(c.name, c.broken, c.where) for c in bookkeeping.whole(found.raw.location, "raw", tasks=tasks)]
        return told(erased, found, counts=True), merged, checks, rows_of(found)

    expected = done_by(here, HERE, None)
    with monkeypatch.context() as patch:
        patch.setattr(spreading, "_GROUP_BYTES", 1)
        patch.setattr(type(engine_plugin("spark")), "spread_from", 0)
        patch.setattr(type(spark_engine), "spread", noted)
        found = done_by(before, Tasks(spark_engine.spread, 0), "spark")
    assert found == expected
    assert len(found[0][-1]) >= 2, "the proof found what was left"
    assert ran >= {"_in_file", "_rewritten", "in_newest", "in_other", "_merged", "_misfit", "_digest"}
