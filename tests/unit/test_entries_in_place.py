"""Log entries whose values are dropped stay the commits that they were."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_views.landing.vacuum import begin_log_at, vacuum_all
from cdc_views.state.identity import entry_digest, is_continued, why_not_continued
from cdc_views.storage.delta_log import digest_of, entry_of, in_place_of
from cdc_views.storage.table_log import TableLog


@pytest.fixture
def table(tmp_path: Path) -> str:
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [number], "secret": [f"secret {number}"]}), mode="append")
    return str(tmp_path)


def test_a_log_that_was_cut_continues_each_commit_before(table: str) -> None:
    before = TableLog.open(table)
    known = [entry_digest(before, version) for version in range(3)]
    assert len({0, *known}) == 4
    texts = [entry_of(table, version).read_bytes() for version in range(3)]
    for _ in range(2):
        begin_log_at(table, vacuum_all(table))
        now = TableLog.open(table)
        assert [entry_digest(now, version) for version in range(3)] == known
        assert all(
            is_continued(now, version, entry) and not why_not_continued(now, version, entry)
            for version, entry in enumerate(known)
        )
    assert all(entry_of(table, version).read_bytes() != text for version, text in enumerate(texts))
    assert not any(b"secret 1" in file.read_bytes() for file in Path(table, "_delta_log").glob("*.json"))


def test_another_commit_is_told_after_a_cut(table: str) -> None:
    known = entry_digest(TableLog.open(table), 2)
    begin_log_at(table, vacuum_all(table))
    entry = Path(str(entry_of(table, 2)))
    entry.write_bytes(entry.read_bytes().replace(str(known).encode(), b"77"))
    assert "is another commit" in why_not_continued(TableLog.open(table), 2, known)


@pytest.mark.parametrize("text", ['{"commitInfo": {"a": 1.5}}\n{"add": {"path": "é"}}\n', '{"txn": {}}\n', ""])
def test_an_entry_keeps_the_digest_of_the_first_one(text: str) -> None:
    actions = [json.loads(line) for line in text.splitlines()]
    once = in_place_of(text.encode(), actions)
    assert once != text.encode()
    assert digest_of(once) == digest_of(text.encode()) > 0
    assert digest_of(in_place_of(once, [{"txn": {}}])) == digest_of(once)
