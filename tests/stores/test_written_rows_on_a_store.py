"""`query --out` and `--into` a store: an object is put whole, and a table's rows are one commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from helpers.command_line import CommandLine
from helpers.killed_states import FAST_JVM
from helpers.tiny_project import event, make_project_reaching
from services.stores import Store

from cdc_views.errors import UnsupportedError
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import Place, arrow_source, new_file, place_of

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

NAME = "shop.orders"
ROWS = [1, 2, 3, 4, 5, 6]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: Store, prefix: str
) -> CommandLine:
    """Six rows in a project whose warehouse is on the store; its file says how to reach it, and the environment does not."""
    monkeypatch.chdir(tmp_path)
    make_project_reaching(tmp_path, store.options(), warehouse=f"{prefix}/lake")
    run = CommandLine(capsys)
    assert run.land(NAME, *map(event, ROWS), format="cassandra-mutation").code == 0
    return run


def ids_at(url: str) -> list[int]:
    if not url.endswith(".parquet"):
        return sorted(opened(url).to_pyarrow_table().column("id").to_pylist())
    with pq.ParquetFile(arrow_source(url)) as file:
        return sorted(file.read().column("id").to_pylist())


def test_files_and_tables(run: CommandLine, prefix: str) -> None:
    out, into = f"{prefix}/out/rows.parquet", f"{prefix}/out/rows"
    assert run("query", NAME, "--out", out).code == 0
    assert run("query", NAME, "--into", into).code == 0
    assert ids_at(out) == ids_at(into) == ROWS
    for target in (("--out", out), ("--into", into)):
        refused = run("query", NAME, "--where", "id = 1", *target)
        assert (refused.code, "--overwrite" in refused.err) == (2, True), refused.err
        assert run("query", NAME, "--where", "id = 1", *target, "--overwrite").code == 0
    assert ids_at(out) == ids_at(into) == [1]
    assert opened(into).version() == 1
    text = f"{prefix}/out/rows.jsonl"
    assert run("query", NAME, "--out", text, "--limit", "9").code == 0
    assert place_of(text).read_text() == run("query", NAME, "--format", "jsonl").out
    assert [place.name for place in place_of(f"{prefix}/out").iterdir() if place.is_file()] == ["rows.jsonl", "rows.parquet"]


def test_a_local_warehouse_writes_to_a_store(run: CommandLine, prefix: str, store: Store, tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    file = make_project_reaching(tmp_path / "local", store.options())
    project = ("--project", str(file))
    assert run("land", "cassandra-mutation", "events.jsonl", "--table", NAME, *project).code == 0
    for target in (("--out", f"{prefix}/rows.parquet"), ("--into", f"{prefix}/rows")):
        assert run("query", NAME, *project, *target).code == 0
        assert ids_at(target[1]) == ROWS


def test_a_failure_leaves_no_object_and_the_old_one(run: CommandLine, prefix: str) -> None:
    late = ("--where", "id < 6 OR CAST(state AS INTEGER) = 1")
    for name in ("rows.parquet", "rows.jsonl"):
        assert run("query", NAME, *late, "--out", f"{prefix}/out/{name}").code == 2
        assert not place_of(f"{prefix}/out").exists()
    assert run("query", NAME, *late, "--into", f"{prefix}/out/rows").code == 2
    assert not place_of(f"{prefix}/out").exists()


def write_half(place: Place) -> None:
    with new_file(place) as stream:
        for _ in range(12):
            stream.write(b"x" * (1 << 20))
        raise ValueError("stop")


def test_what_a_failed_block_wrote_is_no_object(prefix: str) -> None:
    """More than a part of an object, so that some of it has been sent."""
    place = place_of(f"{prefix}/half")
    with pytest.raises(ValueError, match="stop"):
        write_half(place)
    assert not place.exists()
    with new_file(place) as stream:
        stream.write(b"whole")
    with pytest.raises(FileExistsError), new_file(place, replaces=False) as stream:
        stream.write(b"other")
    assert place.read_bytes() == b"whole"


@pytest.mark.spark
@pytest.mark.parametrize("store", ["s3"], indirect=True)
@pytest.mark.usefixtures("session_of_store")
def test_spark_writes_an_object_and_a_table(run: CommandLine, prefix: str) -> None:
    out, into = f"{prefix}/out/rows.parquet", f"{prefix}/out/rows"
    for _ in range(2):
        for target in (("--out", out), ("--into", into)):
            done = run("query", NAME, "--engine", "spark", *target, "--overwrite")
            assert done.code == 0, done.err
            assert ids_at(target[1]) == ROWS
    assert opened(into).version() == 1
    assert sorted(place.name for place in place_of(f"{prefix}/out").iterdir()) == ["rows", "rows.parquet"]


@pytest.mark.spark
@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_spark_of_a_local_warehouse_reaches_the_store(
    run: CommandLine, prefix: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: a session gets a store's jars when it is opened."""
    (tmp_path / "local").mkdir()
    file = make_project_reaching(tmp_path / "local", store.options())
    assert run("land", "cassandra-mutation", "events.jsonl", "--table", NAME, "--project", str(file)).code == 0
    command = [sys.executable, "-m", "cdc_views", "query", NAME, "--project", str(file), "--engine", "spark"]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", FAST_JVM)
    done = subprocess.run([*command, "--out", f"{prefix}/rows.parquet"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert ids_at(f"{prefix}/rows.parquet") == ROWS


@pytest.mark.spark
def test_a_session_without_a_client_of_the_store_says_so(spark_engine: SparkEngine) -> None:
    from cdc_views_spark.writing import in_its_words

    frame = spark_engine.session.range(1)
    with pytest.raises(UnsupportedError, match=r"No FileSystem for scheme .*; take --engine duckdb"), in_its_words():
        frame.write.parquet("nostore://bucket/rows")
