"""Real servers for the producers' tests, one of each kind a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from services.postgres import Postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL of this run's own."""
    pytest.importorskip("psycopg2")
    from services.postgres import running

    with running() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: Postgres) -> Iterator[Postgres]:
    """The same with an empty schema `public`, and no slot nor publication."""
    server = postgres_server
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield server
    server.sql(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active; "
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
    )
    for (name,) in server.sql("SELECT pubname FROM pg_publication"):
        server.sql(f'DROP PUBLICATION "{name}"')
