"""PostgreSQL's SQL in a PostgreSQL server of its own: the oracle's rows, and the facts the dialect declares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.dialect_cases import REAL, Friendly, assert_shown, assert_view, random_table, real_table
from helpers.dialect_postgres import Server, is_available, plain
from helpers.schemas import SUBJECTS, Subject
from helpers.sql_words import answer, in_groups, statement
from helpers.values import float32

from cdc_views.model.types import EMPTY, Kind, LogicalType, Scalar
from cdc_views.plan.rewrites import LOWERINGS
from cdc_views.rules.codec.physical import arrow_type, to_physical

pytestmark = [pytest.mark.live, pytest.mark.skipif(not is_available(), reason="no PostgreSQL server to start")]

YEARS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
by_strategy = pytest.mark.parametrize("strategy", LOWERINGS)


class _Friendly(Friendly):
    """Frozen collections, tuples and user types show as they are stored; JSON has no bytes and no null arrays here."""

    def __call__(self, kind: LogicalType, value: Any) -> Any:
        if value is None or value is EMPTY:
            return None
        if isinstance(kind, Scalar) or kind.is_multicell:
            return super().__call__(kind, value)
        return plain(to_physical(kind, value)) or None

    def _scalar(self, kind: Kind, value: Any) -> Any:
        return plain(value) if kind is Kind.BLOB else super()._scalar(kind, value)

    def normal(self, kind: LogicalType, value: Any) -> Any:
        if value is None or value == []:
            return None
        if isinstance(kind, Scalar):
            return _scalar(kind.kind, value)
        return super().normal(kind, value) if kind.is_multicell else _stored(arrow_type(kind), value)


def _stored(kind: pa.DataType, value: Any) -> Any:
    """A nested value as Arrow would give it, floats as floats."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_stored(kind.value_type, item) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _stored(field.type, value[field.name]) for field in kind}
    if pa.types.is_floating(kind) and math.isfinite(float(value)):
        return float32(float(value)) if pa.types.is_float32(kind) else float(value)
    return str(float(value)) if pa.types.is_floating(kind) else value


def _scalar(kind: Kind, value: Any) -> Any:
    match kind:
        case Kind.FLOAT:
            return float32(float(value)) if math.isfinite(float(value)) else float(value)
        case Kind.DOUBLE:
            return float(value)
        case Kind.TIMESTAMP | Kind.DATETIME | Kind.INSTANT if isinstance(value, str):
            at = datetime.fromisoformat(value)
            since = (at if at.tzinfo else at.replace(tzinfo=timezone.utc)) - EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case Kind.DATE if isinstance(value, str):
            return (date.fromisoformat(value) - EPOCH.date()).days
    return value


SHOWN = _Friendly(YEARS, range(-719_162, 2_932_897), nulls_are_empty=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "pg")
        yield server
        server.stop()


@by_strategy
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_random_histories_give_the_oracles_rows(server: Server, subject: Subject, strategy: str) -> None:
    table = random_table(subject, cases=60)
    server.load("raw_t", table.relation.rows(table.facts, landed_at=0))
    assert_shown(table, server.query, SHOWN, dialect="postgres", strategy=strategy, source="raw_t")


@by_strategy
@pytest.mark.parametrize("case", REAL)
def test_real_cases_give_the_oracles_rows(server: Server, cassandra_cases: Path, case: str, strategy: str) -> None:
    table = real_table(cassandra_cases, case)
    server.load("raw_t", table.relation.rows(table.facts, landed_at=0))
    assert_shown(table, server.query, SHOWN, dialect="postgres", strategy=strategy, source="raw_t")


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_the_view_shows_friendly_values_by_the_engines_clock(server: Server, subject: Subject) -> None:
    table = random_table(subject, cases=40, seed=2)
    server.load("raw_t", table.relation.rows(table.facts, landed_at=0))
    assert_view(table, server.query, SHOWN, dialect="postgres", strategy="aggregate", source="raw_t")


def test_a_wrong_winner_is_seen(server: Server) -> None:
    table = random_table(SUBJECTS[0], cases=40)
    server.load("raw_t", table.relation.rows(table.facts, landed_at=0))
    with pytest.raises(AssertionError, match="rows differ"):
        assert_shown(
            table,
            lambda sql: server.query(sql.replace('"rank" DESC', '"rank" ASC')),
            SHOWN,
            dialect="postgres",
            strategy="aggregate",
            source="raw_t",
        )


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT ROW(1, NULL) IS NOT NULL AS x", False),
        (f'SELECT "{"n" * 63}" AS x FROM (SELECT 1 AS "{"n" * 70}") AS t', 1),
        ("SELECT 'a' < 'B' COLLATE \"C\" AS x", False),
        ("SELECT 'a' < 'B' AS x", True),
    ],
)
def test_declared_facts_hold(server: Server, sql: str, answer: Any) -> None:
    assert server.query(sql)[0]["x"] == answer


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT NULL AS x), b AS (SELECT 1 AS x) SELECT x FROM a UNION ALL SELECT x FROM b",
        "SELECT max(x) FROM (SELECT ROW(1, 2) AS x) AS t",
    ],
)
def test_what_the_dialect_avoids_is_refused(server: Server, sql: str) -> None:
    with pytest.raises(RuntimeError, match="ERROR"):
        server.query(sql)


def test_each_word_is_read_as_a_name(server: Server) -> None:
    own = [row["word"] for row in server.query("SELECT word FROM pg_get_keywords()")]
    assert len(own) > 300
    for words in in_groups(own, size=50):
        assert server.query(statement(words, "postgres")) == [answer(words, "postgres")]
