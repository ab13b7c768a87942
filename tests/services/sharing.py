"""A pytest plugin: CDC_VIEWS_PART=K/N runs the K-th of N parts of the live tests, about equally long. Tests that share a server
are in one part, so that the parts may run beside each other and each server starts once.

Not by xdist's groups: xdist 3.8 does not find them where pytest is 9.2, and says nothing.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

SECONDS = {
    "postgres_server": 740, "cassandra_cluster": 640, "cassandra_node": 470, "mysql_server": 570, "trino_server": 500,
    "mariadb_server": 360, "kafka_server": 180, "tests/properties/test_dialects.py": 240,
    "tests/unit/test_dialect_postgres.py": 40,
    "tests/producers/test_cassandra_odd_live.py": 200,
    "tests/commands/test_catalogs_live.py": 175, "tests/producers/test_cassandra_releases_live.py": 170,
    "tests/packaging/test_own_postgres.py": 85, "tests/ops/test_stack.py": 110,
}  # fmt: skip
"""Fixtures that a whole run shares, or files, and how long all tests of each took with two other parts beside them."""
EACH = 25
"""Seconds of a test that shares nothing."""


def _group(item: pytest.Item) -> str:
    """Return what the test shares: what it says itself, its first server, or else its file."""
    said = item.get_closest_marker("shares")
    if said is not None:
        return str(said.args[0])
    fixtures = getattr(item, "fixturenames", ())
    return next((name for name in SECONDS if name in fixtures), item.nodeid.partition("::")[0])


def parted(groups: Counter[str], parts: int) -> dict[str, int]:
    """Return the part of each group, given the number of its tests: the longest group goes to the emptiest part first."""
    seconds = {group: SECONDS.get(group, EACH * tests) for group, tests in groups.items()}
    filled, found = [0] * parts, dict[str, int]()
    for group in sorted(seconds, key=lambda group: (-seconds[group], group)):
        part = filled.index(min(filled))
        filled[part] += seconds[group]
        found[group] = part
    return found


@pytest.hookimpl(trylast=True)  # of what the expression of marks has left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """See pytest's hooks."""
    number, sign, parts = os.environ.get("CDC_VIEWS_PART", "").partition("/")
    if not sign:
        return
    groups = {item: _group(item) for item in items}
    places = parted(Counter(groups.values()), int(parts))
    elsewhere = {item for item, group in groups.items() if places[group] != int(number) - 1}
    items[:] = [item for item in items if item not in elsewhere]
    config.hook.pytest_deselected(items=sorted(elsewhere, key=lambda item: item.nodeid))
