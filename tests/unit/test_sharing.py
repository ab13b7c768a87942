"""The parts of the live tests: each group is in one, and none is much longer than another."""

from __future__ import annotations

from collections import Counter

from services.sharing import parted


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
    known = {"cassandra_cluster": 1000, "cassandra_node": 700, "mysql_server": 450, "postgres_server": 350}
    for group, part in found.items():
        seconds[part] += known.get(group, 100)
    assert max(seconds.values()) - min(seconds.values()) <= 100
