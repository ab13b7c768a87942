"""The semantic cases in BigQuery's SQL, too: each `shown` is DuckDB's, and GoogleSQL's, by every strategy.

`make test` takes a sample of the latter, `make test-long` all. `bigquery-project` is BigQuery itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from helpers.histories import NOW
from helpers.reading import STRATEGIES, Row

from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact
from cdc_views.storage.relation import Relation

if TYPE_CHECKING:
    from helpers.bigquery_project import ProjectCases, RemoteProject
    from helpers.dialect_zetasql import GoogleSql
    from helpers.googlesql_cases import GoogleSqlCases

SHOWN_BY = [
    "duckdb",
    pytest.param("googlesql", marks=pytest.mark.heavy),
    pytest.param("bigquery-project", marks=[pytest.mark.live, pytest.mark.bigquery_project]),
]
SAMPLE = 32
"""Of so many tests through GoogleSQL one is not slow."""
NOT_HELD = {
    "test_the_two_zeros_are_two_collection_keys_and_nan_is_one[frozen<list<double>>]": 1,
    "test_elements_stand_in_the_order_of_their_type[frozen<list<int>>-keys15]": 1,
}
"""Tests of what BigQuery cannot hold, and how many of their tables it refuses, each by an `UnsupportedError`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is not in the sample as slow."""
    for item in items:
        shown_by = getattr(item, "callspec", None) and item.callspec.params.get("shown")  # type: ignore[attr-defined]
        if shown_by == "googlesql" and crc32(item.name.encode()) % SAMPLE:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def googlesql() -> GoogleSql:
    """GoogleSQL's reference implementation."""
    from helpers.dialect_zetasql import GoogleSql

    return GoogleSql()


@pytest.fixture(params=SHOWN_BY)
def shown(request: pytest.FixtureRequest, shown: Callable[..., list[Row]]) -> Iterator[Callable[..., list[Row]]]:
    """See the fixture of all tests; what BigQuery refuses has to be listed in `NOT_HELD`."""
    if request.param == "duckdb":
        yield shown
        return
    name, cases = request.node.name.replace(f"{request.param}-", ""), _cases(request)

    def ask(schema: TableSchema, *facts: Fact, now: int = NOW, order: WriteOrder = WriteOrder.MICROS) -> list[Row]:
        return cases.show(Relation(schema, order), facts, now=now)

    yield ask
    assert len(cases.refused) == NOT_HELD.get(name, 0), [str(error) for error in cases.refused]
    assert cases.refused or cases.reads, "nothing was read"


def _cases(request: pytest.FixtureRequest) -> GoogleSqlCases | ProjectCases:
    if request.param == "bigquery-project":
        remote: RemoteProject = request.getfixturevalue("bigquery_project")
        return remote.cases(STRATEGIES)
    from helpers.googlesql_cases import GoogleSqlCases

    return GoogleSqlCases(request.getfixturevalue("googlesql"), STRATEGIES)
