"""Tables of Delta's acceptance tests, and what else writers leave in a log: each is read rightly, or refused.

`helpers/delta_cases.py` made them, on Spark.
"""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from helpers.delta_cases import ARCHIVE, CASES
from helpers.delta_readers import counted
from pyroaring import BitMap64

from cdc_views.errors import EngineError, UnsupportedError
from cdc_views.landing.external.table import ExternalTable
from cdc_views.storage import deletion_vectors
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_log import unused_vectors
from cdc_views.storage.table_log import TableLog

REFUSED = {"column_mapping": "columnMapping", "iceberg_compat_v1": "columnMapping", "type_widening": "typeWidening"}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the cases."""
    folder = tmp_path_factory.mktemp("delta_cases")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def shown(cases: Path, name: str) -> pa.Table:
    """The rows that Spark showed."""
    return pq.read_table(cases / name / "rows.parquet")


def found_rows(location: Path) -> Counter[str]:
    """The rows that the reader of tables that somebody else lands shows."""
    table = ExternalTable.open(str(location))
    batches = [batch for file in table.files for batch, _ in table.batches(file, rows=3)]
    found: Counter[str] = Counter()
    for batch in batches:
        columns = [_as_stored(batch, field) for field in table.columns]
        found += counted(pa.table(columns, schema=pa.schema(list(table.columns))))
    return found


def _as_stored(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    return batch.column(field.name).cast(field.type)


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_a_table_that_somebody_else_landed_shows_what_spark_shows(cases: Path, name: str) -> None:
    assert found_rows(cases / name / "table") == counted(shown(cases, name))


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_needs_more_is_refused(cases: Path, name: str) -> None:
    with pytest.raises(UnsupportedError, match=REFUSED[name]):
        ExternalTable.open(str(cases / name / "table"))


@pytest.mark.parametrize("name", CASES)
def test_our_reader_of_logs_knows_each_file_its_rows_and_those_hidden(cases: Path, name: str) -> None:
    location = cases / name / "table"
    opened = DeltaTable(str(location))
    files = TableLog.open(location, version=opened.version()).files
    assert {file.path for file in files} == {unquote(path) for path in pa.table(opened.get_add_actions())["path"].to_pylist()}
    assert [file.rows for file in files] == [pq.read_metadata(location / file.path).num_rows for file in files]
    for file in files:
        if file.deleted is not None:
            assert max(deletion_vectors.read(location, file.deleted)) < file.rows
    assert sum(file.live for file in files) == shown(cases, name).num_rows


@pytest.mark.parametrize("name", ["v2_checkpoint_parquet", "deletion_vectors_checkpointed"])
def test_a_checkpoint_of_the_classic_name_may_have_sidecars(cases: Path, tmp_path: Path, name: str) -> None:
    location = cases / name / "table"
    version = DeltaTable(str(location)).version()
    copied = shutil.copytree(location, tmp_path / "table")
    for path in (copied / "_delta_log").glob("0*.checkpoint.*.parquet"):
        path.rename(path.with_name(f"{path.name[:20]}.checkpoint.parquet"))
    assert TableLog.open(copied, version=version).files == TableLog.open(location, version=version).files


def test_parts_of_a_checkpoint_that_lack_one_are_none(cases: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(cases / "multi_part_checkpoint" / "table", tmp_path / "table")
    version = DeltaTable(str(copied)).version()
    sorted((copied / "_delta_log").glob("0*.checkpoint.*.parquet"))[0].unlink()
    with pytest.raises(EngineError, match="is gone from Delta's log"):
        assert TableLog.open(copied, version=version).files


@pytest.mark.parametrize("name", ["v2_checkpoint_json", "v2_checkpoint_parquet"])
def test_a_lost_sidecar_is_told(cases: Path, tmp_path: Path, name: str) -> None:
    copied = shutil.copytree(cases / name / "table", tmp_path / "table")
    version = DeltaTable(str(copied)).version()
    for path in (copied / "_delta_log" / "_sidecars").iterdir():
        path.unlink()
    with pytest.raises(EngineError, match="cannot be read"):
        assert TableLog.open(copied, version=version).files


def test_a_vector_of_an_absolute_path_is_in_use(tmp_path: Path) -> None:
    (vector,) = deletion_vectors.write(tmp_path, {"a": BitMap64([1])}).values()
    absolute = replace(vector, storage_type="p", path_or_inline=f"file:{quote(str(tmp_path / vector.file))}")
    file = DataFile("a", {}, 1, 2, 1, deleted=absolute)
    assert [*deletion_vectors.read(Path("elsewhere"), absolute)] == [1]
    assert (unused_vectors(tmp_path, [file]), unused_vectors(tmp_path, [])) == ([], [tmp_path / vector.file])
