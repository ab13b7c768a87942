"""The facts that ClickHouse's dialect declares, in ClickHouse. `tests/properties/test_dialects.py` runs its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from helpers.dialect_clickhouse import ClickHouse

pytestmark = pytest.mark.slow  # `make test-long` installs ClickHouse's engine


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    from helpers.dialect_clickhouse import clickhouse

    with clickhouse(Path(tmp_path_factory.mktemp("clickhouse"))) as opened:
        yield opened


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
def test_declared_facts_hold(session: ClickHouse, sql: str, answer: Any) -> None:
    assert session.query(sql)[0]["x"] == answer
