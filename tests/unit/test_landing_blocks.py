"""Events handed on many at once, and streams of one table in one commit: each event lands once, as one by one."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable
from helpers.tiny_project import event, landed_ids, quarantined, raw_table

from cdc_views.errors import EngineError
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import BatchReport, EventBlock, Position, StreamBatch, StreamEvent, StreamLander, pipeline
from cdc_views.landing.blocks import Lines, one_by_one
from cdc_views.storage.relation import RawTable

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    return raw_table(tmp_path)


def lander(raw: RawTable, stream: str = "a") -> StreamLander:
    return StreamLander(raw, CassandraMutation(), stream)


def block(*numbers: int, bad: int = 0) -> StreamEvent:
    """The events of these numbers, at offsets that are the same."""
    contents = [b"{" if number == bad else event(number).encode() for number in numbers]
    return StreamEvent(Position(numbers[-1]), EventBlock(numbers, contents, sum(map(len, contents))))


def batch(stream: str, *events: StreamEvent) -> StreamBatch:
    return StreamBatch(stream, events, events[-1].position)


def land(raw: RawTable, *batches: StreamBatch) -> BatchReport:
    return lander(raw).land_together(batches, now=NOW)


def positions(raw: RawTable) -> list[Position | None]:
    return [lander(raw, stream).position() for stream in "ab"]


def test_what_comes_after_a_position_is_left_of_a_block() -> None:
    whole = EventBlock([3, 5, 8], [b"c", b"ee", b"hhh"], 6)
    assert whole.after(Position(2)) is whole
    assert whole.after(Position(5)) == EventBlock([8], [b"hhh"], 3)
    assert whole.after(Position(4)).size == 5
    assert whole.after(Position(8)).events == 0


def test_positions_within_a_transaction_are_kept_where_a_block_has_them() -> None:
    whole = EventBlock([3, 3, 5], [b"c", b"dd", b"eee"], 6, [1, 4, 2])
    assert whole.after(Position(3)) is whole
    assert whole.after(Position(3, 1)) == EventBlock([3, 5], [b"dd", b"eee"], 5, [4, 2])
    assert whole.after(Position(5, 1)) == EventBlock([5], [b"eee"], 3, [2])
    assert whole.after(Position(5, 2)).events == 0
    lines = Lines()
    lines.add("a", [StreamEvent(Position(5, 2), whole)])
    assert [lines.event(index).position for index in range(3)] == [(3, 1), (3, 4), (5, 2)]
    assert [each.position for each in one_by_one([StreamEvent(Position(5, 2), whole)])] == [(3, 1), (3, 4), (5, 2)]


def test_lines_know_the_stream_and_the_position_of_each_event() -> None:
    lines = Lines()
    lines.add("a", [block(1, 2), StreamEvent(Position(7, 3), b"x")])
    lines.add("none", [])
    lines.add("b", [block(1)])
    assert [lines.stream(index) for index in range(len(lines))] == ["a", "a", "a", "b"]
    assert [lines.event(index).position for index in range(4)] == [(1, 0), (2, 0), (7, 3), (1, 0)]
    assert [each.position for each in one_by_one([block(1, 2)])] == [(1, 0), (2, 0)]


def test_blocks_that_overlap_land_once(raw: RawTable) -> None:
    assert land(raw, batch("a", block(1, 2, 3), block(2, 3, 4))).events == 4
    report = land(raw, batch("a", block(3, 4), block(4, 5, 6)))
    assert (report.events, report.skipped) == (2, 3)
    assert landed_ids(raw) == [1, 2, 3, 4, 5, 6]


def test_streams_land_in_one_commit_with_all_their_positions(raw: RawTable) -> None:
    lander(raw)
    before = DeltaTable(raw.location).version()
    assert land(raw, batch("a", block(1, 2)), batch("b", block(10, 11), block(12))).events == 5
    assert DeltaTable(raw.location).version() == before + 1
    assert positions(raw) == [Position(2), Position(12)]
    report = land(raw, batch("a", block(1, 2)), batch("b", block(12, 13)))
    assert (report.events, report.skipped) == (1, 3)
    assert positions(raw) == [Position(2), Position(13)]
    assert landed_ids(raw) == [1, 2, 10, 11, 12, 13]


def test_a_stream_that_another_lands_first_is_skipped_and_the_others_land(raw: RawTable, monkeypatch: pytest.MonkeyPatch) -> None:
    real, others = pipeline.appended, [batch("a", block(1, 2))]

    def late(*args: object, **options: object) -> object:
        if others:
            land(raw, others.pop())
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "appended", late)
    report = land(raw, batch("a", block(1, 2, 3)), batch("b", block(10)))
    assert (report.events, report.skipped) == (2, 2)
    assert landed_ids(raw) == [1, 2, 3, 10]


def test_a_bad_event_of_a_block_goes_to_quarantine_once_with_its_own_offset(
    raw: RawTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = batch("a", block(1, 2, 3, bad=2)), batch("b", block(2, 4, bad=2))
    with monkeypatch.context() as patched:

        def crash(*args: object, **options: object) -> None:
            raise EngineError("the disk is full")

        patched.setattr(pipeline, "appended", crash)
        with pytest.raises(EngineError, match="disk is full"):
            land(raw, *batches)
    assert positions(raw) == [None, None]
    report = land(raw, *batches)
    assert (report.events, report.quarantined) == (3, 2)
    assert landed_ids(raw) == [1, 3, 4]
    assert sorted((row["source"], row["offset"]) for row in quarantined(raw)) == [("a", 2), ("b", 2)]
