"""The facts that PostgreSQL's dialect declares, in a server of its own. `tests/properties/test_dialects.py` runs its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from helpers.dialect_postgres import Database, database

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    with database() as opened:
        yield opened


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT ROW(1, NULL) IS NOT NULL AS x", False),
        (f'SELECT "{"n" * 63}" AS x FROM (SELECT 1 AS "{"n" * 70}") AS t', 1),
        ("SELECT 'a' < 'B' COLLATE \"C\" AS x", False),
        ("SELECT 'a' < 'B' AS x", True),
    ],
)
def test_declared_facts_hold(server: Database, sql: str, answer: Any) -> None:
    assert server.query(sql)[0]["x"] == answer


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT NULL AS x), b AS (SELECT 1 AS x) SELECT x FROM a UNION ALL SELECT x FROM b",
        "SELECT max(x) FROM (SELECT ROW(1, 2) AS x) AS t",
    ],
)
def test_what_the_dialect_avoids_is_refused(server: Database, sql: str) -> None:
    with pytest.raises(psycopg.Error):
        server.query(sql)
