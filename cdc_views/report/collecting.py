"""Collects what a report tells of a table. Reads; changes nothing but what every read brings up to date first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.errors import UnsupportedError
from cdc_views.formats.base import WriteOrder
from cdc_views.landing import exists, open_raw
from cdc_views.landing.quarantine import waiting
from cdc_views.landing.raw_table import is_delta
from cdc_views.operations.explained import KEYS_AND_VALUES, candidate_rows, verdict
from cdc_views.operations.fidelity import fidelity_of
from cdc_views.operations.generating import generate_view
from cdc_views.operations.ingest import adapted
from cdc_views.operations.lateness import state_of
from cdc_views.operations.querying import explain_row, query_table
from cdc_views.operations.replication import expected_of, replicas
from cdc_views.plan.parts import Source
from cdc_views.project.paths import slug_of
from cdc_views.quality.bookkeeping import ages
from cdc_views.quality.checks import Check
from cdc_views.quality.validating import validate_table
from cdc_views.report.figures import RawReader, extent_of
from cdc_views.report.lineage import lineage_of
from cdc_views.report.model import RawFigures, RecentRow, StateFigures, TableReport, ViewText
from cdc_views.rules.codec.jsontext import JsonRow
from cdc_views.sql.dialects import dialect
from cdc_views.state.state_table import StateTable
from cdc_views.state.tail import dropped_through, tail_of

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext

RECENT = 5
"""Rows explained per table, unless asked for others."""
_NOTHING_LANDED = "nothing has landed yet"
_DROPPED = "events were dropped from raw, so that this would be wrong"


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What a report is to tell.

    Attributes:
        now: Epoch seconds that ages are counted to.
        as_of: Epoch seconds: the clock of rule C4.
        engine: Where tests and the view run; None for the project's.
        dialects: Whose SQL to show.
        recent: How many of the rows written most recently to explain.
        has_values: Whether to tell keys and values.
        results: Checks by table to tell instead of running the data tests; None to run them.
    """

    now: int
    as_of: int
    engine: str | None = None
    dialects: tuple[str, ...] = ()
    recent: int = RECENT
    has_values: bool = False
    results: Mapping[str, tuple[Check, ...]] | None = None


def collect(table: TableContext, asked: ReportRequest) -> TableReport:
    """Return the report of one table.

    Raises:
        UsageError: An unknown dialect or engine.
        EngineError: Its raw table, state or serving table cannot be read.
    """
    for name in asked.dialects:
        dialect(name)
    adapted(table)
    found = TableReport(
        name=table.name,
        view=f"{table.config.keyspace}.{table.config.view_name}",
        page=page_of(table.name),
        format=table.format.name,
        fidelity=tuple(fidelity_of(table)),
        texts=tuple(_text(table, name) for name in asked.dialects),
        lineage=lineage_of(table.relation),
        micros=table.relation.order is WriteOrder.MICROS,
        no_replicas=_NOTHING_LANDED,
        no_checks=_NOTHING_LANDED,
        no_recent=_NOTHING_LANDED,
    )
    first, where = _quarantine(table)
    found = replace(found, quarantined=first, first_quarantined=where)
    if not exists(table.raw) or not open_raw(table.raw).file_uris():
        return replace(found, **_tests(table, asked)) if asked.results is not None else found
    return replace(found, **_landed(table, asked), **_replicas(table), **_tests(table, asked), **_recent(table, asked))


def page_of(name: str) -> str:
    """Return the file name of a table's page; no two names share one, nor the first page's.

    >>> page_of("shop.orders"), page_of("index")
    ('shop_orders.html', 'table-index.html')
    """
    stem = slug_of(name)
    return f"{'table-index' if stem == 'index' else stem}.html"


def _text(table: TableContext, name: str) -> ViewText:
    try:
        return ViewText(name, generate_view(table, name))
    except UnsupportedError as error:
        return ViewText(name, "", refusal=str(error))


def _quarantine(table: TableContext) -> tuple[int, str]:
    """How many events wait, and the file and line of the first: its reason may quote it."""
    count, first = waiting(table.raw)
    return count, ":".join(first.split(":")[:2]) if first else ""


def _landed(table: TableContext, asked: ReportRequest) -> dict[str, Any]:
    """Figures of raw (DuckDB reads it, as for `replicas`), state and serving table, and how many rows the view shows."""
    raw, state = table.raw, state_of(table)
    extent = extent_of(raw.location)
    with DuckDbEngine() as engine:
        reader = RawReader(engine, raw, extent.version)
        landings, distinct = reader.landings(), reader.distinct()
    facts = sum(landing.facts for landing in landings)
    key = table.schema.row_key[0].name
    serving = table.serving_location
    return {
        "raw": RawFigures(extent, facts, distinct, landings, dropped_through(raw.location)),
        "ages": ages(raw, state, now=asked.now),
        "shown": len(query_table(table, as_of=asked.as_of, columns=(key,), engine=asked.engine)),
        "state": None if state is None else _state(table, state),
        "serving": extent_of(serving) if serving is not None and is_delta(serving) else None,
        "late": state.rows(Source.LATE) if state is not None else 0,
    }


def _state(table: TableContext, state: StateTable) -> StateFigures:
    extent = extent_of(state.location)
    if state.raw_version is None:
        return StateFigures(extent, None, None, 0)
    tail = tail_of(open_raw(table.raw), after=state.raw_version)
    return StateFigures(extent, state.raw_version, tail.rows, len(tail.files), tail.rebuild)


def _replicas(table: TableContext) -> dict[str, Any]:
    if not table.format.carries_node:
        return {"no_replicas": f"events of {table.format.name} do not say which replica they come from"}
    if table.config.replication_factor is None:
        return {"no_replicas": "the project file gives no replication_factor"}
    if dropped_through(table.raw.location) is not None:
        return {"no_replicas": _DROPPED}
    return {"replicas": replicas(table, expected_of(table)), "no_replicas": ""}


def _tests(table: TableContext, asked: ReportRequest) -> dict[str, Any]:
    if asked.results is None:
        report = validate_table(table, engine=asked.engine, as_of=asked.as_of, now=asked.now)
        return {"checks": report.checks, "no_checks": ""}
    checks = asked.results.get(table.name, ())
    return {"checks": checks, "no_checks": "" if checks else "the file of results has none of this table"}


def _recent(table: TableContext, asked: ReportRequest) -> dict[str, Any]:
    """The rows written most recently, explained."""
    if dropped_through(table.raw.location) is not None:
        return {"no_recent": _DROPPED}
    with DuckDbEngine() as engine:
        keys = RawReader(engine, table.raw, open_raw(table.raw).version()).recent(asked.recent)
    rows = []
    for key in keys:
        explanation = explain_row(table, key.key, as_of=asked.as_of)
        shown = tuple(row if asked.has_values else _without_values(row) for row in candidate_rows(explanation))
        rows.append(RecentRow(key.written, key.key if asked.has_values else "", verdict(explanation), shown))
    return {"recent": tuple(rows), "no_recent": "" if rows else "raw has no fact about a row"}


def _without_values(row: JsonRow) -> JsonRow:
    return {name: text for name, text in row.items() if name not in KEYS_AND_VALUES}
