"""ClickHouse's SQL in ClickHouse (PyPI `chdb`, in this process): the oracle's rows, and the facts the dialect declares."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.dialect_cases import REAL, Friendly, Record, Table, assert_shown, assert_view, random_table, real_table
from helpers.schemas import SUBJECTS, Subject

from cdc_views.plan.rewrites import LOWERINGS

chdb = pytest.importorskip("chdb")

FRIENDLY = Friendly(range(-2_208_988_800_000_000, 10_413_792_000_000_000), range(-25_567, 120_530), nulls_are_empty=True)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
pytestmark = pytest.mark.slow  # `make test-long` installs ClickHouse's engine
by_strategy = pytest.mark.parametrize("strategy", LOWERINGS)


def query(sql: str) -> list[Record]:
    """Return the rows of a query; text as str where it is valid, instants as µs, days as int."""
    table: pa.Table = chdb.query(f"SELECT * FROM (\n{sql}\n) SETTINGS output_format_arrow_string_as_string = 0", "ArrowTable")
    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


def plain(value: Any) -> Any:
    match value:
        case datetime():
            since = (value if value.tzinfo else value.replace(tzinfo=timezone.utc)) - EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case date():
            return (value - EPOCH.date()).days
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return [plain(part) for part in value]
    return value


class _Friendly(Friendly):
    def normal(self, kind: Any, value: Any) -> Any:
        from cdc_views.model.types import Kind, Scalar

        if isinstance(value, bytes) and kind != Scalar(Kind.BLOB):
            return value.decode()
        return super().normal(kind, value)


SHOWN = _Friendly(FRIENDLY.micros, FRIENDLY.days, nulls_are_empty=True)


@pytest.fixture
def source(tmp_path: Path) -> Callable[[Table], str]:
    """Writes a table's facts as Parquet and returns the FROM clause that reads it."""

    def write(table: Table) -> str:
        pq.write_table(table.relation.rows(table.facts, landed_at=0), tmp_path / "raw.parquet")
        return f"file('{tmp_path / 'raw.parquet'}')"

    return write


@by_strategy
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_random_histories_give_the_oracles_rows(subject: Subject, strategy: str, source: Callable[[Table], str]) -> None:
    table = random_table(subject, cases=40)
    assert_shown(table, query, SHOWN, dialect="clickhouse", strategy=strategy, source=source(table))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", LOWERINGS)
@pytest.mark.parametrize("case", REAL)
def test_real_cases_give_the_oracles_rows(
    cassandra_cases: Path, case: str, strategy: str, source: Callable[[Table], str]
) -> None:
    table = real_table(cassandra_cases, case)
    assert_shown(table, query, SHOWN, dialect="clickhouse", strategy=strategy, source=source(table))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_the_view_shows_friendly_values_by_the_engines_clock(subject: Subject, source: Callable[[Table], str]) -> None:
    table = random_table(subject, cases=40, seed=2)
    assert_view(table, query, SHOWN, dialect="clickhouse", strategy="aggregate", source=source(table))


def test_a_wrong_winner_is_seen(source: Callable[[Table], str]) -> None:
    table = random_table(SUBJECTS[0], cases=40)
    worst = partial(_replaced, old="argMaxIf(", new="argMinIf(")
    with pytest.raises(AssertionError, match="rows differ"):
        assert_shown(table, worst, SHOWN, dialect="clickhouse", strategy="aggregate", source=source(table))


def _replaced(sql: str, *, old: str, new: str) -> list[Record]:
    return query(sql.replace(old, new))


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT tuple(NULL::Nullable(Int64)) IS NULL AS x", 0),
        ("SELECT arrayReduce('max', [1, NULL, 3]) AS x", 3),
        ("SELECT arrayReduce('max', []::Array(Nullable(Int64))) AS x", None),
        ("SELECT (tuple(1, NULL::Nullable(Int64)) = tuple(1, NULL::Nullable(Int64))) IS NULL AS x", 1),
        ("SELECT nan = nan AS x", 0),
    ],
)
def test_declared_facts_hold(sql: str, answer: Any) -> None:
    assert query(sql)[0]["x"] == answer
