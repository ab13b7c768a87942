"""What landed, when, of which node; what landed too late; and the runs that brought it into the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_views.operations.context import TableContext
from cdc_views.operations.explained import part_row, value_text
from cdc_views.operations.lateness import LatePart, late_of
from cdc_views.operations.run_records import RunRecord, of_table
from cdc_views.pages.texts import MASKED, ShownValue, masked_columns, shown_value, visible
from cdc_views.rules.codec.row_texts import plain
from cdc_views.rules.codec.times import instant_text
from cdc_views.state.tail import landings
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.table_log import TableLog

RECENT = 400
"""Commits of raw, the newest, that the drawing has."""
LATE = 50
RUNS = 60
"""Runs of `materialize`, the newest, that the drawing has."""


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """Facts that one commit landed; `at` is the instant of the commit, in ms."""

    at: int
    facts: int


@dataclass(frozen=True, slots=True)
class LateChange:
    """A change that landed too late to be merged."""

    key: str
    what: str
    column: str
    value: ShownValue
    written: str
    landed: str
    node: str


@dataclass(frozen=True, slots=True)
class MaterializeRun:
    """A run of `materialize` that ended at `at` (ISO 8601): seconds, raw facts read, those too late, and bytes of the state after
    it; None: not known. `problem`: why it failed, empty if it did not.
    """

    at: str
    seconds: float | None = None
    facts: int | None = None
    late: int | None = None
    state_bytes: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LandingsPage:
    """The newest landings and runs of `materialize`, oldest first, and what was late: the newest of `late_in_all`, or none if
    values stay out. `has_earlier`: others came before these landings.
    """

    batches: tuple[LandedBatch, ...] = ()
    has_earlier: bool = False
    late: tuple[LateChange, ...] = ()
    late_in_all: int = 0
    runs: tuple[MaterializeRun, ...] = ()


def landings_page(table: TableContext, records: Iterable[RunRecord], *, with_values: bool = True) -> LandingsPage:
    """Return the page from logs and records of `materialize` alone, but for what was late."""
    runs = tuple(_run(record.at, figures) for record, figures in of_table(records, table.name)[-RUNS:])
    log = TableLog.find(table.raw.location)
    if log is None:
        return LandingsPage(runs=runs)
    after = max(-1, log.version - RECENT)
    batches = tuple(_batches(log, after))
    late = late_of(table)
    return LandingsPage(batches, after >= 0, tuple(_late(table, late[-LATE:] if with_values else ())), len(late), runs)


def _run(at: str, figures: Mapping[str, Any]) -> MaterializeRun:
    if figures.get("failed"):
        return MaterializeRun(at, problem=visible(str(figures.get("error") or "failed"), most=100))
    facts, late, size = (None if figures.get(name) is None else int(figures[name]) for name in ("facts", "late", "state_bytes"))
    seconds = figures.get("seconds")
    return MaterializeRun(at, None if seconds is None else float(seconds), facts, late, size)


def _batches(log: TableLog, after: int) -> list[LandedBatch]:
    found = []
    for commit in landings(log, after=after, through=log.version):
        facts = [DataFile.of(file).told or 0 for file in commit.files]
        if commit.committed is not None:
            found.append(LandedBatch(commit.committed, sum(facts)))
    return found


def _late(table: TableContext, parts: Sequence[LatePart]) -> list[LateChange]:
    masked, found = masked_columns(table), []
    for part in parts:
        row = part_row(table.schema, part)
        column = part.column
        value = "null"
        if column is not None and part.value is not None:
            value = value_text(column.type, part.path, part.value)
        found.append(
            LateChange(
                visible(row["key"], most=200),
                str(plain(row["what"])),
                "" if column is None else column.name,
                MASKED if column is not None and column.name in masked and value != "null" else shown_value(value),
                row["written"],
                instant_text(part.landed_at),
                visible(part.origin.node, most=60),
            )
        )
    return found
