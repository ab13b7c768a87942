"""Fixtures of stores: a server of each kind for the session, and a prefix for each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import pytest
from services import azure, gcs, s3
from services.stores import Store

from cdc_views.storage.stores import use_options

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

SERVERS = {"s3": s3.running, "azure": azure.running, "gcs": gcs.running}
_PREFIXES = count()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Store]]:
    """Starts a store's server, on the loopback, where it is first asked for."""
    with ExitStack() as running:

        @cache
        def server(kind: str) -> Store:
            return running.enter_context(SERVERS[kind](tmp_path_factory.mktemp(kind)))

        yield server


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest, servers: Callable[[str], Store]) -> Store:
    """Each kind of store, one after the other; `indirect` names fewer."""
    return servers(request.param)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing of stores."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "AZURITE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def prefix(store: Store) -> str:
    """A URL with nothing below it yet, which this process can reach."""
    url = f"{store.url()}/test-{next(_PREFIXES)}"
    use_options(url, store.options())
    return url


@pytest.fixture
def session_of_store(spark_engine: SparkEngine, prefix: str) -> Iterator[None]:
    """The session, which can reach the store meanwhile."""
    from cdc_views_spark.stores import store_settings

    conf = spark_engine.session.conf
    settings = {name.removeprefix("spark.hadoop."): value for name, value in store_settings(prefix).items()}
    for name, value in settings.items():
        conf.set(name, value)
    yield
    for name in settings:
        conf.unset(name)
