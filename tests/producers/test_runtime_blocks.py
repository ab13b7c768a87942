"""Sources that hand on many events at once: the queue counts each, and what is said again is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_producers.queue import BoundedQueue, Limits
from cdc_producers.source import Emitted
from helpers.memory_source import TABLE, Memory, runtime
from helpers.tiny_project import event, landed_ids, raw_table

from cdc_views.errors import TransientError
from cdc_views.landing import EventBlock, Position


def block(*numbers: int, stream: str = "log") -> Emitted:
    contents = [event(number).encode() for number in numbers]
    events = EventBlock(numbers, contents, sum(map(len, contents)))
    return Emitted(TABLE, stream, Position(numbers[-1]), events, 1.0)


def test_the_queue_counts_the_events_of_blocks() -> None:
    queue = BoundedQueue(Limits(queue_rows=5, batch_rows=3, batch_seconds=0))
    for item in (block(1, 2), block(3, 4), block(5)):
        queue.put(item, while_waiting=lambda: pytest.fail("it had to wait"))
    assert queue.rows == 5
    assert queue._is_full(1, 0)
    assert queue.bytes > sum(len(event(number)) for number in range(1, 6))
    assert [item.position.at for item in queue.take()] == [2, 4]
    assert queue.rows == 1
    assert [item.position.at for item in queue.take()] == [5]
    assert (queue.rows, queue.bytes) == (0, 0)


def test_a_block_larger_than_the_queue_goes_in_alone() -> None:
    queue = BoundedQueue(Limits(queue_rows=2))
    queue.put(block(1, 2, 3, 4), while_waiting=lambda: pytest.fail("it had to wait"))
    assert queue.rows == 4


def test_blocks_that_come_again_otherwise_cut_land_once(tmp_path: Path) -> None:
    raw = raw_table(tmp_path)
    log = [block(1, 2, 3), block(10, 11, stream="other"), block(2, 3, 4), block(4, 5), block(11, 12, stream="other")]
    source = Memory(log, troubles=[TransientError("gone")])
    runner = runtime(source, raw)
    runner.run()
    assert source.runs == 2
    assert landed_ids(raw) == [1, 2, 3, 4, 5, 10, 11, 12]
    assert runner.metrics.skipped(TABLE)._value.get() == 0  # cut off before they were queued
