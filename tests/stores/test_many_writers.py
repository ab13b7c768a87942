"""Writers that meet on a store: every event lands once, and every commit builds on the one before."""

from __future__ import annotations

import multiprocessing as mp
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from helpers.tiny_project import event, project_at, write_lines
from services.stores import Store

from cdc_views import Project
from cdc_views.errors import TransientError
from cdc_views.landing.delta import open_delta
from cdc_views.storage.conflicts import ConflictError, retried
from cdc_views.storage.delta_log import Commit
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import place_of

pytestmark = pytest.mark.heavy

FILES, EVENTS = 4, 5
WRITERS = [("s3", 6), ("azure", 3), ("gcs", 3), *(pytest.param(store, 6, marks=pytest.mark.slow) for store in ("azure", "gcs"))]
"""On each kind of store so many at a time."""


def _land(file: str, names: list[str]) -> None:
    table = Project.load(file).table("shop.orders")
    for name in names:
        retried(lambda name=name: table.land(name), what="never", on=TransientError, pause=0.05)  # type: ignore[misc]


def _materialize(file: str, times: int) -> None:
    table = Project.load(file).table("shop.orders")
    for _ in range(times):
        retried(table.materialize, what="never", on=TransientError, pause=0.05)


def _finished(processes: list[Any]) -> None:
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(processes)


@pytest.mark.parametrize(("store", "writers"), WRITERS, indirect=["store"])
def test_events_of_many_landers_land_once_while_a_state_follows(tmp_path: Path, prefix: str, store: Store, writers: int) -> None:
    file, spawn = project_at(tmp_path, prefix, store.options()), mp.get_context("spawn")
    mine: list[list[str]] = []
    for writer in range(writers):
        names = [tmp_path / f"log-{writer}-{number}.jsonl" for number in range(FILES)]
        for number, name in enumerate(names):
            first = 1 + (writer * FILES + number) * EVENTS
            write_lines(name, *(event(n) for n in range(first, first + EVENTS)))
        mine.append([*map(str, names)])
    landers = [spawn.Process(target=_land, args=(str(file), names)) for names in mine]
    # two land the same files: one of them is late
    landers.append(spawn.Process(target=_land, args=(str(file), mine[0])))
    keepers = [spawn.Process(target=_materialize, args=(str(file), 3)) for _ in range(2)]
    _land(str(file), mine[0][:1])  # a state needs a raw table
    _finished([*landers, *keepers])
    table = Project.load(file).table("shop.orders")
    table.materialize()
    rows = table.query().to_arrow().num_rows
    raw = opened(table.raw.location)
    assert (rows, raw.to_pyarrow_dataset().count_rows()) == (writers * FILES * EVENTS,) * 2
    entries = sorted(path.stem for path in (place_of(table.raw.location) / "_delta_log").glob("*.json") if path.stem.isdigit())
    assert [*map(int, entries)] == list(range(raw.version() + 1))
    assert table.query(raw_only=True).to_arrow().equals(table.query().to_arrow())


def test_two_writers_of_one_version(tmp_path: Path, prefix: str, store: Store) -> None:
    """deltalake's commits and ours exclude each other: both are put if absent."""
    file = project_at(tmp_path, prefix, store.options())
    _land(str(file), [str(write_lines(tmp_path / "a.jsonl", event(1)))])
    table = Project.load(file).table("shop.orders")
    table.materialize()
    state = open_delta(table.state_location)
    version = state.version()
    folder = place_of(table.state_location)
    Commit("WRITE", transactions={"theirs": 1}).write(folder, after=version)
    with pytest.raises(ConflictError):
        Commit("WRITE", transactions={"ours": 1}).write(folder, after=version)
    rows = pa.schema(state.schema().to_arrow()).empty_table()
    write_deltalake(
        state, rows, mode="append", commit_properties=CommitProperties(app_transactions=[Transaction("deltalake", 1)])
    )
    newest = open_delta(table.state_location)
    assert newest.version() == version + 2, "deltalake's commit came after ours, not instead of it"
    assert [newest.transaction_version(name) for name in ("theirs", "ours", "deltalake")] == [1, None, 1]
