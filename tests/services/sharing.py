"""A pytest plugin: where tests run beside each other, those of one real server run in one worker, and start it once."""

from __future__ import annotations

import pytest

_SERVERS = (
    "cassandra_cluster", "cassandra_node", "mysql_server", "postgres_server", "mariadb_server", "kafka_server", "trino_server",
)  # fmt: skip
"""Fixtures that a whole run shares; the first has the longest tests, so a worker begins with it."""


def _group(item: pytest.Item) -> str:
    """Return what the test shares: what it says itself, its first server, or else what its file starts."""
    said = item.get_closest_marker("xdist_group")
    if said is not None:
        return str(said.args[0])
    fixtures = getattr(item, "fixturenames", ())
    server = next((name for name in _SERVERS if name in fixtures), None)
    if server is None:
        return item.nodeid.partition("::")[0]
    release = item.callspec.params.get(server) if hasattr(item, "callspec") else None
    return f"{server} {release}" if release else server


def _turn(item: pytest.Item) -> int:
    server = _group(item).partition(" ")[0]
    return _SERVERS.index(server) if server in _SERVERS else len(_SERVERS)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See pytest's hooks."""
    live = [item for item in items if item.get_closest_marker("live")]
    for item in live:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    others = [item for item in items if not item.get_closest_marker("live")]
    items[:] = [*others, *sorted(live, key=_turn)]
