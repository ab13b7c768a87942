"""BigQuery's SQL in GoogleSQL's reference implementation: the oracle's rows, and the facts the dialect declares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.dialect_cases import REAL, Friendly, Table, assert_exact, assert_shown, assert_view, random_table, real_table
from helpers.reading import STRATEGIES
from helpers.schemas import SUBJECTS, Subject
from helpers.tiers import often

from cdc_views.plan.rewrites import LOWERINGS

if TYPE_CHECKING:
    from helpers.dialect_zetasql import GoogleSql

slow = pytest.mark.slow
HISTORIES = 29
"""Of each of the seven subjects: 203 random histories, run by every strategy in `make test-long`."""

FRIENDLY = Friendly(range(-62_135_596_800_000_000, 253_402_300_800_000_000), range(-719_162, 2_932_897), nulls_are_empty=True)
FIRST = "ARRAY_AGG(IF({}, v, NULL) IGNORE NULLS ORDER BY v DESC LIMIT 1)[SAFE_OFFSET(0)]"
by_strategy = pytest.mark.parametrize("strategy", LOWERINGS)


@pytest.fixture(scope="module")
def engine() -> Iterator[GoogleSql]:
    from helpers.dialect_zetasql import GoogleSql

    return GoogleSql()


def _register(engine: GoogleSql, table: Table) -> None:
    engine.register("raw_t", table.relation.rows(table.facts, landed_at=0))


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", often(LOWERINGS, "aggregate"))
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_random_histories_give_the_oracles_rows(engine: GoogleSql, subject: Subject, strategy: str) -> None:
    table = random_table(subject, cases=HISTORIES)
    assert len({fact.partition[0] for fact in table.facts if fact.partition}) == HISTORIES
    _register(engine, table)
    assert_exact(table, engine.query, dialect="bigquery", strategy=strategy, source="raw_t")


def test_make_test_runs_200_random_histories_by_every_strategy() -> None:
    marks = test_random_histories_give_the_oracles_rows.pytestmark  # type: ignore[attr-defined]
    assert not {mark.name for mark in marks} & {"slow", "spark", "live"}
    assert len(SUBJECTS) * HISTORIES >= 200
    assert {strategy.value for strategy in STRATEGIES} == set(LOWERINGS)


@slow
@by_strategy
@pytest.mark.parametrize("case", REAL)
def test_real_cases_give_the_oracles_rows(engine: GoogleSql, cassandra_cases: Path, case: str, strategy: str) -> None:
    table = real_table(cassandra_cases, case)
    _register(engine, table)
    assert_exact(table, engine.query, dialect="bigquery", strategy=strategy, source="raw_t")
    assert_shown(table, engine.query, FRIENDLY, dialect="bigquery", strategy=strategy, source="raw_t")


@slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_the_view_shows_friendly_values_by_the_engines_clock(engine: GoogleSql, subject: Subject) -> None:
    table = random_table(subject, cases=40, seed=2)
    _register(engine, table)
    assert_view(table, engine.query, FRIENDLY, dialect="bigquery", strategy="aggregate", source="raw_t")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT GREATEST(1, NULL) AS x", None),
        ("SELECT STRUCT(1 AS a, CAST(NULL AS INT64) AS b) = STRUCT(1 AS a, CAST(NULL AS INT64) AS b) AS x", None),
        (f"SELECT {FIRST.format('v > 1')} AS x FROM UNNEST([1, 2, 3]) v", 3),
        (f"SELECT {FIRST.format('v > 9')} AS x FROM UNNEST([1, 2, 3]) v", None),
        ("SELECT a.b AS x FROM (SELECT STRUCT(1 AS b) AS a, 2 AS b) AS a", 2),
    ],
)
def test_declared_facts_hold(engine: GoogleSql, sql: str, answer: Any) -> None:
    assert engine.query(sql)[0]["x"] == answer


@pytest.mark.heavy
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MAX(STRUCT(1 AS a))",
        "SELECT MAX(v) FILTER (WHERE v > 1) FROM UNNEST([1]) v",
        "WITH a AS (SELECT 'x' AS v), b AS (SELECT NULL AS v) SELECT v FROM a UNION ALL SELECT v FROM b",
        "SELECT ROW_NUMBER() OVER (PARTITION BY v) FROM UNNEST([1.5]) v",
    ],
)
def test_what_the_dialect_avoids_is_refused(engine: GoogleSql, sql: str) -> None:
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT|FAILED_PRECONDITION|UNIMPLEMENTED"):
        engine.query(sql)
