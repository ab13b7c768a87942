"""The commit-log processor: what is read when, in which order, and what happens to what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from uuid import UUID

import pytest
from cdc_producers.cassandra.reader import Ended
from cdc_producers.cassandra.segments import held_bytes, index_of, segments_in
from cdc_producers.source import Emitted, LostError
from helpers.cassandra_log import IDS, ITEMS, ORDERS, WHOLE, Asked, Followed, Log, schema

from cdc_views.errors import TransientError
from cdc_views.landing import Position

UNKNOWN = UUID(int=9)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_live_segment_is_read_as_far_as_its_index_says(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ITEMS, 20), (ORDERS, 30), index="20\n")
    followed = Followed(log)
    assert followed.round()
    assert followed.events == [(ORDERS, 1, 10), (ITEMS, 1, 20)]
    assert not followed.round()
    index_of(log.path(1)).write_text("30\nCOMPLETED\n")
    assert followed.round()
    assert followed.events[2:] == [(ORDERS, 1, 30)]
    assert followed.done == [1]


def test_a_later_segment_waits_until_the_one_before_is_whole(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="10\n")
    log.write(2, (ORDERS, 10), index=None)
    followed = Followed(log)
    followed.round()
    assert followed.events == [(ORDERS, 1, 10)]
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="20\nCOMPLETED")
    log.write(2, (ORDERS, 10), index="10")
    followed.round()
    assert followed.events == [(ORDERS, 1, 10), (ORDERS, 1, 20), (ORDERS, 2, 10)]


def test_a_segment_that_a_killed_node_left_is_read_to_its_end(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="10\n")
    log.write(2, (ORDERS, 10), index="10")
    followed = Followed(log)
    followed.follower.abandoned_after = 100.0
    followed.round()
    assert followed.events == [(ORDERS, 1, 10)]
    followed.follower.abandoned_after = 0.0
    followed.round()
    assert followed.events == [(ORDERS, 1, 10), (ORDERS, 1, 20), (ORDERS, 2, 10)]
    assert followed.done == [1]


@pytest.mark.parametrize("text", ["", "1x", "\n"])
def test_an_index_that_is_being_rewritten_is_looked_at_again(log: Log, text: str) -> None:
    log.write(1, (ORDERS, 10), index=text)
    followed = Followed(log)
    assert not followed.round()
    index_of(log.path(1)).write_text("10\n")
    assert followed.round()
    assert followed.events == [(ORDERS, 1, 10)]


def test_an_index_that_stays_empty_does_not_hide_its_segment(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="")
    log.write(2, (ORDERS, 10), index="10")
    followed = Followed(log)
    followed.follower.abandoned_after = 100.0
    followed.round()
    assert followed.events == []  # 2 first would make 1 look as if it had landed
    followed.follower.abandoned_after = 0.0
    followed.round()
    assert followed.events == [(ORDERS, 1, 10), (ORDERS, 2, 10)]


def test_a_segment_without_an_index_holds_nothing_that_is_tracked(log: Log) -> None:
    log.write(1, (ORDERS, 10), index=None)
    log.write(2, (ORDERS, 20), index="20")
    followed = Followed(log)
    followed.round()
    assert followed.events == [(ORDERS, 2, 20)]


def test_a_start_goes_on_where_the_table_that_is_furthest_behind_stands(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="10\nCOMPLETED")
    log.write(2, (ITEMS, 10), (ORDERS, 20), (ITEMS, 30), index="30")
    followed = Followed(log, landed={ORDERS: Position(2, 20), ITEMS: Position(2, 10)})
    followed.round()
    assert followed.events == [(ORDERS, 2, 20), (ITEMS, 2, 30)]
    assert followed.done == [1]  # so that what is due after landing is done for it


@pytest.mark.parametrize("number", [1, 2])
def test_a_segment_that_goes_away_unread_ends_the_agent(log: Log, number: int) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="10")
    log.write(2, (ORDERS, 10), index="10")
    followed = Followed(log)
    followed.follower.abandoned_after = 100.0
    followed.round()
    assert followed.events == [(ORDERS, 1, 10)], "the second waits for the rest of the first"
    log.path(number).unlink()
    with pytest.raises(LostError, match=f"segment {number} went away") as lost:
        followed.round()
    assert lost.value.exit_code == 3


def test_a_segment_that_goes_away_before_its_turn_is_not_taken_for_a_corrupt_one(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="10\nCOMPLETED")
    log.write(2, (ORDERS, 10), index="10\nCOMPLETED")
    log.faults[2, 10] = [Ended(0, 0, "corrupt", "NoSuchFileException")] * 9
    followed = Followed(log)

    def emit(item: Emitted) -> None:
        log.path(2).unlink(missing_ok=True)

    with pytest.raises(LostError, match="segment 2 went away"):
        followed.follower.round(emit, Event())


def test_a_whole_segment_may_go_away(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="10\nCOMPLETED")
    followed = Followed(log)
    followed.round()
    log.path(1).unlink()
    assert not followed.round()


def test_an_unknown_table_id_waits_for_the_node(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="20")
    unknown = Ended(10, 1, "table", "unknown", 20, UNKNOWN)
    log.faults[1, 20] = [unknown, unknown]
    followed = Followed(log, Asked(schema("1"), TransientError("down")))
    with pytest.raises(TransientError, match="waits for the node's schema"):
        followed.round()
    assert followed.events == [(ORDERS, 1, 10)]
    followed.asked.newer = schema("2", UNKNOWN)
    followed.round()
    assert followed.events == [(ORDERS, 1, 10), (ORDERS, 1, 20)]
    assert (followed.pushed, followed.follower.gone) == (1, [])


def test_a_table_that_the_node_has_no_more_is_passed_over_and_told(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="20")
    log.faults[1, 10] = [Ended(0, 0, "table", "unknown", 10, UNKNOWN)]
    followed = Followed(log)
    followed.round()
    assert followed.follower.gone == [UNKNOWN]
    assert any(str(UNKNOWN) in line and "dropped" in line for line in followed.said.lines)


def test_a_table_id_that_a_schema_file_lacks_waits_for_the_file(log: Log, tmp_path: Path) -> None:
    log.write(1, (ORDERS, 10), index="10")
    log.faults[1, 10] = [Ended(0, 0, "table", "unknown", 10, UNKNOWN)]
    followed = Followed(log, Asked(schema("1"), file=tmp_path / "s.cql"))
    with pytest.raises(TransientError, match=r"s\.cql has no such table"):
        followed.round()


def test_a_mutation_of_a_newer_schema_is_read_again_by_it(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="10")
    log.faults[1, 10] = [Ended(0, 0, "mutation", "Unknown column x", 10, content=b"\x01")]
    followed = Followed(log, Asked(schema("1"), schema("2")))
    followed.round()
    assert followed.events == [(ORDERS, 1, 10)]
    assert followed.emitted[0].content == b"1:10"
    assert followed.pushed == 1


def test_a_mutation_that_nobody_can_read_goes_to_its_tables_quarantine(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="20")
    content = b"\x01" + IDS[ITEMS].bytes + b"rest"
    log.faults[1, 10] = [Ended(0, 0, "mutation", "odd", 10, content=content)]
    followed = Followed(log)
    followed.round()
    assert followed.events == [(ITEMS, 1, 10), (ORDERS, 1, 20)]
    said = json.loads(followed.emitted[0].content or b"")
    assert said["unreadable"] == {"reason": "odd", "bytes": content.hex()}


def test_what_nobody_can_read_of_whatever_table_is_told_to_each(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="10")
    log.faults[1, 10] = [Ended(0, 0, "mutation", "odd", 10, content=b"\x02")]
    followed = Followed(log)
    followed.round()
    assert followed.events == [(ORDERS, 1, 10), (ITEMS, 1, 10)]


def test_rows_that_hold_an_odd_value_are_read_again_as_lines(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="20")
    log.odd.add((1, 20))
    followed = Followed(log)
    followed.round()
    # the runtime leaves out what comes a second time
    assert followed.events == [(ORDERS, 1, 10), (ORDERS, 1, 10), (ORDERS, 1, 20)]
    assert log.restarted == 1


def test_bytes_that_are_wrong_for_a_moment_are_read_again(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="10")
    log.faults[1, 10] = [Ended(0, 0, "corrupt", "checksum")] * 2
    followed = Followed(log)
    followed.round()
    assert followed.events == [(ORDERS, 1, 10)]


def test_a_corrupt_segment_is_kept_and_the_next_is_read(log: Log) -> None:
    log.write(1, (ORDERS, 10), (ORDERS, 20), index="20\nCOMPLETED")
    log.write(2, (ORDERS, 10), index="10")
    log.faults[1, 20] = [Ended(10, 1, "corrupt", "checksum")] * 9
    followed = Followed(log)
    followed.round()
    lost = WHOLE - 1
    assert followed.events == [(ORDERS, 1, 10), (ORDERS, 1, lost), (ITEMS, 1, lost), (ORDERS, 2, 10)]
    assert (log.folder / "aside" / log.path(1).name).read_bytes() == b"log"
    assert followed.done == [1]


def test_a_corrupt_segment_that_the_node_still_writes_is_waited_for(log: Log) -> None:
    log.write(1, (ORDERS, 10), index="10")
    log.faults[1, 10] = [Ended(0, 0, "corrupt", "checksum")] * 9
    with pytest.raises(TransientError, match="the node still writes it"):
        Followed(log).round()


def test_segments_are_listed_oldest_first(log: Log) -> None:
    for number in (300, 20, 1000):
        log.write(number, index="7\nCOMPLETED" if number == 20 else None)
    (log.folder / "other.txt").write_text("no segment")
    assert [(s.id, s.limit, s.is_complete) for s in segments_in(log.folder)] == [
        (20, 7, True),
        (300, None, False),
        (1000, None, False),
    ]
    assert held_bytes(log.folder) == 9
    with pytest.raises(TransientError, match="--cdc-folder"):
        segments_in(log.folder / "nowhere")
