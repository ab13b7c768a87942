"""`demo cassandra`: what its three nodes logged of the statements that it was captured from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from services.shop_cassandra import ALL_UP, TWO_UP

FOLDER = Path(__file__).parents[2] / "templates" / "examples" / "cassandra"
PLACE = ("node", "segment", "position")


def logged(node: int) -> list[dict[str, Any]]:
    """The mutations of a node, without where it logged them."""
    lines = [json.loads(line) for line in (FOLDER / f"node{node}.jsonl").read_text("utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name not in PLACE} for line in lines]


def test_two_nodes_logged_each_statement_and_the_third_those_before_it_was_killed() -> None:
    first, second, third = map(logged, (1, 2, 3))
    assert first == second
    assert len(first) == len(ALL_UP) + len(TWO_UP)
    assert third == first[: len(ALL_UP)]
