"""`matching` finds what reading all rows finds, and reads the values of few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.operations.erasing import rewriting
from cdc_views.operations.erasing.rewriting import batches, matching

KEYS = st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=30)


def written(folder: Path, keys: list[int | None], *, group: int) -> Path:
    """A file of a key, and of nested values."""
    values = pa.array([{"value": f"of row {n}"} for n in range(len(keys))], pa.struct([("value", pa.large_string())]))
    file = folder / "rows.parquet"
    pq.write_table(pa.table({"key.a": pa.array(keys, pa.int32()), "v": values}), file, row_group_size=group)
    return file


@given(keys=KEYS, wanted=st.integers(0, 4), group=st.integers(1, 7))
def test_it_finds_what_reading_all_rows_finds(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int | None], wanted: int, group: int
) -> None:
    file = written(tmp_path_factory.mktemp("rows"), keys, group=group)
    condition = (ds.field("key.a") == wanted) & ds.field("key.a").is_valid()
    expected = [row for rows in batches(file) for row in rows.filter(condition).to_pylist()]
    assert [row for rows in matching(file, condition, by=["key.a"]) for row in rows.to_pylist()] == expected


def test_values_are_read_of_row_groups_with_the_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, [1, 1, 2, 2, 3, 3], group=2)
    read: list[Any] = []
    real = rewriting._batches

    def noted(opened: Any, **which: Any) -> Any:
        read.append((which["groups"], which.get("columns")))
        return real(opened, **which)

    monkeypatch.setattr(rewriting, "_batches", noted)
    (rows,) = matching(file, ds.field("key.a") == 2, by=["key.a"])
    assert rows["v"].to_pylist() == [{"value": "of row 2"}, {"value": "of row 3"}]
    assert [groups for groups, columns in read if columns is None] == [[1]]


def test_a_file_without_the_column_has_no_such_row(tmp_path: Path) -> None:
    file = written(tmp_path, [1], group=1)
    assert list(matching(file, ds.field("b") == 1, by=["b"])) == []
