"""Deletion vectors and commits of our own, as Delta's protocol and another reader have them."""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from cdc_views.errors import EngineError
from cdc_views.storage import deletion_vectors
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.deletion_vectors import DeletionVector
from cdc_views.storage.delta_log import Commit, entry_of, unused_vectors
from cdc_views.storage.table_log import TableLog

ROWS = 1000
IN_TABLE = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 6}
"""The example of Delta's protocol."""
SETTING = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two files of `ROWS` rows each, in two partitions, that may have vectors."""
    folder = tmp_path / "table"
    for part in ("a b", "c"):
        rows = pa.table({"k": range(ROWS), "part": [part] * ROWS})
        write_deltalake(
            str(folder), rows, partition_by=["part"], mode="append", configuration={"delta.enableDeletionVectors": "true"}
        )
    return folder


def shown(folder: Path, *, where: str = "true") -> list[int]:
    """The rows that deltalake shows."""
    sql = f"SELECT k FROM t WHERE {where} ORDER BY k"
    builder = QueryBuilder().register("t", DeltaTable(str(folder)))
    return [int(k) for k in pa.table(builder.execute(sql).read_all())["k"].to_pylist()]


def hide(folder: Path, positions: set[int]) -> int:
    """Hide rows of both files in one commit."""
    version = DeltaTable(str(folder)).version()
    files = TableLog.open(folder, version=version).files
    vectors = deletion_vectors.write(folder, {file.path: BitMap64(positions) for file in files})
    Commit("DELETE", tuple(file.without(vectors[file.path]) for file in files), files).write(folder, after=version)
    return version + 1


def test_the_file_of_a_vector_is_named_as_the_protocol_says() -> None:
    found = DeletionVector.of(IN_TABLE)
    assert found.file == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert found.action() == IN_TABLE


def test_an_inline_vector_is_read(tmp_path: Path) -> None:
    (vector,) = deletion_vectors.write(tmp_path, {"a": BitMap64([1, 2, 70_000])}).values()
    stored = (tmp_path / vector.file).read_bytes()[5:-4]
    inline = DeletionVector("i", deletion_vectors.encoded(stored), None, len(stored), 3)
    assert (inline.file, list(deletion_vectors.read(Path(), inline))) == ("", [1, 2, 70_000])


@given(st.sets(st.integers(0, 1 << 33), min_size=1), st.sets(st.integers(0, 70_000), min_size=1))
def test_a_vector_reads_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, one: set[int], two: set[int]) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    written = deletion_vectors.write(folder, {"a": BitMap64(one), "b": BitMap64(two)})
    assert {name: set(deletion_vectors.read(folder, vector)) for name, vector in written.items()} == {"a": one, "b": two}
    assert len([*folder.iterdir()]) == 1


def test_nothing_to_delete_is_no_file(tmp_path: Path) -> None:
    assert deletion_vectors.write(tmp_path, {}) == {}
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("how", ["gone", "short", "flipped", "other"])
def test_a_damaged_vector_is_told(tmp_path: Path, how: str) -> None:
    (vector,) = deletion_vectors.write(tmp_path, {"a": BitMap64([1, 2, 3])}).values()
    path = tmp_path / vector.file
    content = bytearray(path.read_bytes())
    path.unlink()
    content[-6] ^= how == "flipped"
    content[1:5] = struct.pack(">i", 1 if how == "other" else vector.size)
    if how != "gone":
        path.write_bytes(content[:3] if how == "short" else content)
    with pytest.raises(EngineError, match="damaged"):
        deletion_vectors.read(tmp_path, vector)


def test_deltalake_shows_what_a_commit_leaves(table: Path) -> None:
    hide(table, {0, 5, 999})
    left = [k for k in range(ROWS) if k not in (0, 5, 999)]
    assert shown(table) == sorted(left * 2)
    hide(table, {0, 5, 6, 999})
    DeltaTable(str(table)).create_checkpoint()
    assert shown(table, where="part = 'a b'") == [k for k in left if k != 6]
    write_deltalake(str(table), pa.table({"k": [7777], "part": ["c"]}), mode="append")
    assert shown(table, where="part = 'c'") == [*(k for k in left if k != 6), 7777]


def test_a_log_is_read_alike_with_and_without_a_checkpoint(table: Path) -> None:
    version = hide(table, {3})
    tagged = tuple(file.without(file.deleted) for file in TableLog.open(table, version=version).files)
    before = TableLog.open(table, version=version).files
    DeltaTable(str(table)).create_checkpoint()
    for number in range(version):
        entry_of(table, number).unlink()
    assert TableLog.open(table, version=version).files == before == tagged
    assert [(file.rows, file.live, dict(file.partition)) for file in before] == [
        (ROWS, ROWS - 1, {"part": "a b"}),
        (ROWS, ROWS - 1, {"part": "c"}),
    ]
    assert {str(table / file.path) for file in before} == {
        str(path) for path in table.rglob("*.parquet") if "_delta_log" not in str(path)
    }
    with pytest.raises(EngineError, match=f"version {version + 1} is gone"):
        TableLog.open(table, version=version + 1)


def test_tags_and_transactions_last(table: Path) -> None:
    version = DeltaTable(str(table)).version()
    first, *_ = TableLog.open(table, version=version).files
    tagged = type(first)(first.path, first.partition, first.size, first.rows, first.modified, {"who": "me"})
    Commit("WRITE", (tagged,), (), {"app": 7}, "a note").write(table, after=version)
    opened = DeltaTable(str(table))
    opened.create_checkpoint()
    assert [dict(file.tags) for file in TableLog.open(table, version=opened.version()).files] == [{"who": "me"}, {}]
    assert opened.transaction_version("app") == 7
    assert "minValues" not in json.dumps(entry_of(table, version + 1).read_text()), "no value of a row is in the log"


def test_one_of_two_commits_of_a_version_wins(table: Path) -> None:
    version, outcomes = DeltaTable(str(table)).version(), list[str]()
    start = threading.Barrier(8)

    def commit(number: int) -> None:
        start.wait()
        try:
            Commit("WRITE", transactions={"app": number}).write(table, after=version)
            outcomes.append("won")
        except ConflictError:
            outcomes.append("lost")

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost"] * 7 + ["won"]
    assert DeltaTable(str(table)).version() == version + 1
    assert not [path for path in (table / "_delta_log").iterdir() if path.name.startswith(".0")], "no draft stays"


def test_vectors_that_no_file_has_are_known(table: Path) -> None:
    hide(table, {1})
    (old,) = table.glob("deletion_vector_*.bin")
    version = hide(table, {1, 2})
    assert unused_vectors(table, TableLog.open(table, version=version).files) == [old]
