"""Collects the report of a table. Only reads, after the updates that every read makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.formats.base import WriteOrder
from cdc_views.landing import raw_log
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.raw_table import is_delta
from cdc_views.model.naming import physical_name
from cdc_views.model.types import Udt
from cdc_views.operations.damage import naming_damage
from cdc_views.operations.explained import KEYS_AND_VALUES, candidate_rows, verdict
from cdc_views.operations.ingest import adapted
from cdc_views.operations.lateness import state_of
from cdc_views.operations.querying import explain_row, query_table
from cdc_views.operations.run_records import runs_of
from cdc_views.operations.verifying.record import record_of
from cdc_views.pages.cells import page_of as page_of_explanation
from cdc_views.pages.checking import Outcomes, conditions_of, lines_of
from cdc_views.pages.columns import columns_page
from cdc_views.pages.home import line_with
from cdc_views.pages.landings import landings_page
from cdc_views.pages.nodes import NodesPart, nodes_part
from cdc_views.pages.proving import proof_page
from cdc_views.pages.report.model import Extent, Landing, RawFigures, RecentRow, Results, RunReport, StateFigures, TableReport
from cdc_views.pages.texts import Veil, masked_columns
from cdc_views.pages.waiting import waiting_page
from cdc_views.plan import names
from cdc_views.plan.expr import Agg, Call, Each, Expr, Field, Fold, Greatest, Item, Lit, Named, Op, col
from cdc_views.plan.nodes import Aggregate, Node, Ordered, Scan
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.parts import Source
from cdc_views.project.paths import slug_of
from cdc_views.quality.bookkeeping import ages, quarantine
from cdc_views.quality.checks import Check, key_text
from cdc_views.quality.validating import validate_table
from cdc_views.rules.codec.times import second_text
from cdc_views.rules.facts import FactKind
from cdc_views.sql.dialects import dialect
from cdc_views.state.tail import dropped_through, tail_of
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.relation_read import key_of
from cdc_views.storage.table_log import TableLog

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext

RECENT = 5
WAITING = 200
"""Events of quarantine on a page."""
CANDIDATES = 1_000
"""Candidates of a row on its page."""
_NOTHING_LANDED = "nothing has landed yet"
_DROPPED = "events were dropped from raw, so that this would be wrong"
_FACTS = "n_facts"
_READ = ("_origin", names.LANDED)
"""Columns with the place and time that a fact was read, and nothing of its content."""


def collect(
    table: TableContext, run: RunReport, *, dialects: Sequence[str], recent: int, results: Mapping[str, tuple[Check, ...]] | None
) -> TableReport:
    """Return the report of one table for `run`, by its clocks and engine, with the given `results` or those of a new test run.

    Raises `UsageError` for an unknown dialect or engine, `EngineError` if raw table, state or serving table cannot be read.
    """
    for name in dialects:
        dialect(name)
    with naming_damage(table):
        adapted(table)
        log = raw_log(table.raw)
        has_landed = log is not None and bool(log.added)
        figures = _landed(table, run) if has_landed else {}
        nodes = nodes_part(table) if has_landed else NodesPart(None, _NOTHING_LANDED)
        checks, no_checks = _tests(table, run, results) if has_landed or results is not None else ((), _NOTHING_LANDED)
        rows, no_recent = _recent(table, run, recent) if has_landed else ((), _NOTHING_LANDED)
        waiting = quarantine(table.raw)
        return TableReport(
            name=table.name,
            view=f"{table.config.keyspace}.{table.config.view_name}",
            page=page_of(table.name),
            format=table.format.name,
            micros=table.relation.order is WriteOrder.MICROS,
            **_pages(table, run, checks, dialects=dialects),
            quarantined=waiting.broken or 0,
            nodes=nodes,
            checks=checks,
            no_checks=no_checks,
            recent=rows,
            no_recent=no_recent,
            verified_through=record_of(table).verified_through or "",
            **figures,
        )


def page_of(name: str) -> str:
    """Return the file name of a table's page, which differs from other tables' and from the first page's.

    >>> page_of("shop.orders"), page_of("index")
    ('shop_orders.html', 'table-index.html')
    """
    stem = slug_of(name)
    return f"{'table-index' if stem == 'index' else stem}.html"


def _pages(table: TableContext, run: RunReport, checks: tuple[Check, ...], *, dialects: Sequence[str]) -> dict[str, Any]:
    """What the pages of `cdc-views ui` show of a table, by the field's name."""
    results, has_values = Results.of(checks), run.has_values
    outcomes = Outcomes(second_text(run.now), results.passed, results.failed, results.warnings, results.skipped)
    conditions = conditions_of(table)
    return {
        "slug": table.config.slug,
        "columns": columns_page(table, dialects),
        "landings": landings_page(table, runs_of(table.project, "materialize"), with_values=has_values),
        "waiting": waiting_page(table, most=WAITING, with_values=has_values),
        "proof": proof_page(table, runs_of(table.project, "verify", "rebuild")),
        "lines": lines_of(table, checks, conditions, with_values=has_values),
        "line": line_with(table, outcomes if checks else None),
    }


def _landed(table: TableContext, run: RunReport) -> dict[str, Any]:
    raw, state = table.raw, state_of(table)
    extent = extent_of(raw.location)
    with DuckDbEngine() as engine:
        reader = RawReader(engine, raw, extent.version)
        landings, distinct = reader.landings(), reader.distinct()
    facts = sum(landing.facts for landing in landings)
    key = table.schema.row_key[0].name
    serving, covered = table.serving_location, None if state is None else state.raw_version
    tail = None if covered is None else tail_of(TableLog.open(raw.location), after=covered)
    return {
        "raw": RawFigures(extent, facts, distinct, landings, dropped_through(raw.location)),
        "ages": ages(raw, state, now=run.now),
        "shown": len(query_table(table, as_of=run.as_of, columns=(key,), engine=run.engine)),
        "state": None if state is None else StateFigures(extent_of(state.location), state.raw_version, tail),
        "serving": extent_of(serving) if serving is not None and is_delta(serving) else None,
        "late": state.rows(Source.LATE) if state is not None else 0,
    }


def _tests(table: TableContext, run: RunReport, results: Mapping[str, tuple[Check, ...]] | None) -> tuple[tuple[Check, ...], str]:
    if results is None:
        return validate_table(table, engine=run.engine, as_of=run.as_of, now=run.now).checks, ""
    checks = results.get(table.name, ())
    return checks, "" if checks else "the file of results has none of this table"


def _recent(table: TableContext, run: RunReport, most: int) -> tuple[tuple[RecentRow, ...], str]:
    if dropped_through(table.raw.location) is not None:
        return (), _DROPPED
    with DuckDbEngine() as engine:
        keys = RawReader(engine, table.raw, TableLog.open(table.raw.location).version).recent(most)
    rows = []
    for key, written in keys:
        explanation = explain_row(table, key, as_of=run.as_of)
        hidden = () if run.has_values else KEYS_AND_VALUES
        shown = tuple({name: text for name, text in row.items() if name not in hidden} for row in candidate_rows(explanation))
        veil = Veil(masked_columns(table), is_whole=not run.has_values)
        cell = page_of_explanation(explanation, key=key, veil=veil, order=table.relation.order, most=CANDIDATES)
        rows.append(RecentRow(written, key if run.has_values else "", verdict(explanation), shown, cell))
    return tuple(rows), "" if rows else "raw has no fact about a row"


def extent_of(location: str) -> Extent:
    """Return the files of a Delta table's newest version; raises `EngineError` if it cannot be read."""
    with delta_errors(location):
        table = opened(location)
        files = pa.table(table.get_add_actions(flatten=True))
    rows = files.column("num_records").to_pylist()
    sizes = files.column("size_bytes").to_pylist()
    return Extent(table.version(), len(sizes), sum(map(int, sizes)), None if None in rows else sum(map(int, rows)))


@dataclass(frozen=True, slots=True)
class RawReader:
    """Reads one version of a raw table on an engine. Raises `EngineError` if it cannot."""

    engine: Engine
    raw: RawTable
    version: int

    def landings(self) -> tuple[Landing, ...]:
        """Return the number of facts by landing time, oldest first."""
        scan = Scan("landed", "fact", ((names.LANDED, col(names.LANDED)),))
        found = self._rows(Aggregate("landings", "landing", scan, (names.LANDED,), _counted()))
        counts = {pa.scalar(row[names.LANDED], pa.timestamp("us", tz="UTC")).value: int(row[_FACTS]) for row in found}
        return tuple(Landing(int(at), facts) for at, facts in sorted(counts.items()))

    def distinct(self) -> int:
        """Return the number of distinct facts, apart from the place and time that they were read."""
        columns = [name for name in self.raw.relation.arrow_schema().names if name not in _READ]
        scan = Scan("said", "fact", tuple((name, col(name)) for name in columns))
        each = Aggregate("distinct_facts", "distinct fact", scan, tuple(columns), ())
        (row,) = self._rows(Aggregate("distinct_counted", "table", each, (), _counted()))
        return int(row[_FACTS] or 0)

    def recent(self, most: int) -> list[tuple[str, int]]:
        """Return keys, as JSON, with the largest write times, and these; at most `most`, newest first, ties by key."""
        key = self.raw.relation.schema.row_key
        found = self._rows(_recent_keys(self.raw.relation, most))
        return [(key_text(key, key_of(key, row)), int(row[WRITTEN])) for row in found]

    def _rows(self, plan: Node) -> Iterator[dict[str, Any]]:
        yield from self.engine.rows(plan, Sources(self.raw, self.version, is_raw=True)).to_pylist()


def _counted() -> Named:
    return ((_FACTS, Agg(Fold.COUNT, Lit(1))),)


def _recent_keys(relation: Relation, most: int) -> Node:
    keys = [names.identity(column) for column in relation.schema.row_key]
    shown = [name for column in relation.schema.row_key for name in names.shown_as(column) if name not in keys]
    columns = {name: col(name) for name in dict.fromkeys((*keys, *shown))}
    is_row = Call(Op.EQ, (col(names.KIND), Lit(FactKind.ROW.value)))
    written = Call(Op.GREATEST, tuple(_write_times(relation)))
    scan = Scan("written_rows", "row fact", (*columns.items(), (WRITTEN, written)), is_row)
    folds: Named = (*((name, Agg(Fold.MIN, col(name))) for name in shown), (WRITTEN, Agg(Fold.MAX, col(WRITTEN))))
    each = Aggregate("written_keys", "row key", scan, tuple(keys), folds)
    return Ordered("recent_keys", "row key", each, ((WRITTEN, True), *((name, False) for name in keys)), most)


def _write_times(relation: Relation) -> Iterator[Expr]:
    yield Field(col(names.LIVE), WRITTEN)
    yield Field(col(names.DELETED), WRITTEN)
    for column in relation.schema.regulars:
        stored = col(physical_name(column.name))
        if not column.type.is_multicell:
            yield Field(stored, WRITTEN)
            continue
        yield Field(Field(stored, "deletion"), WRITTEN)
        cells = Field(stored, "cells")
        if isinstance(column.type, Udt):
            yield from (Field(Field(cells, physical_name(name)), WRITTEN) for name, _ in column.type.fields)
        else:
            yield Greatest(Each(cells, Field(Item(), WRITTEN)))
