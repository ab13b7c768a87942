"""Processes that Prometheus watches, started once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.watched_processes import Watched, watched


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("shop")) as made:
        yield made
