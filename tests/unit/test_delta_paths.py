"""Paths of a Delta table's files where folders have odd names."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_views.landing.vacuum import vacuum_all
from cdc_views.state.tail import tail_of
from cdc_views.storage.delta_paths import paths_by_name
from cdc_views.storage.table_log import TableLog

DAYS = ["2026-01-01 00:00:00", "a/b", "x%41", "x A", "é"]


@pytest.fixture(params=["plain", "odd folder"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table whose partitions have names that are percent-encoded."""
    folder = tmp_path / str(request.param)
    write_deltalake(folder, pa.table({"k": range(len(DAYS)), "day": DAYS}), partition_by=["day"])
    return str(folder)


def test_paths_are_those_of_the_file_system(location: str) -> None:
    found = paths_by_name(DeltaTable(location))
    assert sorted(found.values()) == sorted(map(str, Path(location).rglob("*.parquet")))
    assert all(str(Path(location) / name) == path for name, path in found.items())
    assert len(found) == len(DAYS)


def test_a_tail_has_the_files_of_such_partitions(location: str) -> None:
    write_deltalake(location, pa.table({"k": [9], "day": ["x y%"]}), partition_by=["day"], mode="append")
    assert len(tail_of(TableLog.open(location), after=0).files) == 1


def test_files_of_the_newest_version_stay(location: str) -> None:
    """They were taken for abandoned ones where a partition's folder has a `%`."""
    stray = Path(location) / "day=x A" / "stray.parquet"
    stray.parent.mkdir()
    stray.touch()
    for path in Path(location).rglob("*.parquet"):
        os.utime(path, (0, 0))
    vacuum_all(location)
    assert not stray.exists()
    assert sorted(DeltaTable(location).to_pyarrow_table()["day"].to_pylist()) == sorted(DAYS)
