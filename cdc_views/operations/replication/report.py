"""What `replicas` says: how many nodes have shown each cell fact, and how each node stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class NodeStatus(str, Enum):
    """How a node stands, as far as its events tell."""

    OK = "ok"
    """It has shown every fact that it should hold."""
    LAGGING = "lagging"
    """It lacks the newest facts: more will come, or was not landed yet."""
    MISSING = "missing"
    """It lacks facts older than others that it has shown."""
    SILENT = "silent"
    """It has shown nothing, or nothing lately, and others have."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node of a table.

    Attributes:
        node: Its name, as events give it.
        seen: Cell facts it has shown.
        lacking: Cell facts that others have shown and that it should hold.
        oldest_lacking: The least write time (µs) of those; None where there are none.
        newest_written: The largest write time (µs) of the facts it has shown; None for a node that has shown none.
        newest_position: Segment and position of the newest event landed from it; None for a node without any.
        last_landed: When an event of it last landed, µs since the epoch; None for a node without any.
        status: The verdict.
    """

    node: str
    seen: int
    lacking: int
    oldest_lacking: int | None
    newest_written: int | None
    newest_position: tuple[str, int] | None
    last_landed: int | None
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """How many nodes have shown each cell fact of a table.

    Attributes:
        table: Its full name.
        factor: How many nodes should hold each.
        copies: Number of nodes → cell facts that exactly so many have shown; from 1 to the number of nodes known.
        nodes: Every node known, by name.
    """

    table: str
    factor: int
    copies: Mapping[int, int]
    nodes: tuple[NodeReport, ...]

    @property
    def facts(self) -> int:
        """How many cell facts there are."""
        return sum(self.copies.values())

    @property
    def incomplete(self) -> int:
        """How many cell facts fewer nodes have shown than the factor."""
        return sum(facts for copies, facts in self.copies.items() if copies < self.factor)
