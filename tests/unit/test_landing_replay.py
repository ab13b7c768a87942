"""Replay: what was quarantined lands once the schema or the decoder was mended."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.tiny_project import SCHEMA, append_lines, event, landed_ids, quarantined, raw_table, write_lines

from cdc_views.engines.base import RawTable
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import Position, StreamEvent, StreamLander, land, pipeline, replay
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.relation import Relation

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
FORMAT = CassandraMutation()


def priced(number: int) -> str:
    body = json.loads(event(number))
    body["rows"][0]["cells"].append({"column": "price", "written": number, "value": 5})
    return json.dumps(body)


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    """A raw table with one good event; two wait for a column, one is no JSON."""
    raw = raw_table(tmp_path)
    file = write_lines(tmp_path / "a.jsonl", event(1), priced(2), "nonsense", priced(4))
    report = land(raw, FORMAT, [file], now=NOW)
    assert (report.events, report.quarantined) == (1, 3)
    return raw


@pytest.fixture
def mended(raw: RawTable) -> RawTable:
    """The same raw table under the schema that has the column."""
    wider = TableSchema("shop", "orders", (*SCHEMA.columns, Column("price", Scalar(Kind.INT))))
    return RawTable(raw.location, Relation(wider))


def test_nothing_lands_before_anything_is_mended(raw: RawTable) -> None:
    before = DeltaTable(raw.location).version()
    report = replay(raw, FORMAT, now=NOW)
    assert (report.events, report.waiting) == (0, 3)
    assert DeltaTable(raw.location).version() == before


def test_what_decodes_now_lands_once_and_the_rest_waits(raw: RawTable, mended: RawTable) -> None:
    report = replay(mended, FORMAT, now=NOW)
    assert (report.events, report.facts, report.waiting) == (2, 2, 1)
    assert landed_ids(raw) == [1, 2, 4]
    assert [row["replay"] for row in quarantined(raw)] == [1, None, 1]
    assert "not JSON" in report.rejections[0].reason
    again = replay(mended, FORMAT, now=NOW)
    assert (again.events, again.waiting, landed_ids(raw)) == (0, 1, [1, 2, 4])


def test_replay_in_batches(raw: RawTable, mended: RawTable) -> None:
    assert replay(mended, FORMAT, now=NOW, batch_rows=1).events == 2
    assert landed_ids(raw) == [1, 2, 4]
    assert sorted(row["replay"] or 0 for row in quarantined(raw)) == [0, 1, 2]


def test_a_reason_is_freshened(raw: RawTable) -> None:
    class Stricter(CassandraMutation):
        def decode(self, event: Any, schema: TableSchema) -> Any:
            raise ValueError("stricter now")

    assert replay(raw, Stricter(), now=NOW).waiting == 3
    assert all("stricter now" in row["reason"] for row in quarantined(raw))


def test_without_quarantine_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert replay(raw_table(tmp_path), FORMAT, now=NOW).waiting == 0


class Crash(Exception):
    """The process dies here."""


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("is_mended_again", [True, False])
def test_a_crash_around_the_landing_loses_and_doubles_nothing(
    raw: RawTable, mended: RawTable, monkeypatch: pytest.MonkeyPatch, is_before: bool, is_mended_again: bool
) -> None:
    real = pipeline.appended

    def dying(*args: Any, **options: Any) -> Any:
        if not is_before:
            real(*args, **options)
        raise Crash

    monkeypatch.setattr(pipeline, "appended", dying)
    with pytest.raises(Crash):
        replay(mended, FORMAT, now=NOW)
    monkeypatch.undo()
    assert [row["replay"] for row in quarantined(raw)] == [1, None, 1]
    if is_before and is_mended_again:
        # a schema that lost the column again: the claim must not count as landed later
        assert replay(raw, FORMAT, now=NOW).waiting == 3
        assert [row["replay"] for row in quarantined(raw)] == [None, None, None]
    report = replay(mended, FORMAT, now=NOW)
    assert report.events == (2 if is_before else 0)
    assert landed_ids(raw) == [1, 2, 4]
    assert replay(mended, FORMAT, now=NOW).events == 0


def test_a_replay_overtaken_between_claim_and_landing_is_fenced_off(
    raw: RawTable, mended: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pipeline.appended

    calls = 0

    def overtaken(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:  # the first replay has claimed; a second one runs through before it lands
            assert replay(mended, FORMAT, now=NOW).events == 2
        return real(*args, **options)

    monkeypatch.setattr(pipeline, "appended", overtaken)
    report = replay(mended, FORMAT, now=NOW)
    assert report.events == 0
    assert landed_ids(raw) == [1, 2, 4]


def test_a_claim_taken_back_by_a_replay_that_lands_nothing_cannot_land_any_more(
    raw: RawTable, mended: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pipeline.appended

    calls = 0

    def overtaken(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:  # under the old schema nothing decodes: it takes the claim back and is done
            assert replay(raw, FORMAT, now=NOW).events == 0
        return real(*args, **options)

    monkeypatch.setattr(pipeline, "appended", overtaken)
    assert replay(mended, FORMAT, now=NOW).events == 2
    assert replay(mended, FORMAT, now=NOW).events == 0
    assert landed_ids(raw) == [1, 2, 4]


def test_landing_and_replaying_mix(raw: RawTable, mended: RawTable, tmp_path: Path) -> None:
    replay(mended, FORMAT, now=NOW)
    file = append_lines(tmp_path / "a.jsonl", priced(5), "worse")
    report = land(mended, FORMAT, [file], now=NOW)
    assert (report.events, report.quarantined) == (1, 1)
    assert (replay(mended, FORMAT, now=NOW).waiting, landed_ids(raw)) == (2, [1, 2, 4, 5])


def test_a_stream_that_meets_a_bad_event_after_a_replay_quarantines_it_once(raw: RawTable, mended: RawTable) -> None:
    replay(mended, FORMAT, now=NOW)
    bad = [StreamEvent(Position(1), b"worse")]
    for events, through in ((bad, 1), ([], 1), (bad, 2)):
        StreamLander(mended, FORMAT, "slot").land(events, through=Position(through), now=NOW)
    assert sorted(row["event"] for row in quarantined(raw) if row["replay"] is None) == [b"nonsense", b"worse"]
