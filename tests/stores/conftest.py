"""Fixtures of stores: a server for the session, and a prefix for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from services import s3

from cdc_views.storage.stores import use_options

_PREFIXES = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3]:
    """S3 on the loopback."""
    with s3.running(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def prefix(server: s3.S3) -> str:
    """A URL with nothing below it yet, which this process can reach."""
    url = f"s3://{s3.BUCKET}/test-{next(_PREFIXES)}"
    use_options(url, server.options())
    return url
