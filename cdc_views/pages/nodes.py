"""The nodes of a table for people: how each stands, and what it lacks."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.operations.replication import ReplicaReport
from cdc_views.operations.replication.counting import NodeStatus
from cdc_views.rules.codec.times import instant_text

_LEVELS = {NodeStatus.OK: "well", NodeStatus.LAGGING: "warned", NodeStatus.MISSING: "failed", NodeStatus.SILENT: "failed"}


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node; instants are texts, empty for none."""

    node: str
    status: str
    level: str
    seen: int
    lacking: int
    oldest_lacking: str
    newest_written: str
    last_landed: str


def node_lines(report: ReplicaReport | None) -> tuple[NodeLine, ...]:
    """Return the nodes, the worst first."""
    if report is None:
        return ()
    order = list(NodeStatus)
    found = []
    for node in sorted(report.nodes, key=lambda one: (-order.index(one.status), -one.lacking, one.node)):
        lacking, written, landed = map(_text, (node.oldest_lacking, node.newest_written, node.last_landed))
        status, level = node.status.value, _LEVELS[node.status]
        found.append(NodeLine(node.node, status, level, node.seen, node.lacking, lacking, written, landed))
    return tuple(found)


def _text(at: int | None) -> str:
    return "" if at is None else instant_text(at)
