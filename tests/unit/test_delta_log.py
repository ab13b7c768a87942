"""Delta's logs: no values of rows in them, and they grow with the commits alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.corrupting import damaged
from helpers.tiny_project import append_lines, event, landed_ids, raw_table, write_lines

from cdc_views.engines.base import RawTable
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import create_raw, land, quarantine_location
from cdc_views.landing.checkpoints import IN_USE_SECONDS, before, beginning, remove, sum_up, superseded
from cdc_views.landing.delta import BOUND_BYTES, append
from cdc_views.landing.digests import changed
from cdc_views.operations.erasing.rewriting import statistics, without_bounds
from cdc_views.state.tail import tail_of
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.delta_log import LOG
from cdc_views.storage.table_log import TableLog

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=timezone.utc)
FORMAT = CassandraMutation()
SECRET = "zanzibar-17"
SETTING = "delta.dataSkippingNumIndexedCols"


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    return raw_table(tmp_path)


@pytest.fixture
def older(raw: RawTable) -> RawTable:
    """A raw table as an earlier version made and filled it: with the least and greatest of each column in its log."""
    create_raw(raw, format_name=FORMAT.name)
    entry = Path(raw.location, LOG, f"{0:020}.json")
    entry.write_text(re.sub(r'"configuration":\{[^}]*\}', '"configuration":{"delta.checkpointInterval":"20"}', entry.read_text()))
    rows = pa.Table.from_pylist([{"_kind": "row", "id": 1, "state": {"value": SECRET}}], schema=raw.relation.arrow_schema())
    append(DeltaTable(raw.location), rows, transactions={})
    assert SECRET in "".join(log_texts(raw.location))
    return raw


def log_texts(location: str) -> Iterator[str]:
    """What a log says: its entries as they are, its checkpoints decoded."""
    for file in Path(location, LOG).iterdir():
        yield str(pq.read_table(file).to_pylist()) if file.suffix == ".parquet" else file.read_text()


def land_one(raw: RawTable, folder: Path, *lines: str) -> None:
    file = folder / "events.jsonl"
    write_lines(file) if not file.exists() else None
    land(raw, FORMAT, [append_lines(file, *lines)], now=NOW)


def test_no_value_of_an_event_stands_in_a_log(raw: RawTable, tmp_path: Path) -> None:
    land_one(raw, tmp_path, event(1, state=SECRET), event(2).replace('"open"', f'{{"{SECRET}": 1}}'))
    for location in (raw.location, quarantine_location(raw)):
        DeltaTable(location).create_checkpoint()
        assert SECRET not in "".join(log_texts(location))
        assert pa.table(DeltaTable(location).get_add_actions()).column("num_records").to_pylist() == [1]


def test_a_long_text_makes_neither_log_nor_footer_long(raw: RawTable, tmp_path: Path) -> None:
    text = "z" * 1_000_000
    land_one(raw, tmp_path, event(1, state=text))
    assert max(map(len, log_texts(raw.location))) < 10_000
    (file,) = DeltaTable(raw.location).file_uris()
    assert pq.read_metadata(file).serialized_size < 50_000 + 10 * BOUND_BYTES
    found = duckdb.execute(f"SELECT max(state.value) = $1 FROM read_parquet('{file}') WHERE state.value >= $1", [text]).fetchall()
    assert found == [(True,)], "its bounds are shortened, and it is found by them"


def test_a_table_of_an_earlier_version_takes_no_values_from_the_next_landing_on(older: RawTable, tmp_path: Path) -> None:
    covered = DeltaTable(older.location).version()
    land_one(older, tmp_path, event(2, state="pemba-18"))
    assert DeltaTable(older.location).metadata().configuration[SETTING] == "0"
    assert "pemba-18" not in "".join(log_texts(older.location))
    assert DeltaTable(older.location).metadata().configuration["delta.enableExpiredLogCleanup"] == "false"
    tail = tail_of(TableLog.open(older.location), after=covered)
    assert (len(tail.files), tail.rows, tail.rebuild) == (1, 1, ""), "the setting is no data"
    version = DeltaTable(older.location).version()
    land_one(older, tmp_path, event(3))
    assert DeltaTable(older.location).version() == version + 1, "it is set once"


def test_a_writer_that_began_before_the_setting_begins_anew(older: RawTable) -> None:
    begun = DeltaTable(older.location)
    create_raw(older, format_name=FORMAT.name)
    with pytest.raises(ConflictError):
        append(begun, older.relation.arrow_schema().empty_table(), transactions={"x": 1})
    append(DeltaTable(older.location), older.relation.arrow_schema().empty_table(), transactions={"x": 1})


def test_values_that_a_log_has_are_taken_out_of_its_newest_version(older: RawTable) -> None:
    before, covered = landed_ids(older), DeltaTable(older.location).version()
    assert without_bounds(DeltaTable(older.location)) == 1
    table = DeltaTable(older.location)
    table.create_checkpoint()
    assert SECRET not in str(pq.read_table(max(Path(older.location, LOG).glob("*.checkpoint.parquet"))).column("add").to_pylist())
    assert (landed_ids(older), without_bounds(table)) == (before, 0)
    assert tail_of(TableLog.open(older.location), after=covered).files == (), "the same facts are no news"


def test_values_of_a_damaged_file_stay_in_the_log(older: RawTable) -> None:
    """Its copy would get a new digest."""
    names = damaged(older.location)
    assert (without_bounds(DeltaTable(older.location)), changed(older.location)[0]) == (0, names)


def test_files_under_paths_with_codes_are_restated_too(tmp_path: Path) -> None:
    location = str(tmp_path / "a b")
    write_deltalake(location, pa.table({"p": ["q 1", "b%2"], "v": ["x", "y"]}), partition_by=["p"])
    before = DeltaTable(location).to_pyarrow_table().sort_by("p").to_pylist()
    assert without_bounds(DeltaTable(location)) == 2
    assert DeltaTable(location).to_pyarrow_table().sort_by("p").to_pylist() == before


def test_a_file_that_is_removed_meanwhile_does_not_come_back(older: RawTable) -> None:
    begun = DeltaTable(older.location)
    DeltaTable(older.location).delete("id = 1")
    with pytest.raises(ConflictError):
        without_bounds(begun)
    assert landed_ids(older) == []


def test_what_is_rewritten_by_hand_says_how_many_rows_and_no_more() -> None:
    assert json.loads(statistics(3)) == {"numRecords": 3}


def checkpoints(location: str) -> list[int]:
    return sorted(int(path.name[:20]) for path in Path(location, LOG).glob("*.checkpoint.parquet"))


def committed(raw: RawTable, *, commits: int, every: int = 20) -> list[int]:
    """Commit so often, and return the versions that have a checkpoint."""
    table = create_raw(raw, format_name=FORMAT.name)
    for number in range(commits):
        append(table, raw.relation.arrow_schema().empty_table(), transactions={"x": number})
    return checkpoints(raw.location)


def test_a_checkpoint_is_due_after_so_many_commits(raw: RawTable) -> None:
    assert committed(raw, commits=45) == [20, 40]


def test_a_checkpoint_is_due_later_the_more_the_last_one_says(raw: RawTable) -> None:
    table = create_raw(raw, format_name=FORMAT.name)
    for number in range(30):
        append(table, raw.relation.arrow_schema().empty_table(), transactions={"x": number})
    assert checkpoints(raw.location) == [20]
    last = Path(raw.location, LOG, "_last_checkpoint")
    last.write_text(json.dumps({"version": 20, "size": 3_100}))
    for number in range(30, 50):
        append(table, raw.relation.arrow_schema().empty_table(), transactions={"x": number})
    assert checkpoints(raw.location) == [20], "31 commits must come since"
    append(table, raw.relation.arrow_schema().empty_table(), transactions={"x": 50})
    assert checkpoints(raw.location) == [20, 51]


def test_a_damaged_pointer_to_the_last_checkpoint_costs_a_checkpoint_alone(raw: RawTable) -> None:
    committed(raw, commits=25)
    Path(raw.location, LOG, "_last_checkpoint").write_text("{")
    table = DeltaTable(raw.location)
    sum_up(raw.location, table.version(), table.metadata().configuration)
    assert checkpoints(raw.location) == [20, 25]


def aged(log: Path, *, seconds: float) -> None:
    for path in log.iterdir():
        at = time.time() - seconds
        os.utime(path, (at, at))


def test_checkpoints_between_the_oldest_and_the_newest_two_go_once_nobody_reads_them(raw: RawTable) -> None:
    committed(raw, commits=100)
    log = Path(raw.location, LOG)
    assert superseded(log) == [], "a reader may have begun at them"
    aged(log, seconds=IN_USE_SECONDS + 60)
    for path in superseded(log):
        remove(path)
    assert checkpoints(raw.location) == [20, 80, 100]
    assert [DeltaTable(raw.location, version=version).version() for version in (5, 45, 99)] == [5, 45, 99]


@pytest.mark.parametrize(
    ("floor", "seconds", "begins"),
    [(1000, 60, 40), (39, 60, 20), (40, 60, 40), (19, 60, None), (1000, 600, None)],
    ids=["all is covered", "39 are covered", "40 are covered", "no checkpoint is covered", "it is too young"],
)
def test_a_log_begins_at_a_checkpoint_that_all_have_covered(
    raw: RawTable, floor: int, seconds: float, begins: int | None
) -> None:
    committed(raw, commits=45)
    log = Path(raw.location, LOG)
    aged(log, seconds=300)
    found = beginning(log, floor=floor, seconds=seconds)
    assert found == begins
    for path in before(log, found or 0):
        remove(path)
    assert DeltaTable(raw.location).version() == 45
    assert DeltaTable(raw.location, version=found or 0).version() == (found or 0)
    assert beginning(log, floor=floor, seconds=seconds) is None, "that was all"


def test_a_disk_that_takes_no_more_is_told_with_what_to_look_at(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow: what a quota does."""
    asked = """
import resource, signal, sys
import pyarrow as pa
from deltalake import DeltaTable
from cdc_views.landing.delta import append
from cdc_views.errors import EngineError
rows = pa.table({"v": [bytes(range(256)) * 4096]})
table = DeltaTable.create(sys.argv[1], rows.schema)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, resource.RLIM_INFINITY))
try:
    append(table, rows, transactions={})
except EngineError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", asked, str(tmp_path / "full")], capture_output=True, text=True, check=False)
    assert "File too large" in done.stdout, done
    assert done.stdout.strip().endswith("check the path, its permissions and the free space")
