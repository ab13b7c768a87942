"""`TableLog` says what deltalake says of the same log, and notices damage anywhere in what it reads."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake

from cdc_views.errors import EngineError
from cdc_views.storage.delta_log import Commit, entry_of
from cdc_views.storage.table_log import TableLog

NAMES = ("a", "b", "c")
BY_HAND = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def history(location: str, seed: int, *, commits: int = 14) -> None:
    """Commit at random: appends, overwrites, deletions, new columns, properties, transaction ids, checkpoints."""
    rng, columns = random.Random(seed), ["k"]
    for number in range(commits):
        ids = [Transaction(name, rng.randrange(9)) for name in rng.sample(NAMES, rng.randrange(3))]
        told: dict[str, Any] = {
            "commit_properties": CommitProperties(app_transactions=ids),
            "post_commithook_properties": BY_HAND,
        }
        kind = rng.choice(("append", "append", "append", "overwrite", "delete", "widen", "set", "checkpoint"))
        if number and kind == "checkpoint":
            DeltaTable(location).create_checkpoint()
        elif number and kind == "delete":
            DeltaTable(location).delete(f"k = {rng.randrange(4)}", **told)
        elif number and kind == "set":
            DeltaTable(location).alter.set_table_properties({"delta.checkpointInterval": str(rng.randrange(5, 50))})
        else:
            if kind == "widen":
                columns.append(f"c{number}")
            rows = pa.table({name: [rng.randrange(4) for _ in range(3)] for name in columns} | {"p": ["x y", "b%2", "c"]})
            mode: Any = "overwrite" if kind == "overwrite" else "append"
            write_deltalake(location, rows, mode=mode, schema_mode="merge", partition_by=["p"], **told)


def told_by(table: DeltaTable) -> dict[str, Any]:
    """What deltalake says of its open version."""
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return {
        "id": str(table.metadata().id),
        "configuration": dict(table.metadata().configuration),
        "schema": pa.schema(table.schema().to_arrow()),
        "files": {unquote(action["path"]): (action["size_bytes"], action["num_records"]) for action in actions},
        "transactions": [table.transaction_version(name) for name in NAMES],
    }


def told(log: TableLog) -> dict[str, Any]:
    """The same from our reader."""
    return {
        "id": log.metadata.id,
        "configuration": dict(log.metadata.configuration),
        "schema": log.schema,
        "files": {file.path: (file.size, file.rows) for file in log.files},
        "transactions": [log.transaction(name) for name in NAMES],
    }


@pytest.mark.parametrize("seed", range(6))
def test_any_version_is_what_deltalake_says(tmp_path: Path, seed: int) -> None:
    location = str(tmp_path / "table")
    history(location, seed)
    newest = DeltaTable(location).version()
    for version in range(newest + 1):
        assert told(TableLog.open(location, version=version)) == told_by(DeltaTable(location, version=version)), version
    assert TableLog.open(location).version == newest
    paths = sorted(str(Path(location) / name) for name in told(TableLog.open(location))["files"])
    assert sorted(TableLog.open(location).paths) == paths
    assert all(Path(path).is_file() for path in paths)


def test_a_log_goes_on_from_its_own_commit_and_to_the_newest_version(tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    history(location, 1)
    log, other = TableLog.open(location), TableLog.open(location)
    content = Commit("WRITE", removed=log.files[:1], transactions={"a": 77}).write(log.folder, after=log.version)
    after = log.with_commit(content)
    assert (after.transaction("a"), log.transaction("a")) == (
        77,
        told_by(DeltaTable(location, version=log.version))["transactions"][0],
    )
    other.refresh()
    for found in (after, other, TableLog.open(location)):
        assert told(found) == told_by(DeltaTable(location))


def test_what_is_no_table_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty/_delta_log").mkdir(parents=True)
    for name in ("file", "empty", "nowhere"):
        assert TableLog.find(str(tmp_path / name)) is None
        with pytest.raises(EngineError, match="no Delta table is there"):
            TableLog.open(str(tmp_path / name))


@pytest.mark.parametrize("content", [b"", b"\x80\x81\n", b"7\n", b'{"commitInfo": {}}\n{"add": {"pa'])
def test_damage_of_an_entry_is_noticed_wherever_it_is(tmp_path: Path, content: bytes) -> None:
    location = str(tmp_path / "table")
    for number in range(4):
        write_deltalake(location, pa.table({"k": [number]}), mode="append", post_commithook_properties=BY_HAND)
    entry_of(location, 2).write_bytes(content)
    for question in ("metadata", "added", "schema"):
        with pytest.raises(EngineError, match="version 2 of Delta's log cannot be read"):
            getattr(TableLog.open(location), question)
    assert TableLog.open(location, version=1).added, "older versions need no newer entry"


def test_a_lost_entry_is_noticed(tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    for number in range(4):
        write_deltalake(location, pa.table({"k": [number]}), mode="append", post_commithook_properties=BY_HAND)
    entry_of(location, 2).unlink()
    with pytest.raises(EngineError, match="version 2 is gone from Delta's log"):
        assert TableLog.open(location).added
    with pytest.raises(EngineError, match="version 9 is gone"):
        TableLog.open(location, version=9)


def test_a_table_that_needs_more_than_is_known_is_refused(tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    write_deltalake(location, pa.table({"k": [1]}))
    first = entry_of(location, 0)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"], "writerFeatures": []}
    kept = [line for line in first.read_text().splitlines() if '"protocol"' not in line]
    first.write_bytes("\n".join([*kept, json.dumps({"protocol": protocol})]).encode())
    with pytest.raises(EngineError, match="needs Delta's catalogManaged"):
        assert TableLog.open(location).metadata
