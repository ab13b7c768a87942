"""One GoogleSQL and one server for the tests of BigQuery; each test finds the server empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.bigquery_warehouses import Served


@pytest.fixture(scope="session")
def _served() -> Iterator[Served]:
    from helpers.bigquery_values import Evaluator
    from services.bigquery_http import served

    with served(Evaluator()) as (url, store):
        yield Served(url, store)


@pytest.fixture
def server(_served: Served) -> Served:
    """A server of BigQuery's API with nothing in it."""
    _served.store.clear()
    return _served


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder compiles or runs GoogleSQL's reference implementation: not for `make test-fast`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.heavy)
