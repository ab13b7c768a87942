"""Landing from a stream: each event once, wherever it is read from again and wherever a run stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.tiny_project import SCHEMA, event, landed_ids, quarantined, raw_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_views.engines.base import RawTable
from cdc_views.errors import EngineError, TransientError
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import Position, StreamEvent, StreamLander, pipeline, replay, streams
from cdc_views.model.schema import Column
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.conflicts import ConflictError

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
FORMAT = CassandraMutation()


def arriving(*numbers: int) -> list[StreamEvent]:
    """Events of rows 0, 1, …; number 7 does not decode."""
    contents = {number: b"{" if number == 7 else event(number).encode() for number in numbers}
    return [StreamEvent(position(number), contents[number]) for number in numbers]


def position(number: int) -> Position:
    """Three events a transaction."""
    return Position(100 + number // 3, number % 3)


def lander(raw: RawTable, stream: str = "slot") -> StreamLander:
    return StreamLander(raw, FORMAT, stream)


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    return raw_table(tmp_path)


@pytest.mark.parametrize("is_on_a_store", [False, True])
def test_a_lander_on_a_store_pauses_after_its_commit(raw: RawTable, is_on_a_store: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit of the landers of one table is refused where another came first, and a store's are slow."""
    monkeypatch.setattr("cdc_views.landing.streams.is_url", lambda location: is_on_a_store)
    report = lander(raw).land(arriving(1), through=position(1), now=NOW)
    assert (report.pause >= 1.0) == is_on_a_store
    assert (report.pause == 0.0) != is_on_a_store


def test_rows_and_position_are_one_commit(raw: RawTable) -> None:
    slot = lander(raw)
    assert slot.position() is None
    before = DeltaTable(raw.location).version()
    report = slot.land(arriving(1, 2, 3), through=position(3), now=NOW)
    assert (report.events, report.facts, report.skipped, report.quarantined) == (3, 3, 0, 0)
    assert DeltaTable(raw.location).version() == before + 1
    assert lander(raw).position() == position(3)
    assert landed_ids(raw) == [1, 2, 3]


def test_what_comes_again_is_skipped_and_commits_nothing(raw: RawTable) -> None:
    lander(raw).land(arriving(1, 2, 3), through=position(3), now=NOW)
    before = DeltaTable(raw.location).version()
    assert lander(raw).land(arriving(2, 3), through=position(3), now=NOW).skipped == 2
    assert DeltaTable(raw.location).version() == before
    report = lander(raw).land(arriving(2, 3, 4), through=position(4), now=NOW)
    assert (report.events, report.skipped) == (1, 2)
    assert landed_ids(raw) == [1, 2, 3, 4]


@pytest.mark.parametrize("note", ["", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:ü", "short", "1234567", "x" * 200])
def test_a_note_lands_with_its_position_whatever_was_noted_before(raw: RawTable, note: str) -> None:
    slot = lander(raw)
    slot.land(arriving(1), through=position(1), now=NOW, note="one of another length, which goes")
    slot.land(arriving(2), through=position(2), now=NOW, note=note)
    slot.land(arriving(2), through=position(2), now=NOW, note="of what had landed already")
    assert lander(raw).note() == (note or "one of another length, which goes")
    assert lander(raw, "other").note() == ""
    assert landed_ids(raw) == [1, 2]


def test_a_position_may_move_where_nothing_was_of_this_table(raw: RawTable) -> None:
    lander(raw).land([], through=Position(1 << 62, 5), now=NOW)
    assert lander(raw).position() == (1 << 62, 5)
    assert landed_ids(raw) == []


def test_each_stream_has_its_own_position(raw: RawTable) -> None:
    lander(raw, "node1").land(arriving(5), through=position(5), now=NOW)
    assert lander(raw, "node2").position() is None
    assert lander(raw, "node2").land(arriving(1), through=position(1), now=NOW).events == 1


def test_a_bad_event_waits_in_quarantine_with_its_place(raw: RawTable) -> None:
    report = lander(raw).land(arriving(6, 7, 8), through=position(8), now=NOW)
    assert (report.events, report.quarantined, report.rejections[0].line) == (2, 1, 1)
    (kept,) = quarantined(raw)
    assert (kept["source"], kept["offset"], kept["line"], kept["event"], kept["replay"]) == ("slot", 102, 1, b"{", None)


def test_what_waits_is_replayed_once_the_schema_knows_it(raw: RawTable, tmp_path: Path) -> None:
    cells = [{"column": "later", "written": 1, "value": "x"}]
    told = event(1, rows=[{"kind": "row", "clustering": {"line": 0}, "cells": cells}]).encode()
    assert lander(raw).land([StreamEvent(position(1), told)], through=position(1), now=NOW).quarantined == 1
    mended = raw_table(tmp_path, replace(SCHEMA, columns=(*SCHEMA.columns, Column("later", Scalar(Kind.TEXT)))))
    assert replay(mended, FORMAT, now=NOW).events == 1
    assert landed_ids(mended) == [1]
    assert lander(mended).land([StreamEvent(position(1), told)], through=position(1), now=NOW).skipped == 1


@contextmanager
def failing(where: Any, name: str, *, after: int, error: Exception, is_done: bool = False) -> Iterator[None]:
    """Make a function fail at its call number `after`, once, before it does anything or once it has."""
    real, calls = getattr(where, name), []

    def fails(*args: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) != after:
            return real(*args, **options)
        if is_done:
            real(*args, **options)
        raise error

    setattr(where, name, fails)
    try:
        yield
    finally:
        setattr(where, name, real)


def test_a_crash_between_quarantine_and_rows_repeats_the_batch_and_quarantines_once(raw: RawTable) -> None:
    with failing(pipeline, "appended", after=1, error=EngineError("disk full")), pytest.raises(EngineError, match="disk full"):
        lander(raw).land(arriving(6, 7, 8), through=position(8), now=NOW)
    assert landed_ids(raw) == []
    assert lander(raw).land(arriving(6, 7, 8), through=position(8), now=NOW).events == 2
    assert (landed_ids(raw), len(quarantined(raw))) == ([6, 8], 1)


def test_another_writer_that_commits_first_costs_an_attempt(raw: RawTable) -> None:
    with failing(pipeline, "appended", after=1, error=ConflictError("another writer"), is_done=True):
        # it had committed the very same batch: nothing is left to do
        assert lander(raw).land(arriving(1, 2), through=position(2), now=NOW).skipped == 2
    assert landed_ids(raw) == [1, 2]


def test_writers_that_never_stop_are_told(raw: RawTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_: Any, **__: Any) -> None:
        raise ConflictError("another writer")

    monkeypatch.setattr(pipeline, "appended", conflict)
    with pytest.raises(TransientError, match="slot: other writers kept committing"):
        lander(raw).land(arriving(1), through=position(1), now=NOW)


def test_two_at_once_land_each_event_once(raw: RawTable) -> None:
    lander(raw)
    batches = [(1, 2, 3), (4, 5, 6), (8, 9, 10), (11, 12, 13)]
    failures: list[Exception] = []

    def run() -> None:
        mine = lander(raw)
        try:
            for batch in batches:
                mine.land(arriving(*batch), through=position(batch[-1]), now=NOW)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures
    assert landed_ids(raw) == [number for batch in batches for number in batch]


cuts = st.lists(st.integers(0, 11), min_size=1, max_size=5)
crashes = st.sampled_from([None, ("put", False), ("put", True), ("appended", False), ("appended", True)])


@pytest.mark.heavy
@settings(
    max_examples=settings().max_examples // 4 or 1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.slow
@given(runs=st.lists(st.tuples(cuts, crashes), max_size=6))
def test_each_event_lands_once_whatever_stops_a_run(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[list[int], tuple[str, bool] | None]]
) -> None:
    """Each run begins anywhere before what has landed, in batches cut anywhere, and may crash at any commit."""
    raw = raw_table(tmp_path_factory.mktemp("stream"))
    for ends, crash in [*runs, ([11], None)]:
        done = lander(raw).position()
        first = 0 if done is None else min(ends[0], 3 * (done.at - 100) + done.nth)
        _run(raw, first, sorted({*ends, 11}), crash)
    assert landed_ids(raw) == [number for number in range(12) if number != 7]
    assert [row["offset"] for row in quarantined(raw)] == [position(7).at]


def _run(raw: RawTable, first: int, ends: Sequence[int], crash: tuple[str, bool] | None) -> None:
    mine = lander(raw)
    for last in ends:
        batch = arriving(*range(first, last + 1))
        if crash is None:
            mine.land(batch, through=position(last), now=NOW)
        else:
            where = streams if crash[0] == "put" else pipeline
            with failing(where, crash[0], after=1, error=EngineError("killed"), is_done=crash[1]):
                try:
                    mine.land(batch, through=position(last), now=NOW)
                except EngineError:
                    return
        first = last + 1
