"""Rows that a source made by itself land as its events would."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from tiny_project import SCHEMA, event, landed_ids, raw_table

from cdc_views.landing import Position, StreamEvent, StreamLander
from cdc_views.landing.rows import DecodedRows
from cdc_views.raw.base import SourceLine
from cdc_views.raw.cassandra_mutation import CassandraMutation
from cdc_views.relation import RawTable, Relation

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def rows(*numbers: int, relation: Relation | None = None) -> DecodedRows:
    """The rows of events at these positions of segment 1."""
    of = relation or Relation(SCHEMA)
    facts = [fact for number in numbers for fact in CassandraMutation().decode(SourceLine(event(number)), of.schema)]
    return DecodedRows(of, of.rows(facts, landed_at=0).drop_columns(["_landed_at"]), len(numbers), numbers[0])


def lander(raw: RawTable) -> StreamLander:
    return StreamLander(raw, CassandraMutation(), "log")


def land(raw: RawTable, *items: DecodedRows, through: int) -> tuple[int, int, int]:
    """Events, facts and skipped of a batch."""
    last = [int(item.table["_origin"].to_pylist()[-1]["position"]) for item in items]
    events = [StreamEvent(Position(1, at), item) for at, item in zip(last, items, strict=True)]
    report = lander(raw).land(events, through=Position(1, through), now=NOW)
    return report.events, report.facts, report.skipped


def test_rows_land_once_however_they_overlap(tmp_path: Path) -> None:
    raw = raw_table(tmp_path)
    assert land(raw, rows(1, 2, 3), rows(2, 3, 4), through=4) == (4, 4, 0)
    assert land(raw, rows(3, 4), rows(4, 5), through=5) == (1, 1, 1)
    assert landed_ids(raw) == [1, 2, 3, 4, 5]
    assert lander(raw).position() == Position(1, 5)


def test_rows_of_a_schema_from_before_a_drop_land_without_the_column(tmp_path: Path) -> None:
    before = Relation(SCHEMA)
    raw = raw_table(tmp_path)
    kept = tuple(column for column in SCHEMA.columns if column.name != "state")
    now = replace(raw, relation=Relation(replace(SCHEMA, columns=kept)))
    assert land(now, rows(1, 2, relation=before), through=2) == (2, 2, 0)
    assert landed_ids(now) == [1, 2]
