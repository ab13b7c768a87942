"""The parts of the live tests: each group is in one, and none is much longer than another."""

from __future__ import annotations

from collections import Counter

from services.sharing import EACH, SECONDS, parted


def test_each_group_is_in_one_part_and_parts_are_about_equally_long() -> None:
    groups = Counter(
        {
            "cassandra_cluster": 10,
            "cassandra_node": 21,
            "mysql_server": 20,
            "postgres_server": 28,
            **{f"f{n}": 4 for n in range(9)},
        }
    )
    found = parted(groups, 3)
    assert found.keys() == groups.keys()
    assert found["cassandra_cluster"] != found["cassandra_node"]
    seconds = Counter[int]()
    for group, part in found.items():
        seconds[part] += SECONDS.get(group, EACH * groups[group])
    assert max(seconds.values()) <= 1.1 * sum(seconds.values()) / 3
