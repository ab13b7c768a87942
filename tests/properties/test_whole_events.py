"""Reads of whole rows by event (`plan.events`) agree with the oracle, whichever columns events leave out (rules S1 to S4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from helpers.histories import LATE_LANDING, NOW, Histories, histories
from helpers.reading import CASES, SEED, assert_same, land, read_rows
from helpers.schemas import LOGGED
from helpers.timeline import written_by

from cdc_views.engines.base import Engine, Read, Sources, ViewDefinition, ask_of
from cdc_views.engines.duckdb.engine import DuckDbEngine, view_statement
from cdc_views.engines.duckdb.tables import tables_of
from cdc_views.engines.footers import Told, told_of
from cdc_views.engines.snapshot import snapshot_of
from cdc_views.formats.base import order_key
from cdc_views.plan.build import Ask, of_raw, planned
from cdc_views.plan.expr import Field, Newest
from cdc_views.plan.nodes import Aggregate, Node, in_order
from cdc_views.plan.parts import FileSet, Part, Parts, Source
from cdc_views.plan.reduction import WholeEvents
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.sql import rows_sql
from cdc_views.storage.relation import RawTable

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

SCHEMA, COLUMNS = LOGGED.schema, {column.name for column in LOGGED.schema.regulars}
TABLES = (
    Told(set()),
    Told(set(), has_truncates=True),
    Told({"r_text"}),
    Told(set(sorted(COLUMNS)[:3]), has_truncates=True),
    Told(set(COLUMNS)),
)
"""Tables by what their footers tell."""


def completed(fact: Fact, full: Fact, left_out: set[str]) -> Fact:
    """The event with a cell for each column that it may not leave out, taken from an event that has all."""
    if fact.liveness is None:
        return fact
    written = fact.liveness.written
    told = {name: replace(full.cells[name], written=written) for name in COLUMNS - left_out - fact.cells.keys()}
    return replace(fact, cells={**fact.cells, **told})


def made_of(told: Told) -> Histories:
    """Random histories of which footers tell that."""
    random = histories(LOGGED, cases=CASES, seed=SEED)
    full = next(fact for fact in random.facts if fact.cells.keys() == COLUMNS)
    batches = (
        tuple(completed(f, full, told.partial) for f in facts if told.has_truncates or f.kind is not FactKind.TABLE)
        for facts in (random.early, random.late)
    )
    return Histories(LOGGED, *batches)


@pytest.fixture(
    scope="module", params=TABLES, ids=lambda told: f"{len(told.partial)}-left-out{'-truncated' * told.has_truncates}"
)
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Histories, RawTable]:
    made = made_of(request.param)
    raw = land(tmp_path_factory.mktemp("whole"), LOGGED.relation, made.early, made.late)
    assert told_of(raw.relation, snapshot_of(raw).files) == request.param
    return made, raw


def check(trial: tuple[Histories, RawTable], engine: Engine, facts: tuple[Fact, ...] | list[Fact], **asked: Any) -> None:
    made, raw = trial
    expected = latest_rows(SCHEMA, facts, now=NOW)
    if columns := asked.get("columns"):
        expected = [{name: row[name] for name in columns} for row in expected]
    assert_same(expected, read_rows(engine, raw, as_of=NOW, **asked), of=made, how=f"{engine.name}, {asked}")


def test_duckdb_shows_what_the_oracle_shows(duckdb_engine: DuckDbEngine, trial: tuple[Histories, RawTable]) -> None:
    made, _ = trial
    check(trial, duckdb_engine, made.facts)
    check(trial, duckdb_engine, made.facts, columns=("case", "r_text", "r_datetime"))
    check(trial, duckdb_engine, made.facts, columns=("case", "num"))
    check(trial, duckdb_engine, made.early, landed_as_of=LATE_LANDING - 1)
    for limit in (order_key(2, ordinal=1), order_key(2, epoch=1)):
        check(trial, duckdb_engine, written_by(made.facts, limit), written_as_of=limit)


def statement_of(raw: RawTable) -> str:
    return view_statement(ViewDefinition("shop", "logged", raw))


def view_rows(statement: str, raw: RawTable) -> list[str]:
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'; CREATE SCHEMA shop")
        connection.execute(statement)
        return sorted(map(repr, connection.sql("SELECT * FROM shop.logged").fetchall()))


def followed(raw: RawTable) -> str:
    """The text of a view that knows nothing of its files, which the engines' tests compare with the oracle."""
    table = tables_of(raw, None, snapshot_of(raw), for_view=True)[Source.ALL]
    query = rows_sql(of_raw(Ask(raw.relation)), dialect_name="duckdb", strategy="auto", table=table, clock="")
    return f"CREATE VIEW shop.logged AS {query}"


def test_a_view_on_duckdb_knows_its_files_and_shows_the_same(trial: tuple[Histories, RawTable]) -> None:
    _, raw = trial
    text, told = statement_of(raw), told_of(raw.relation, snapshot_of(raw).files)
    assert told is not None
    assert text.count("rank IS NOT NULL") == len(told.partial)
    assert ("_kind = 'table'" in text) == told.has_truncates
    assert view_rows(text, raw) == view_rows(followed(raw), raw)


def test_a_view_on_duckdb_is_another_one_once_an_event_leaves_a_column_out(tmp_path: Path) -> None:
    made = made_of(Told(set()))
    raw = land(tmp_path, LOGGED.relation, made.facts)
    before = statement_of(raw)
    land(tmp_path, LOGGED.relation, made_of(Told({"r_text"})).facts)
    after = statement_of(raw)
    assert ("rank IS NOT NULL" in before, after.count("rank IS NOT NULL")) == (False, 1)
    assert view_rows(after, raw) == view_rows(followed(raw), raw)


@pytest.mark.spark
def test_spark_shows_what_the_oracle_shows(spark_engine: SparkEngine, trial: tuple[Histories, RawTable]) -> None:
    check(trial, spark_engine, trial[0].facts)


def reduced(partial: frozenset[str] | None) -> Node:
    ask = replace(ask_of(Read(RawTable("", LOGGED.relation), as_of=NOW)), events=WholeEvents(partial))
    return planned(ask, strategy="auto")


@pytest.mark.parametrize(
    ("partial", "tested"), [(frozenset(), None), (frozenset({"r_text"}), {"r_text"}), (None, COLUMNS)], ids=["none", "one", "any"]
)
def test_only_a_column_that_an_event_may_leave_out_is_tested(partial: frozenset[str] | None, tested: set[str] | None) -> None:
    grouped = [node for node in in_order(reduced(partial)) if isinstance(node, Aggregate) and node.keys]
    newest = [fold for node in grouped for _, fold in node.folds if isinstance(fold, Newest)]
    assert len(grouped) == (tested is not None), "events that tell every column need no group-by"
    names = {part.base.name for fold in newest if fold.where is not None for part in [fold.value] if isinstance(part, Field)}
    assert names == (tested or set())


@pytest.mark.parametrize("strategy", ["window", "self_join"])
def test_other_strategies_reduce_cells(strategy: str) -> None:
    ask = ask_of(Read(RawTable("", LOGGED.relation), as_of=NOW))
    assert planned(ask, strategy=strategy) == planned(replace(ask, events=None), strategy=strategy)
    assert planned(ask, strategy="aggregate") != planned(replace(ask, events=None), strategy="aggregate")


def test_facts_of_a_state_are_no_events() -> None:
    read = Read(RawTable("", LOGGED.relation), as_of=NOW)
    state = replace(read, sources=Sources(read.raw, 0, Parts({Part.BASE: FileSet(("a",))})))
    assert [ask_of(one).events is not None for one in (read, state)] == [True, False]


def test_events_of_one_write_time_are_reduced_cell_by_cell() -> None:
    ask = ask_of(Read(RawTable("", replace(LOGGED, is_positioned=False).relation), as_of=NOW))
    assert ask.events is None
