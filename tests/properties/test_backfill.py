"""Many new files land in tasks as they land one after the other: the same facts, quarantine and reports, each once."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from helpers.tiny_project import append_lines, event, landed_ids, make_project, quarantined, raw_table, write_lines
from helpers.working_tasks import use_tasks

from cdc_views.api import Project
from cdc_views.engines.duckdb.plugin import DuckDbPlugin
from cdc_views.errors import EngineError, SourceFileError
from cdc_views.formats.registry import raw_format
from cdc_views.landing import backfill, land
from cdc_views.landing.denylist import Denylist, ErasedKey, add
from cdc_views.landing.report import LandingReport
from cdc_views.landing.spreading import Spread, Tasks, in_this_process
from cdc_views.rules.instants import micros
from cdc_views.storage.relation import RawTable

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)
SEEDS = 8


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit has three files, and a task's files have four rows."""
    monkeypatch.setattr(backfill, "_WAVE_FILES", 3)
    monkeypatch.setattr(backfill, "_FILE_ROWS", 4)


def twice(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
    """Run each task twice, in a copy, as an engine may do."""
    assert all(Path(path).exists() for path in sees)
    return [pickle.loads(pickle.dumps([function(pickle.loads(pickle.dumps(task))) for _ in range(2)]))[1] for task in tasks]


def landed(raw: RawTable, files: Sequence[str], *, spread: Spread | None = None, **options: Any) -> LandingReport:
    tasks = None if spread is None else Tasks(spread, least_bytes=0)
    return land(raw, raw_format("cassandra-mutation"), files, now=NOW, batch_rows=5, tasks=tasks, **options)


def some_files(folder: Path, random: Random) -> list[str]:
    """Event files as people have them: empty, compressed, cut short, of bad events, named twice, with one first line."""
    folder.mkdir()
    names = list[str]()
    for number in range(random.randrange(2, 9)):
        lines = [event(number * 100 + n, state=random.choice(("a", "b"))) for n in range(random.randrange(12))]
        for index in range(len(lines)):
            if random.random() < 0.15:
                lines[index] = random.choice(("{", "", "[]", event(1, table="others")))
        if random.random() < 0.2:
            lines.insert(0, event(1))  # several files begin so
        path = write_lines(folder / f"{number}.jsonl", *lines)
        if random.random() < 0.2:
            path.write_bytes(path.read_bytes() + event(number * 100 + 99).encode()[: random.choice((20, 1000))])
        if random.random() < 0.2:
            path = Path(f"{path}.gz")
            path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
        names += [str(path)] * random.choice((1, 1, 1, 2))
    random.shuffle(names)
    return names


def shown(raw: RawTable) -> tuple[list[str], list[str]]:
    """All facts and all quarantined events, as sorted texts."""
    facts = DeltaTable(raw.location).to_pyarrow_table().to_pylist()
    return sorted(map(repr, facts)), sorted(map(repr, quarantined(raw)))


def counted(report: LandingReport) -> list[Any]:
    return [replace(file, rejections=tuple(sorted(file.rejections, key=lambda one: one.line))) for file in report.files]


@pytest.mark.parametrize("spread", [in_this_process, twice])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_tasks_land_what_one_after_the_other_lands(tmp_path: Path, seed: int, spread: Spread) -> None:
    random = Random(seed)
    files, one, many = some_files(tmp_path / "in", random), raw_table(tmp_path / "one"), raw_table(tmp_path / "many")
    expected, found = landed(one, files), landed(many, files, spread=spread)
    assert (counted(found), shown(many)) == (counted(expected), shown(one))
    # a file that another one continued is new again
    assert counted(landed(many, files, spread=spread)) == counted(landed(one, files))
    for name in dict.fromkeys(files):
        if not name.endswith(".gz") and random.random() < 0.5:
            append_lines(Path(name), event(random.randrange(1000)))
    # either continues what the other landed
    expected, found = landed(one, files, spread=spread), landed(many, files)
    assert (counted(found), shown(many)) == (counted(expected), shown(one))


def test_one_commit_lets_several_files_count(tmp_path: Path) -> None:
    files = [str(write_lines(tmp_path / f"{n}.jsonl", *(event(10 * n + k) for k in range(6)))) for n in range(7)]
    raw, seen = raw_table(tmp_path), list[int]()
    report = landed(raw, files, spread=twice, progress=lambda file, **bytes: seen.append(file.facts))
    assert ([file.facts for file in report.files], seen) == ([6] * 7, [6] * 7)
    table = DeltaTable(raw.location)
    assert table.version() == 3, "three, three and one"
    assert len(table.file_uris()) == 14, "a task's file has four rows at most"


def test_somebody_who_lands_a_file_meanwhile_lands_it_alone(tmp_path: Path) -> None:
    files = [str(write_lines(tmp_path / f"{n}.jsonl", event(n))) for n in range(3)]
    raw = raw_table(tmp_path)

    def late(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        done = twice(function, tasks, sees=sees)
        landed(raw, files[1:2])
        return done

    report = landed(raw, files, spread=late)
    assert ([file.facts for file in report.files], landed_ids(raw)) == ([1, 0, 1], [0, 1, 2])
    assert report.files[1].skipped_bytes > 0


def test_a_commit_that_conflicts_is_in_the_way_of_its_files_alone(tmp_path: Path) -> None:
    files = [str(write_lines(tmp_path / f"{n}.jsonl", event(n))) for n in range(9)]
    raw, waves = raw_table(tmp_path), list[int]()

    def late(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        waves.append(len(tasks))
        if len(waves) == 1:
            landed(raw, [files[0], *files[6:]])
        return twice(function, tasks, sees=sees)

    report = landed(raw, files, spread=late)
    assert waves == [3, 3], "three were refused, three landed, and three had landed meanwhile"
    assert ([file.facts for file in report.files], landed_ids(raw)) == ([0, 1, 1, 1, 1, 1, 0, 0, 0], [*range(9)])


def test_tasks_that_fail_leave_nothing(tmp_path: Path) -> None:
    files = [str(write_lines(tmp_path / f"{n}.jsonl", event(n), "{")) for n in range(3)]
    raw = raw_table(tmp_path)

    def fails(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        twice(function, tasks, sees=sees)
        raise EngineError("an executor is gone")

    with pytest.raises(EngineError, match="gone"):
        landed(raw, files, spread=fails)
    assert (landed_ids(raw), [*Path(raw.location).glob("*.parquet")]) == ([], [])
    assert len(quarantined(raw)) == 3, "before the rows, as always"
    report = landed(raw, files, spread=twice)
    assert (landed_ids(raw), len(quarantined(raw)), report.quarantined) == ([0, 1, 2], 3, 3)


def test_a_damaged_file_is_named_and_the_others_land(tmp_path: Path) -> None:
    whole = [str(write_lines(tmp_path / f"{n}.jsonl", event(n))) for n in range(2)]
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress("\n".join(event(n) for n in range(10, 300)).encode())[:-500])
    raw = raw_table(tmp_path)
    with pytest.raises(SourceFileError, match=r"cut\.jsonl\.gz: cannot be read"):
        landed(raw, [*whole, str(cut)], spread=twice)
    assert {0, 1} <= {*landed_ids(raw)}


def test_forgotten_keys_are_held_back_here(tmp_path: Path) -> None:
    files = [str(write_lines(tmp_path / f"{n}.jsonl", event(n))) for n in range(3)]
    raw, known = raw_table(tmp_path), tmp_path / "forgotten.jsonl"

    def never(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        raise AssertionError("the secret would leave this process")

    add(known, ErasedKey.parse(raw.relation.schema, {"id": 1}), forgotten=micros(NOW), through=100)
    landed(raw, files, spread=never, forgotten=Denylist.read(known))
    assert landed_ids(raw) == [0, 2]


def test_land_gives_tasks_two_or_more_new_files_of_enough_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, ran = Project.load(make_project(tmp_path)).table("shop.orders"), list[int]()
    files = [write_lines(tmp_path / f"{n}.jsonl", event(n)) for n in range(9)]

    def noted(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        ran.append(len(tasks))
        return twice(function, tasks, sees=sees)

    use_tasks(monkeypatch, noted)
    table.land(*files[:2])
    table.land(*files[:3])
    assert ran == [2], "one of the three was new"
    size = sum(file.stat().st_size for file in files[3:5])
    for least, new in ((size + 1, files[3:5]), (size, files[5:7])):
        monkeypatch.setattr(DuckDbPlugin, "spread_from", least)
        table.land(*new)
    assert (ran, landed_ids(table.raw)) == ([2, 2], [*range(7)])
    add(table.forgotten_file, ErasedKey.parse(table.schema, {"id": 8}), forgotten=micros(NOW), through=100)
    table.land(*files[7:])
    assert (ran, landed_ids(table.raw)) == ([2, 2], [*range(8)]), "forgotten keys do not leave this process"


@pytest.mark.spark
def test_tasks_of_spark_land_the_same(spark_engine: SparkEngine, tmp_path: Path) -> None:
    files, one, many = some_files(tmp_path / "in", Random(5)), raw_table(tmp_path / "one"), raw_table(tmp_path / "many")
    ran = list[int]()

    def spread(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        ran.append(len(tasks))
        return spark_engine.spread(function, tasks, sees=sees)

    expected, found = landed(one, files), landed(many, files, spread=spread)
    assert (counted(found), shown(many), bool(ran)) == (counted(expected), shown(one), True)
    assert json.dumps(ran), ran
