"""A raw table held open: what others commit is seen, and one that was removed or made anew is never taken for it."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.tiny_project import event, landed_ids, raw_table

from cdc_views.engines.base import RawTable
from cdc_views.errors import UsageError
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import Position, StreamEvent, StreamLander, streams

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    return raw_table(tmp_path)


def lander(raw: RawTable, stream: str = "slot") -> StreamLander:
    return StreamLander(raw, CassandraMutation(), stream)


def land(mine: StreamLander, *numbers: int) -> int:
    """Land events one a commit; returns how many landed."""
    batches = [[StreamEvent(Position(number), event(number).encode())] for number in numbers]
    return sum(mine.land(batch, through=batch[-1].position, now=NOW).events for batch in batches)


def test_a_table_is_opened_once_for_many_commits(raw: RawTable, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    real = streams.landing_log
    monkeypatch.setattr(streams, "landing_log", lambda *a, **named: opened.append(a) or real(*a, **named))
    monkeypatch.setattr(streams, "_OPENED_ANEW_AFTER", 8)
    mine = lander(raw)
    assert land(mine, *range(1, 8)) == 7
    assert len(opened) == 1
    assert land(mine, *range(8, 15)) == 7
    assert len(opened) == 2


def test_what_others_commit_is_seen(raw: RawTable) -> None:
    mine, same, other = lander(raw), lander(raw), lander(raw, "other")
    assert land(mine, 1) == 1
    assert land(other, 7, 8) == 2
    assert land(same, 1, 2, 3) == 2
    assert mine.position() == Position(3)
    assert land(mine, 3, 4) == 1
    assert landed_ids(raw) == [1, 2, 3, 4, 7, 8]


@pytest.mark.parametrize("others", [(), (11, 12, 13), (11, 12, 13, 14, 15, 16)])
def test_a_table_made_anew_is_begun_anew(raw: RawTable, others: tuple[int, ...]) -> None:
    """With fewer commits than the one that was open, as many, and more: none is mistaken for it."""
    mine = lander(raw)
    land(mine, 1, 2, 3)
    shutil.rmtree(raw.location)
    land(lander(raw, "other"), *others)
    assert mine.position() is None
    assert land(mine, 1, 2) == 2
    assert landed_ids(raw) == [1, 2, *others]
    assert DeltaTable(raw.location).version() == 2 + len(others)


def test_a_table_replaced_by_another_ones_is_refused(raw: RawTable) -> None:
    mine = lander(raw)
    land(mine, 1)
    shutil.rmtree(raw.location)
    DeltaTable.create(raw.location, raw.relation.arrow_schema(), name="other.orders")
    with pytest.raises(UsageError, match="no raw table of cdc-views"):
        land(mine, 2)
