"""The engine: reads and views are jobs in BigQuery over raw tables there."""

from __future__ import annotations

import difflib
from datetime import datetime
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.engines.base import Read, Sources, StateWrite, ViewDefinition, Written, ask_of
from cdc_views.engines.serving import ServingWrite
from cdc_views.engines.warehouses import (
    Estimate,
    Sampled,
    Standing,
    StateDefinition,
    StateRun,
    StateStanding,
    ViewChange,
    WarehouseEngine,
)
from cdc_views.errors import EngineError, UnsupportedError, UsageError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.denylist import Denylist
from cdc_views.landing.external import Adaptation
from cdc_views.landing.external.sinks import SinkColumns
from cdc_views.plan.nodes import Node
from cdc_views.plan.rewrites import lowered
from cdc_views.rules.instants import micros
from cdc_views.sql import query_sql
from cdc_views.sql.dialects import dialect
from cdc_views.sql.render import Renderer
from cdc_views.storage.relation import LAYOUT_VERSION, RawTable, Relation
from cdc_views.storage.relation_read import KeyFacts
from cdc_views_bigquery import ddl
from cdc_views_bigquery.client import Connection, Deployed
from cdc_views_bigquery.config import SCHEME, BigQueryConfig, Datasets
from cdc_views_bigquery.costs import price
from cdc_views_bigquery.ddl import DIALECT, MOST_ALIGNED, Statement, Target, full_name, not_too_deep, target_of
from cdc_views_bigquery.external import Adapting, columns_of
from cdc_views_bigquery.incoming import QUARANTINE, Incoming
from cdc_views_bigquery.keyed import condition_of
from cdc_views_bigquery.landing import BigQueryLanding
from cdc_views_bigquery.limits import check_statement
from cdc_views_bigquery.state import StateTables, merging_of
from cdc_views_bigquery.types import Fields, bare, differences, merged, quoted


class BigQueryEngine(WarehouseEngine):
    """Runs plans as query jobs; makes datasets, raw tables, views and table functions. Sends nothing before its first use."""

    name = DIALECT

    def __init__(self, place: Datasets, config: BigQueryConfig) -> None:
        self.place, self.config = place, config
        self.connection = Connection(place.project, config)

    def __enter__(self) -> BigQueryEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def read(self, read: Read) -> pa.Table:
        return self._rows(self.sql(read), read.raw)

    def sql(self, read: Read) -> str:
        return self._sql(read, table=quoted(full_name(read.raw if read.sources is None else read.sources.raw)))

    def _sql(self, read: Read, *, table: str) -> str:
        target = Target(read.raw.relation, full_name(read.raw), "", read.strategy.value)
        is_pretty = len(read.raw.relation.schema.columns) < MOST_ALIGNED
        with not_too_deep(target):
            text = query_sql(ask_of(read), dialect_name=DIALECT, strategy=target.strategy, table=table, is_pretty=is_pretty)
        check_statement(text, what=f"the query of {read.raw.relation.schema.full_name}")
        return text

    def rows(self, plan: Node, sources: Sources) -> pa.Table:
        renderer = Renderer(dialect(DIALECT), table=quoted(full_name(sources.raw)))
        text = renderer.sql(lowered(plan))
        check_statement(text, what=f"a query of {sources.raw.relation.schema.full_name}")
        return self._rows(text, sources.raw)

    def _rows(self, text: str, raw: RawTable, *, what: str = "reading") -> pa.Table:
        """Return a query's rows; empty multi-cell collections become null, as in exact form."""
        rows = self.connection.rows(text, what=f"{what} {raw.relation.schema.full_name}")
        for index, column in enumerate(rows.schema):
            if pa.types.is_list(column.type):
                values = rows.column(index)
                is_filled = pc.greater(pc.list_value_length(values), 0)
                shown = pc.if_else(is_filled, values, pa.scalar(None, column.type))
                rows = rows.set_column(index, column, shown)
        return rows

    def apply(self, view: ViewDefinition) -> str:
        """See `Engine.apply`; also makes datasets and the raw table if they are missing, and lets the view read the raw table."""
        target, _ = self._target(view)
        statements = self.statements(target)
        for made in statements:
            self._make(made, target.relation)
        if self.config.authorize_views and target.events is None:  # another's dataset gets no rights from here
            self._authorize([s.name for s in statements if s.kind in (ddl.Kind.VIEW, ddl.Kind.PART)], target)
        return next(made.sql for made in statements if made.kind is ddl.Kind.VIEW)

    def _target(self, view: ViewDefinition) -> tuple[Target, StateStanding | None]:
        """Return the view's places and its state, which the view reads if the state has every column of the schema file."""
        if view.events is not None:
            return target_of(view), None
        kept = self.state(view.state, view.raw) if view.state else None
        return target_of(view, facts=kept.facts if kept is not None and kept.is_complete else ""), kept

    def _authorize(self, views: list[str], target: Target) -> None:
        """Let the views read their sources, for everybody who may read the views."""
        facts = bare(target.facts)
        pairs = [(view, facts or target.raw) for view in views] + ([(facts, target.raw)] if facts else [])
        for view, source in pairs:
            if view.rpartition(".")[0] != (dataset := source.rpartition(".")[0]):
                self.connection.authorize(view, reads=dataset)

    def statements(self, target: Target) -> list[Statement]:
        """Return the statements of one table's datasets, raw table, view and function, in order; all are checked first."""
        if target.events is not None:
            return [ddl.dataset(target.view.rpartition(".")[0], self.config), *ddl.views(target, self.config)]
        names = [name.rpartition(".")[0] for name in (target.view, target.raw)]
        made = [ddl.dataset(name, self.config) for name in dict.fromkeys(names)]
        return [*made, ddl.raw_table(target, self.config), *ddl.views(target, self.config), ddl.function(target)]

    def _make(self, made: Statement, relation: Relation) -> None:
        if made.kind is ddl.Kind.RAW and (found := self.connection.deployed(made.name)) is not None:
            self._complete(found, relation)
            return
        if made.kind is ddl.Kind.DATASET and self.connection.has_dataset(made.name):
            return
        self.connection.run(made.sql, what=f"creating {made.kind.value} {made.name}")

    def _complete(self, found: Deployed, relation: Relation) -> None:
        _check_layout(found, relation)
        wanted = ddl.raw_fields(relation)
        additions, conflicts = differences(found.fields, wanted)
        if conflicts:
            raise EngineError(
                f"raw table {found.name} does not hold events of {relation.schema.full_name}: {'; '.join(conflicts)}; "
                "name another one (`raw.table`), or move this one away"
            )
        if additions:
            self.connection.extend(found.name, merged(found.fields, wanted))

    def plan(self, view: ViewDefinition) -> ViewChange:
        target, _ = self._target(view)
        self.statements(target)  # raises for what is too large for BigQuery, before anything is asked
        raw, (*parts, (_, query)) = self.connection.deployed(target.raw), ddl.view_queries(target)
        deployed = self.connection.deployed(target.view)
        diff = "".join(_diff(name, self.connection.deployed(name), text) for name, text in parts)
        diff += _diff(target.view, deployed, query)
        # BigQuery can be asked about a view of parts only once the parts are there
        query = ddl.rows_query(target) if parts else query
        lines = _raw_lines(target, raw) if target.events is None else []
        asked = None if raw is None or lines else self.connection.dry_run(query, what=f"planning {target.view}")
        if asked is not None and deployed is not None:
            lines += _view_lines(target, deployed, asked.fields)
        change = "create" if deployed is None else "replace" if diff or lines else "none"
        estimate = None
        if asked is not None:
            money = price(asked.reads, self.config)
            estimate = Estimate(asked.reads, money, self.config.currency, self.config.byte_limit)
        return ViewChange(change, diff, tuple(lines), raw.rows if raw else 0, raw.bytes if raw else 0, estimate)

    def standing(self, view: ViewDefinition) -> Standing:
        target, kept = self._target(view)
        raw, deployed = self.connection.deployed(target.raw), self.connection.deployed(target.view)
        if deployed is None:
            state = "missing"
        else:
            (*_, (_, query)) = ddl.view_queries(target)
            state = "current" if deployed.query.strip() == query.strip() else "differs"
        rows, size = (None, None) if raw is None else (raw.rows, raw.bytes)
        return Standing(target.raw, rows, size, target.view, state, kept)

    def state(self, name: str, raw: RawTable) -> StateStanding | None:
        return self._tables(StateDefinition(name, raw)).standing()

    def late(self, name: str, raw: RawTable) -> tuple[pa.Table, pa.Table]:
        return self._tables(StateDefinition(name, raw)).late()

    def sample(self, name: str, read: Read, *, size: int, seed: int | None) -> Sampled:
        relation = read.raw.relation
        state = self._tables(StateDefinition(name, read.raw))
        partitions = state.draw(size=size, seed=seed) if size else []
        if not partitions:
            nothing = relation.arrow_schema().empty_table()
            return Sampled(0, nothing, nothing, None)
        text = self._sql(read, table=state.chosen(partitions))
        shown = self._rows(text, read.raw, what="reading partitions of")
        return Sampled(len(partitions), state.landed(partitions), state.kept(partitions), shown)

    def materialize(self, state: StateDefinition, *, full: bool = False, dry_run: bool = False) -> StateRun:
        relation, tables = state.raw.relation, self._tables(state)
        raw = self.connection.deployed(full_name(state.raw))
        if raw is None:
            raise UsageError(f"{relation.schema.full_name}: there is no raw table {full_name(state.raw)}; run `cdc-views apply`")
        if dry_run:
            return tables.planned(full=full)
        self._complete(raw, relation)
        self._make(ddl.dataset(tables.merging.dataset, self.config), relation)
        return tables.run(full=full)

    def landing(self, raw: RawTable, format: RawFormat, *, now: datetime, forgotten: Denylist | None) -> BigQueryLanding:
        return BigQueryLanding(self._incoming(raw), Decoder(raw, format, micros(now), forgotten))

    def adapt(
        self,
        found: str,
        derived: RawTable,
        format: RawFormat,
        *,
        setting: str,
        names: SinkColumns,
        now: datetime,
        forgotten: Denylist | None,
    ) -> Adaptation:
        decoder = Decoder(derived, format, micros(now), forgotten)
        return Adapting(self._incoming(derived), found.removeprefix(SCHEME), decoder, setting, names).run()

    def columns(self, found: str) -> pa.Schema:
        return columns_of(self.connection, found.removeprefix(SCHEME))

    def facts_about(self, raw: RawTable, wanted: KeyFacts) -> pa.Table:
        name = full_name(raw)
        found = self.connection.deployed(name)
        if found is None:
            raise UsageError(f"{raw.relation.schema.full_name}: there is no raw table {name}; run `cdc-views apply`")
        known = {field.name for field in found.fields}
        columns = ", ".join(quoted(name) for name in raw.relation.arrow_schema().names if name in known)
        text = f"SELECT {columns} FROM {quoted(name)} WHERE {condition_of(wanted)}"
        return self.connection.rows(text, what=f"reading the facts of a key of {raw.relation.schema.full_name}")

    def waiting(self, raw: RawTable) -> tuple[int, str]:
        name = full_name(raw) + QUARANTINE
        if self.connection.deployed(name) is None:
            return 0, ""
        text = f"SELECT COUNT(*) AS events, MIN(reason) AS reason FROM {quoted(name)} WHERE replay IS NULL"
        (found,) = self.connection.rows(text, what="counting what is in quarantine").to_pylist()
        return found["events"], found["reason"] or ""

    def _incoming(self, raw: RawTable) -> Incoming:
        target = Target(raw.relation, full_name(raw), "")

        def make() -> None:
            for made in (ddl.dataset(target.raw.rpartition(".")[0], self.config), ddl.raw_table(target, self.config)):
                self._make(made, raw.relation)

        # a derived raw table has one name with its state (`StateDefinition.name`); no other raw table is ever emptied
        state = self._tables(StateDefinition(target.raw.rpartition(".")[2], raw))
        return Incoming(self.connection, raw, target.raw, make, state.merging)

    def _tables(self, state: StateDefinition) -> StateTables:
        merging = merging_of(self.place.dataset(self.place.state), self.config, state)
        return StateTables(self.connection, merging, state.raw.relation)

    def load(self, raw: RawTable, rows: pa.Table) -> str:
        """Append rows in the canonical layout to a raw table, all or none; return the job's id."""
        return self.connection.load(rows, full_name(raw), what=f"loading into {full_name(raw)}")

    def write_state(self, write: StateWrite) -> Written:
        raise UnsupportedError("engine bigquery does not keep a state in Delta files", remedy="see docs/how-to/tools/bigquery.md")

    def write_serving(self, write: ServingWrite) -> None:
        raise UnsupportedError(
            "engine bigquery keeps no serving table in Delta files", remedy="see docs/how-to/tools/bigquery.md"
        )

    def close(self) -> None:
        self.connection.close()


def _diff(name: str, deployed: Deployed | None, query: str) -> str:
    before = "" if deployed is None else deployed.query.strip()
    names = (f"{name} (deployed)", f"{name} (planned)")
    return "\n".join(difflib.unified_diff(before.splitlines(), query.strip().splitlines(), *names, lineterm=""))


def _raw_lines(target: Target, raw: Deployed | None) -> list[str]:
    """Return what `apply` adds to the raw table; if there is anything, BigQuery cannot be asked about the planned query yet."""
    wanted = ddl.raw_fields(target.relation)
    if raw is None:
        return [f"+ {target.raw} with {len(wanted)} columns"]
    additions, conflicts = differences(raw.fields, wanted)
    return [f"{line[0]} {target.raw}:{line[1:]}" for line in additions + conflicts]


def _view_lines(target: Target, view: Deployed, shown: Fields) -> list[str]:
    additions, conflicts = differences(view.fields, shown)
    gone, _ = differences(shown, view.fields)
    lines = [f"{line[0]} {target.view}:{line[1:]}" for line in additions + conflicts]
    return lines + [f"- {target.view}:{line[1:]}" for line in gone]


def _check_layout(found: Deployed, relation: Relation) -> None:
    _, marked, rest = found.description.partition("raw layout ")
    number = rest.rstrip(")")
    if marked and number.isdigit() and int(number) > LAYOUT_VERSION:
        raise UnsupportedError(
            f"raw table {found.name} has layout {number}, and this version knows {LAYOUT_VERSION}", remedy="upgrade cdc-views"
        )
