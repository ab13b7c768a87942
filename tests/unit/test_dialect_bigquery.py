"""The facts that BigQuery's dialect declares, in GoogleSQL's reference implementation. `tests/properties/test_dialects.py` runs
its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from helpers.dialect_zetasql import GoogleSql

FIRST = "ARRAY_AGG(IF({}, v, NULL) IGNORE NULLS ORDER BY v DESC LIMIT 1)[SAFE_OFFSET(0)]"


@pytest.fixture(scope="module")
def engine() -> Iterator[GoogleSql]:
    from helpers.dialect_zetasql import GoogleSql

    return GoogleSql()


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
