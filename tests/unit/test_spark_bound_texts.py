"""The columns of a text that Spark's tasks run are learned from DuckDB once, whichever files it names."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_views.engines.duckdb.types import literal
from cdc_views.errors import EngineError

pytest.importorskip("pyspark")
from cdc_views_spark import in_place  # without PySpark it cannot be imported

NUMBERS, TEXTS = pa.schema([("id", pa.int32())]), pa.schema([("id", pa.string())])


@pytest.fixture(autouse=True)
def nothing_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have bound no text."""
    monkeypatch.setattr(in_place, "_BOUND", {})


def files(folder: Path, *names: str, schema: pa.Schema = NUMBERS) -> list[str]:
    for name in names:
        pq.write_table(schema.empty_table(), folder / name)
    return [str(folder / name) for name in names]


def text(named: list[str], column: str = "id") -> str:
    return f"SELECT {column} FROM read_parquet([{', '.join(map(literal, named))}])"


def test_texts_that_differ_in_files_are_bound_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, more = files(tmp_path, "a.parquet"), files(tmp_path, "it's.parquet", "b.parquet")
    found = in_place.schema_of(text(one), one, layout=NUMBERS)
    monkeypatch.setattr(in_place, "connect_locked", lambda _: pytest.fail("bound again"))
    assert in_place.schema_of(text(more), more, layout=NUMBERS) == found == NUMBERS


def test_files_of_another_layout_are_bound_again(tmp_path: Path) -> None:
    one, other = files(tmp_path, "a.parquet"), files(tmp_path, "b.parquet", schema=TEXTS)
    assert in_place.schema_of(text(one), one, layout=NUMBERS) == NUMBERS
    assert in_place.schema_of(text(other), other, layout=TEXTS) == TEXTS


def test_another_text_is_bound_and_its_error_told(tmp_path: Path) -> None:
    one = files(tmp_path, "a.parquet")
    in_place.schema_of(text(one), one, layout=NUMBERS)
    for _ in range(2):
        with pytest.raises(EngineError, match="nothing") as told:
            in_place.schema_of(text(one, "nothing"), one, layout=NUMBERS)
        assert isinstance(told.value.__cause__, duckdb.BinderException)


def test_the_texts_that_are_kept_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "_MOST_BOUND", 2)
    one = files(tmp_path, "a.parquet")
    for number in range(5):
        assert in_place.schema_of(text(one, f"id + {number} AS id"), one, layout=NUMBERS) == NUMBERS
        assert len(in_place._BOUND) <= 2
