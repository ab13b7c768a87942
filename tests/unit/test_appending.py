"""Appends: of writers of one number one wins, the others look at what came first and go on, or begin again."""

from __future__ import annotations

import json
import resource
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from helpers.tiny_project import raw_table
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_views.engines.base import RawTable
from cdc_views.errors import EngineError
from cdc_views.landing.appending import appended
from cdc_views.landing.raw_table import landing_log
from cdc_views.storage import delta_log
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.table_log import TableLog

FORMAT = "cassandra-mutation"


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    return raw_table(tmp_path)


def rows(raw: RawTable, *numbers: int) -> pa.Table:
    schema = raw.relation.arrow_schema()
    empty = {field.name: pa.nulls(len(numbers), field.type) for field in schema}
    return pa.table(
        {**empty, "id": pa.array(numbers, schema.field("id").type), "_landed_at": _times(schema, numbers)}, schema=schema
    )


def _times(schema: pa.Schema, numbers: tuple[int, ...]) -> pa.Array:
    return pa.array([1_000_000 + number for number in numbers], pa.int64()).cast(schema.field("_landed_at").type)


def ids(raw: RawTable) -> list[int]:
    return sorted(DeltaTable(raw.location).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def data_files(raw: RawTable) -> int:
    return len([*Path(raw.location).glob("*.parquet")])


def test_one_goes_on_from_its_own_commit_and_records_its_ids(raw: RawTable) -> None:
    log = landing_log(raw, format_name=FORMAT)
    for number in range(1, 4):
        log = appended(log, rows(raw, number), transactions={"mine": number})
    log = appended(log, rows(raw), transactions={"mine": 9})
    opened = DeltaTable(raw.location)
    assert (ids(raw), log.version, opened.version(), data_files(raw)) == ([1, 2, 3], 4, 4, 3)
    assert (log.transaction("mine"), opened.transaction_version("mine")) == (9, 9)
    for file in log.added.values():
        stats = json.loads(file.stats)
        assert (stats["numRecords"], stats["minValues"]) == (1, {"_landed_at": "1970-01-01T00:00:01.000Z"})


def test_an_append_goes_on_over_commits_that_do_not_matter_to_it(raw: RawTable) -> None:
    log = landing_log(raw, format_name=FORMAT)
    other = log
    for number in range(5):
        other = appended(other, rows(raw, 10 + number), transactions={"theirs": number})
    log = appended(log, rows(raw, 1), transactions={"mine": 1})
    assert (ids(raw), log.version) == ([1, 10, 11, 12, 13, 14], 6)


@pytest.mark.parametrize("numbers", [(1,), ()], ids=["a file of rows", "the commit alone"])
def test_a_place_that_takes_no_file_is_an_error_that_producers_wait_out(raw: RawTable, numbers: tuple[int, ...]) -> None:
    log, given = landing_log(raw, format_name=FORMAT), rows(raw, *numbers)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))  # as a full disk or a quota
    try:
        with pytest.raises(EngineError, match="check the path, its permissions and the free space") as found:
            appended(log, given, transactions={"mine": 1})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raw.location in str(found.value)
    assert data_files(raw) == 0
    log = appended(log, given, transactions={"mine": 1})
    assert (ids(raw), log.transaction("mine")) == ([*numbers], 1)


@pytest.mark.parametrize("change", ["same id", "settings", "another table"])
def test_an_append_begins_again_after_commits_that_matter(raw: RawTable, change: str) -> None:
    log = landing_log(raw, format_name=FORMAT)
    if change == "same id":
        appended(log, rows(raw, 5), transactions={"mine": 3, "b": 1})
    elif change == "settings":
        DeltaTable(raw.location).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    else:
        shutil.rmtree(raw.location)
        appended(landing_log(raw, format_name=FORMAT), rows(raw, 5), transactions={"mine": 1})
    before = data_files(raw)
    with pytest.raises(ConflictError, match="run the command again"):
        appended(log, rows(raw, 1), transactions={"mine": 4})
    assert data_files(raw) == before, "nothing was written"
    assert 1 not in ids(raw)


def test_a_commit_whose_answer_was_lost_is_known_as_ones_own(raw: RawTable, monkeypatch: pytest.MonkeyPatch) -> None:
    log, real = landing_log(raw, format_name=FORMAT), delta_log.write_new

    def asked_twice(place: Any, content: bytes) -> None:
        real(place, content)
        real(place, content)

    monkeypatch.setattr(delta_log, "write_new", asked_twice)
    log = appended(log, rows(raw, 1), transactions={"mine": 1})
    assert (ids(raw), log.version) == ([1], 1)


def test_new_columns_are_added(tmp_path: Path, raw: RawTable) -> None:
    log = landing_log(raw, format_name=FORMAT)
    wider = rows(raw, 1).append_column("extra", pa.array([7]))
    log = appended(log, wider, transactions={"mine": 1})
    log = appended(log, rows(raw, 2), transactions={"mine": 2})
    assert "extra" in log.schema.names
    assert sorted(DeltaTable(raw.location).to_pyarrow_table().select(["id", "extra"]).to_pylist(), key=lambda r: r["id"]) == [
        {"id": 1, "extra": 7},
        {"id": 2, "extra": None},
    ]


@settings(max_examples=5, deadline=None)
@given(writers=st.integers(2, 5), each=st.integers(1, 8))
def test_writers_at_once_lose_and_double_nothing(tmp_path_factory: pytest.TempPathFactory, writers: int, each: int) -> None:
    raw = raw_table(tmp_path_factory.mktemp("raw"))
    begun, barrier = landing_log(raw, format_name=FORMAT), threading.Barrier(writers)

    def write(writer: int) -> None:
        log = begun
        barrier.wait()
        for number in range(each):
            log = appended(log, rows(raw, writer * 100 + number), transactions={f"w{writer}": number})

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(raw) == sorted(writer * 100 + number for writer in range(writers) for number in range(each))
    log = TableLog.open(raw.location)
    assert log.version == writers * each
    assert all(log.transaction(f"w{writer}") == each - 1 for writer in range(writers))
