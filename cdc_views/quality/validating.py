"""Runs all data tests of one table: first those that read no rows, then one query of counts, then a sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from cdc_views.engines.base import Engine, Read, Sources
from cdc_views.engines.exact import rows_of
from cdc_views.engines.plugin import engine_plugin
from cdc_views.engines.serving import serving_schema
from cdc_views.engines.warehouses import Sampled
from cdc_views.errors import ConfigError
from cdc_views.landing import raw_log
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.model.schema import TableSchema
from cdc_views.model.severity import Severity
from cdc_views.operations.ingest import check_landed
from cdc_views.operations.lateness import purged_through, state_of
from cdc_views.operations.querying import query_table
from cdc_views.operations.replication import expected_of, replicas
from cdc_views.operations.sources import remote_sources
from cdc_views.plan.where import NumberTextError, parse_where
from cdc_views.quality import bookkeeping, sampling, serving
from cdc_views.quality.checks import Check, Report
from cdc_views.quality.conditions import condition_of, test_name
from cdc_views.quality.counting import Wanted, counts_apart, of_condition, why_unreadable
from cdc_views.quality.sampling import DELETIONS, SAMPLE, Recomputed, differences, recomputed
from cdc_views.quality.truth import CapturedTruth, agreement
from cdc_views.rules.facts import Fact
from cdc_views.rules.instants import Instant, epoch_seconds
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import sources_of
from cdc_views.state.identity import MismatchError, RawMismatchError
from cdc_views.state.run import at_rest
from cdc_views.state.serving import open_serving
from cdc_views.state.serving import transaction_name as serving_transaction
from cdc_views.state.state_table import TRANSACTION, StateTable, id_of, state_schema
from cdc_views.state.tail import dropped_through
from cdc_views.storage.relation import RawTable
from cdc_views.storage.relation_read import facts_of
from cdc_views.storage.table_log import TableLog

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext


SAMPLED = 50
_DROPPED = "the state holds events that raw does not: what raw has does not tell"
_OF_FILES = (bookkeeping.FILES, bookkeeping.UNCHANGED)
_READ = Check("rows", "the tests that read rows")
_FILES = Check("raw_files", "what is kept in files is there and readable")
_LOOKS = 2
"""Reads of a sample: a landing or merge during the first also makes it differ, but hardly during the second, too."""


@dataclass(frozen=True, slots=True)
class _Run:
    table: TableContext
    engine: Engine
    raw: RawTable
    state: StateTable | None
    as_of: int
    now: int
    size: int
    seed: int
    tasks: Tasks


def validate_table(
    table: TableContext,
    *,
    engine: str | None = None,
    as_of: Instant | None = None,
    sample: int = SAMPLED,
    seed: int | None = None,
    now: Instant | None = None,
) -> Report:
    """Run the data tests of a table.

    Args:
        table: The table.
        engine: Where to run; default: the project's engine.
        as_of: The clock of rule C4; default: now.
        sample: The largest number of partitions that the oracle recomputes.
        seed: Selects the partitions; default: the raw table's version, so that each landing selects others.
        now: The instant that ages end at; default: the clock.

    Raises:
        UsageError: Nothing has landed yet.
        ConfigError: A data test of the project file names something that does not exist.
        EngineError: The engine failed.
    """
    start = time.monotonic()
    present = epoch_seconds(datetime.now(timezone.utc) if now is None else now, option="now")
    clock = present if as_of is None else epoch_seconds(as_of)
    name, version, checks = _tested(table, engine, as_of=clock, now=present, size=sample, seed=seed)
    return Report(table.name, name, clock, version, time.monotonic() - start, checks)


def _tested(
    table: TableContext, engine: str | None, *, as_of: int, now: int, size: int, seed: int | None
) -> tuple[str, int | None, tuple[Check, ...]]:
    if table.project.is_remote:
        with table.project.engine(engine) as opened:
            return opened.name, None, tuple(_remote(table, opened, as_of=as_of, size=size, seed=seed))
    raw = table.raw
    try:
        check_landed(table)
        state = state_of(table)
    except MismatchError as error:
        # the raw table or the state is not the one seen last, which is the first check
        check = bookkeeping.KNOWN if isinstance(error, RawMismatchError) else bookkeeping.OURS_OF_STATE
        return engine or "", None, (check.found([str(error)]),)
    log = raw_log(raw)
    version = None if log is None else log.version
    with table.project.engine(engine) as opened:
        least = engine_plugin(opened.name).spread_from
        tasks = HERE if least is None else Tasks(opened.spread, least)
        drawn_by = version or 0 if seed is None else seed
        run = _Run(table, opened, raw, state, as_of, now, size, drawn_by, tasks)
        return opened.name, version, tuple(_checks(run))


def _remote(table: TableContext, engine: Engine, *, as_of: int, size: int, seed: int | None) -> Iterator[Check]:
    raw = table.raw
    read = Read(raw, as_of=as_of, is_ordered=False)
    read = replace(read, sources=remote_sources(table, read, as_of=as_of))
    wanted, unreadable = _conditions(table)
    counted = counts_apart(engine, Sources(raw, 0, is_raw=True), as_of=as_of, wanted=wanted)
    yield from counted
    why = why_unreadable(counted)
    if not why and read.sources is None:
        why = "there is no state that could be read: the view is computed from raw each time"
    if why:
        yield from (check.skipped(why) for check in (SAMPLE, DELETIONS))
    else:
        with table.project.remote() as warehouse:
            yield from _compared(
                table, as_of=as_of, sampled=partial(warehouse.sample, table.config.slug, read, size=size, seed=seed)
            )
    yield _FILES.skipped("only for Delta tables of this machine")
    yield from _agreeing(table, engine)
    yield from unreadable


def _compared(table: TableContext, *, as_of: int, sampled: Callable[[], Sampled]) -> Iterator[Check]:
    relation = table.relation
    for _ in range(_LOOKS):
        sample = sampled()
        landed = list(facts_of(relation, sample.landed))
        expected = latest_rows(relation.schema, landed, now=as_of)
        shown = [] if sample.shown is None else list(rows_of(relation, (), sample.shown))
        note = _recomputed_from(relation.schema, sample.partitions, "all")
        check = SAMPLE.found(differences(relation.schema, expected, shown), note=note)
        kept = _kept_deletions(table, landed, list(facts_of(relation, sample.kept)), note=note)
        if not check.broken and not kept.broken:
            break
    yield from (check, kept)


def _kept_deletions(table: TableContext, landed: list[Fact], kept: list[Fact], *, note: str) -> Check:
    if table.config.materialize.lateness is not None:
        return DELETIONS.skipped("materialize.lateness lets the state forget deletions (rule M2)")
    return DELETIONS.found(sampling.lost_deletions(table.schema, landed, kept), note=note)


def _checks(run: _Run) -> Iterator[Check]:
    kept = list(_kept(run))
    yield from kept
    if damaged := [check.name for check in kept if check.broken and check.name.startswith(_OF_FILES)]:
        # an engine would only fail at that file
        yield _READ.skipped(f"{', '.join(damaged)} must hold first")
        return
    sources = sources_of(run.raw, run.table.state_location) if run.state is not None else None
    yield from _landed(run)
    yield from _read(run, sources)
    yield from _served(run)
    yield from _agreeing(run.table, run.engine)


def _kept(run: _Run) -> Iterator[Check]:
    yield bookkeeping.KNOWN
    yield from bookkeeping.whole(run.raw.location, "raw", tasks=run.tasks)
    if run.state is None:
        return
    state, serving_location, relation = run.state.location, run.table.serving_location, run.raw.relation
    how = partial(bookkeeping.kept, raw=run.raw, tasks=run.tasks)
    yield from how(state, transaction=TRANSACTION, schema=state_schema(relation), what="state")
    if serving_location is not None:
        mark, schema = serving_transaction(id_of(state)), serving_schema(relation)
        yield from how(serving_location, transaction=mark, schema=schema, what="serving")


def _landed(run: _Run) -> Iterator[Check]:
    yield bookkeeping.quarantine(run.raw)
    if run.state is not None:
        yield bookkeeping.late(run.state)
    yield from bookkeeping.freshness(run.raw, run.state, run.table.config.tests, now=run.now)
    yield _replicas(run)


def _read(run: _Run, sources: Sources | None) -> Iterator[Check]:
    """Yield the counts, and the sample, which is read from files while the engine counts."""
    why = _DROPPED if _lacks_events(run) else _why_too_large(run)
    facts = sources or Sources(run.raw, TableLog.open(run.raw.location).version, is_raw=True)
    wanted, unreadable = _conditions(run.table)
    with ThreadPoolExecutor(1, "sample") as beside:
        drawn = None if why else beside.submit(_recomputed, run, facts)
        counted = counts_apart(run.engine, facts, as_of=run.as_of, wanted=wanted)
    yield from counted
    yield from unreadable
    why = why_unreadable(counted) or why
    if why or drawn is None:
        yield from (check.skipped(why) for check in (SAMPLE, DELETIONS))
    else:
        yield from _sampled(run, drawn.result())


def _replicas(run: _Run) -> Check:
    rule = "each cell fact was seen on as many nodes as there are replicas; `cdc-views replicas` says which lag"
    check = Check("replica_coverage", rule, Severity.WARNING, unit="cell facts", because=True)
    factor = run.table.config.replication_factor
    if factor is None or factor == 1 or not run.table.format.carries_node:
        return check.skipped("the project file gives no replication_factor above 1, or events name no replica")
    if _lacks_events(run):
        return check.skipped(_DROPPED)
    report = replicas(run.table, expected_of(run.table))
    lagging = tuple(f"node {node.node} ({node.status.value}) lacks {node.lacking:,}" for node in report.nodes if node.lacking)
    if len(report.nodes) < factor:
        lagging = (f"events of only {len(report.nodes)} of {factor} nodes have landed", *lagging)
    return replace(check, broken=report.incomplete, where=lagging, note=f"{report.facts:,} cell facts, {factor} copies each")


def _conditions(table: TableContext) -> tuple[dict[str, Wanted], list[Check]]:
    """Return the conditions of the project file's tests, by name, and the tests that no engine evaluates as intended."""
    found: dict[str, Wanted] = {}
    unreadable = []
    for test in table.config.tests:
        condition = condition_of(test)
        if condition is None:
            continue
        name = test_name(test)
        if name in found:
            raise ConfigError(f"{table.name}: two data tests are called {name!r}; give each a `name` of its own")
        try:
            found[name] = (parse_where(table.relation.shown, condition), test.severity)
        except NumberTextError as error:
            unreadable.append(of_condition(name, test.severity).errored(error.advice))
    return found, unreadable


def _lacks_events(run: _Run) -> bool:
    """Return whether the state has facts that raw lacks: dropped from raw, or missing when it was accepted."""
    return dropped_through(run.raw.location) is not None or (run.state is not None and run.state.is_sole)


def _why_too_large(run: _Run) -> str:
    """Why all of raw is not read on this machine, as a sample without a state has to; empty if it may be."""
    if run.state is not None or sum(file.size for file in TableLog.open(run.raw.location).files) < run.tasks.least_bytes:
        return ""
    return "there is no state, and all of raw is too much for this machine; run `cdc-views materialize`, and a part is enough"


def _recomputed(run: _Run, sources: Sources) -> Recomputed:
    if run.state is None:
        return recomputed(sources, size=run.size, seed=run.seed, as_of=run.as_of, most=None)
    purged = frozenset(purged_through(run.raw.relation, run.state))
    return recomputed(sources, size=run.size, seed=run.seed, as_of=run.as_of, without=purged)


def _recomputed_from(schema: TableSchema, count: int, of_raw: str) -> str:
    return f"{count:,} {'partitions' if schema.clustering else 'keys'} recomputed from {of_raw} of raw"


def _sampled(run: _Run, drawn: Recomputed) -> Iterator[Check]:
    of_raw = "all" if drawn.landed.is_whole else "the state and some"
    note = _recomputed_from(run.raw.relation.schema, len(drawn.sample.identities), of_raw)
    yield SAMPLE.found(drawn.against(run.engine), note=note)
    if run.state is None:
        yield DELETIONS.skipped("there is no state, which alone could lose them")
    else:
        yield _kept_deletions(run.table, drawn.landed.facts, drawn.kept, note=note)


def _served(run: _Run) -> Iterator[Check]:
    location = run.table.serving_location
    if location is None or run.state is None:
        return
    table = open_serving(location, run.raw.relation, state_id=id_of(run.state.location))
    yield from serving.counted(table, run.raw.relation, tasks=run.tasks)
    yield serving.compared(run.engine, table, at_rest(run.raw, run.state), seed=run.seed)


def _agreeing(table: TableContext, engine: Engine) -> Iterator[Check]:
    for test in table.config.tests:
        if test.truth is None:
            continue
        source = CapturedTruth.open(table.project.root / test.truth, as_of=test.as_of)
        result = query_table(table, as_of=source.as_of, engine=engine.name)
        check = agreement(table.schema, source, result.rows())
        named = f"{check.name}.{test.name or test.truth}"
        yield replace(check, name=named, severity=test.severity)
