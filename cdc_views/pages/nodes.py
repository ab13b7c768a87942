"""The nodes of a table for people: how each stands, what it lacks, and what it landed over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_views.operations.context import TableContext
from cdc_views.operations.replication import ReplicaReport, expected_of, replicas
from cdc_views.operations.replication.arrivals import Arrival, arrivals
from cdc_views.operations.replication.counting import NodeStatus
from cdc_views.rules.codec.times import instant_text
from cdc_views.state.tail import dropped_through
from cdc_views.storage.table_log import TableLog

_LEVELS = {NodeStatus.OK: "well", NodeStatus.LAGGING: "warned", NodeStatus.MISSING: "failed", NodeStatus.SILENT: "failed"}


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node; instants are texts, empty for none. `arrivals`: what it landed over time, empty if it landed nothing."""

    node: str
    status: str
    level: str
    seen: int
    lacking: int
    oldest_lacking: str
    newest_written: str
    last_landed: str
    arrivals: tuple[Arrival, ...]


@dataclass(frozen=True, slots=True)
class NodesPart:
    """The copies of each change as `replicas` counts them, and the nodes, the worst first; or `why` they cannot be counted."""

    replicas: ReplicaReport | None
    why: str = ""
    nodes: tuple[NodeLine, ...] = ()

    @property
    def since(self) -> int | None:
        """When facts landed first (µs); None if none did."""
        return min((one.since for node in self.nodes for one in node.arrivals), default=None)

    @property
    def most_facts(self) -> int:
        """The most facts that a node landed in one span of time."""
        return max((one.facts for node in self.nodes for one in node.arrivals), default=0)

    @property
    def slowest(self) -> int:
        """The largest mean delay, in seconds, of a node in one span of time."""
        return max((one.delay or 0 for node in self.nodes for one in node.arrivals), default=0) // 1_000_000


UNCOUNTED = NodesPart(None)


def nodes_part(table: TableContext) -> NodesPart:
    """Count copies by node; reads all of raw."""
    if why := _uncounted(table):
        return NodesPart(None, why)
    report = replicas(table, expected_of(table))
    return NodesPart(report, nodes=_lines(report, arrivals(table.raw)))


def _lines(report: ReplicaReport, landed: Mapping[str, tuple[Arrival, ...]]) -> tuple[NodeLine, ...]:
    order = list(NodeStatus)
    found = []
    for node in sorted(report.nodes, key=lambda one: (-order.index(one.status), -one.lacking, one.node)):
        lacking, written, last = map(_text, (node.oldest_lacking, node.newest_written, node.last_landed))
        status, level, over_time = node.status.value, _LEVELS[node.status], landed.get(node.node, ())
        found.append(NodeLine(node.node, status, level, node.seen, node.lacking, lacking, written, last, over_time))
    return tuple(found)


def _text(at: int | None) -> str:
    return "" if at is None else instant_text(at)


def _uncounted(table: TableContext) -> str:
    """Return why copies cannot be counted, or an empty text."""
    if not table.format.carries_node:
        return f"events of {table.format.name} do not say which replica they come from"
    if table.config.replication_factor is None:
        return f"the project file has no `replication_factor` of {table.name}, the copies that each change should have"
    if TableLog.find(table.raw.location) is None:
        return "nothing has landed yet"
    if dropped_through(table.raw.location) is not None:
        return "events were dropped from raw, so that this would be wrong"
    return ""
