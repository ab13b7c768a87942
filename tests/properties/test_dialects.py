"""Every dialect's text on an engine of that dialect, against the oracle; `helpers/dialect_engines.py` says which, and when.

Databricks' text runs on Spark: no Databricks can be had. It is Spark's text but for `REGEXP_LIKE`, which Spark has too.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from helpers.dialect_cases import REAL, assert_same, assert_view, random_table, real_table
from helpers.dialect_engines import ENGINES, Defining, Runner
from helpers.dialect_shown import SHOWN
from helpers.golden_cases import CASES as GOLDEN
from helpers.golden_cases import DECIMAL, INT, PRICE, TEXT, TIMESTAMP, UUID
from helpers.reading import STRATEGIES
from helpers.schemas import LOGGED, NARROW, SUBJECTS, Subject
from helpers.sql_words import answer, in_groups, statement

from cdc_views.errors import UnsupportedError
from cdc_views.model.schema import Role
from cdc_views.model.style import Style
from cdc_views.plan.build import Ask
from cdc_views.plan.rewrites import LOWERINGS
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.sql import ViewSql, generate, query_sql
from cdc_views.sql.dialects import dialect_class
from cdc_views.storage.relation import Relation

RunnerOf = Callable[[str], Runner]
QUICK_ON_SPARK = (NARROW, LOGGED)
"""Spark plans for seconds."""


def marked(dialect: str, *values: Any, is_often: bool = True) -> Any:
    """Parameters with the mark of a dialect's engine; `make test` leaves out what is not `is_often`."""
    mark = ENGINES[dialect].mark
    names = {name for name in (mark, "" if is_often or mark == "live" else "slow") if name}
    shared = [pytest.mark.shares("trino_server")] if dialect == "trino" else []
    return pytest.param(dialect, *values, marks=[*(getattr(pytest.mark, name) for name in sorted(names)), *shared])


def is_often(dialect: str, subject: Subject, strategy: str) -> bool:
    if ENGINES[dialect].mark == "spark":
        return strategy == "aggregate" and subject in QUICK_ON_SPARK
    return dialect == "duckdb" or strategy == "aggregate"


@pytest.fixture(scope="module")
def runner_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunnerOf]:
    """Returns a dialect's engine, opened once."""
    known: dict[Any, Runner] = {}
    with ExitStack() as opened:

        def get(dialect: str) -> Runner:
            engine = ENGINES[dialect]
            if engine.open not in known:
                known[engine.open] = opened.enter_context(engine.open(tmp_path_factory.mktemp(dialect), request.getfixturevalue))
            return known[engine.open]

        yield get


RUNS = [
    marked(dialect, subject, strategy, is_often=is_often(dialect, subject, strategy))
    for dialect, subject, strategy in product(ENGINES, SUBJECTS, LOWERINGS)
]
CASES = [marked(dialect, case, strategy, is_often=False) for dialect, case, strategy in product(ENGINES, REAL, LOWERINGS)]
VIEWS = [marked(dialect, subject, is_often=False) for dialect, subject in product(SHOWN, SUBJECTS)]


def named(value: Any) -> str | None:
    return value.name if isinstance(value, Subject) else None


@pytest.mark.parametrize(("dialect", "subject", "strategy"), RUNS, ids=named)
def test_random_histories_give_the_oracles_rows(runner_of: RunnerOf, dialect: str, subject: Subject, strategy: str) -> None:
    engine = ENGINES[dialect]
    table = random_table(subject, cases=engine.histories)
    assert len({fact.partition[0] for fact in table.facts if fact.partition}) == engine.histories
    engine.check(runner_of(dialect), table, dialect=dialect, strategy=strategy)


@pytest.mark.parametrize(("dialect", "case", "strategy"), CASES)
def test_real_cases_give_the_oracles_rows(
    runner_of: RunnerOf, cassandra_cases: Path, dialect: str, case: str, strategy: str
) -> None:
    table = real_table(cassandra_cases, case)
    ENGINES[dialect].check(runner_of(dialect), table, dialect=dialect, strategy=strategy, is_real=True)


@pytest.mark.parametrize(("dialect", "subject"), VIEWS, ids=named)
def test_the_view_shows_friendly_values_by_the_engines_clock(runner_of: RunnerOf, dialect: str, subject: Subject) -> None:
    table, runner = random_table(subject, cases=ENGINES[dialect].histories, seed=2), runner_of(dialect)
    source = runner.load(table.relation.rows(table.facts, landed_at=0))
    assert_view(table, runner.query, SHOWN[dialect], dialect=dialect, strategy="aggregate", source=source)


VALUES = {INT: 7, TEXT: "t", DECIMAL: Decimal("12.5"), PRICE: Decimal("12.5"), TIMESTAMP: 0, UUID: uuid.UUID(int=1)}
GOLDEN_FILES = Path(__file__).parents[1] / "golden"


def one_fact(relation: Relation) -> Fact:
    """A row of `VALUES`; what they do not have is null."""
    keys = [[VALUES[c.type] for c in relation.schema.columns if c.role is role] for role in (Role.PARTITION, Role.CLUSTERING)]
    shown = [(c.name, c.type, VALUES[c.type]) for c in relation.schema.regulars if c.type in VALUES]
    cells = {name: Cell(1, value, serialize(kind, value)) for name, kind, value in shown}
    return Fact(FactKind.ROW, *map(tuple, keys), Liveness(1), cells=cells)


FILES = [
    marked(dialect, case, is_often=ENGINES[dialect].mark != "spark" or case == "logged")
    for dialect, case in product(ENGINES, GOLDEN)
]


@pytest.mark.parametrize(("dialect", "case"), FILES)
def test_the_file_of_generated_text_is_run(runner_of: RunnerOf, dialect: str, case: str) -> None:
    relation, runner = GOLDEN[case], runner_of(dialect)
    source = runner.load(relation.rows([one_fact(relation)], landed_at=0))
    text = (GOLDEN_FILES / f"{dialect}__{case}.sql").read_text("utf-8").split(" AS\n", 1)[1]
    (row,) = runner.query(text.replace("raw_orders", source))
    for column in [c for c in relation.schema.columns if c.role is not Role.STATIC]:
        value = row[column.name]
        if column.type in (INT, TEXT):
            assert (value.decode() if isinstance(value, bytes) else value) == VALUES[column.type]
        if column.type == PRICE:
            assert isinstance(value, bytes) or float(value) == 12.5, "the reference implementation's NUMERIC is bytes here"


def shared(relation: Relation, dialect: str, *, source: str) -> tuple[list[str], str]:
    """The definitions of a view whose text shares them, and its query."""
    text = generate(
        relation, dialect_name=dialect, strategy="aggregate", view=ViewSql("shared", "v"), table=source, style=Style.MACROS
    )
    *definitions, view = text.split(";\n\n")
    return definitions, view.split(" AS\n", 1)[1]


def rows_shown(runner: Runner, query: str, dialect: str) -> list[Any]:
    """What a view shows; from Spark as text, since Python's dates and Arrow's structs cannot take all of it."""
    return runner.query(f"SELECT TO_JSON(STRUCT(*)) AS shown FROM ({query})" if ENGINES[dialect].mark == "spark" else query)


MACROS = [dialect for dialect in ENGINES if dialect_class(dialect).macro_form]
SHARED = [
    marked(dialect, subject, is_often=is_often(dialect, subject, "aggregate")) for dialect, subject in product(MACROS, SUBJECTS)
]


@pytest.mark.parametrize(("dialect", "subject"), SHARED, ids=named)
def test_a_view_by_shared_definitions_shows_the_same(runner_of: RunnerOf, dialect: str, subject: Subject) -> None:
    table, runner = random_table(subject, cases=ENGINES[dialect].histories, seed=3), runner_of(dialect)
    source = runner.load(table.relation.rows(table.facts, landed_at=0))
    plain = generate(table.relation, dialect_name=dialect, strategy="aggregate", view=ViewSql("", "v"), table=source)
    definitions, query = shared(table.relation, dialect, source=source)
    assert definitions or subject is LOGGED, "rows of a log that show what is stored need none"
    assert len(query) < len(plain)
    cast(Defining, runner).define("shared", definitions)
    expected = rows_shown(runner, plain.split(" AS\n", 1)[1], dialect)
    assert expected
    assert_same(expected, rows_shown(runner, query, dialect))


@pytest.mark.parametrize(("dialect", "case"), [marked(d, c, is_often=c == "scalars") for d, c in product(MACROS, GOLDEN)])
def test_shared_definitions_of_every_type_show_the_same(runner_of: RunnerOf, dialect: str, case: str) -> None:
    relation, runner = GOLDEN[case], runner_of(dialect)
    source = runner.load(relation.rows([one_fact(relation)], landed_at=0))
    definitions, query = shared(relation, dialect, source=source)
    cast(Defining, runner).define("shared", definitions)
    plain = generate(relation, dialect_name=dialect, strategy="aggregate", view=ViewSql("", "v"), table=source)
    assert_same(rows_shown(runner, plain.split(" AS\n", 1)[1], dialect), rows_shown(runner, query, dialect))


def test_a_wrong_definition_is_seen(runner_of: RunnerOf) -> None:
    table, runner = random_table(NARROW, cases=40), runner_of("duckdb")
    source = runner.load(table.relation.rows(table.facts, landed_at=0))
    definitions, query = shared(table.relation, "duckdb", source=source)
    wrong = [text.replace("written > deleted", "written >= deleted") for text in definitions]
    assert wrong != definitions
    cast(Defining, runner).define("shared", definitions)
    expected = runner.query(query)
    cast(Defining, runner).define("shared", wrong)
    with pytest.raises(AssertionError, match="rows differ"):
        assert_same(runner.query(query), expected)


@pytest.mark.parametrize("dialect", [dialect for dialect in ENGINES if dialect not in MACROS])
def test_a_dialect_without_functions_says_so(dialect: str) -> None:
    with pytest.raises(UnsupportedError, match="have no macros"):
        shared(NARROW.relation, dialect, source="raw_t")


@pytest.mark.parametrize("dialect", [marked(dialect) for dialect in ENGINES])
def test_a_wrong_winner_is_seen(runner_of: RunnerOf, dialect: str) -> None:
    table = random_table(NARROW, cases=40)
    with pytest.raises(AssertionError, match="rows differ"):
        ENGINES[dialect].check(runner_of(dialect), table, dialect=dialect, strategy="aggregate", worst=True)


@pytest.mark.parametrize("dialect", [marked(dialect) for dialect in ENGINES])
def test_each_word_is_read_as_a_name(runner_of: RunnerOf, dialect: str) -> None:
    runner = runner_of(dialect)
    own = runner.keywords()
    assert len(own) > 240 or dialect == "bigquery", "GoogleSQL alone does not tell its keywords"
    for words in in_groups(own, size=ENGINES[dialect].words):
        assert runner.query(statement(words, dialect)) == [answer(words, dialect)]


@pytest.mark.parametrize("dialect", ENGINES)
def test_every_strategy_meets_200_random_histories(dialect: str) -> None:
    assert len(SUBJECTS) * ENGINES[dialect].histories >= 200
    assert {strategy.value for strategy in STRATEGIES} == set(LOWERINGS)


def test_databricks_text_is_sparks_but_for_one_function() -> None:
    matches, met = re.compile(r"REGEXP_LIKE\((\S+), ('[^']*')\)"), 0
    for relation, strategy in [*product(GOLDEN.values(), LOWERINGS), *((subject.relation, "aggregate") for subject in SUBJECTS)]:
        spark, databricks = (
            query_sql(Ask(relation), dialect_name=name, strategy=strategy, table="raw_t") for name in ("spark", "databricks")
        )
        # the longer text may have more lines
        assert matches.sub(r"\1 RLIKE \2", databricks).split() == spark.split()
        met += len(matches.findall(databricks))
    assert met
