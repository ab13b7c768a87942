"""Counts cell facts by the set of nodes that have shown them, and derives each node's status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.duckdb.tables import from_clause
from cdc_views.engines.snapshot import snapshot_of
from cdc_views.operations.replication.places import CellStructs, places
from cdc_views.operations.replication.statements import (
    COUNT,
    LANDED,
    NEWEST,
    NODE,
    NODES,
    OLDEST,
    OWNERS,
    SINCE,
    Behind,
    LogPlace,
    Statements,
)
from cdc_views.storage.relation import RawTable


class NodeStatus(str, Enum):
    """The status of a node: OK has shown every fact that it should hold; LAGGING lacks only the newest, which may still land;
    MISSING lacks facts older than some it has shown; SILENT has shown nothing, or nothing lately, unlike other nodes.
    """

    OK = "ok"
    LAGGING = "lagging"
    MISSING = "missing"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node of a table; `last_landed` is in µs since the epoch. A field is None if nothing of its kind landed.

    `seen` counts the cell facts that it has shown, `lacking` those that others have shown and it should hold. `oldest_lacking` is
    the least write time (µs) of the latter, `newest_written` the largest of the former, `newest_position` the segment and
    position of its newest event.
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
    """How many nodes have shown each cell fact of a table. `copies`: number of nodes → how many cell facts exactly so many nodes
    have shown; from 1 to the number of known nodes.
    """

    table: str
    factor: int
    copies: Mapping[int, int]
    nodes: tuple[NodeReport, ...]

    @property
    def facts(self) -> int:
        """The number of cell facts."""
        return sum(self.copies.values())

    @property
    def incomplete(self) -> int:
        """The number of cell facts that fewer nodes have shown than the factor."""
        return sum(facts for copies, facts in self.copies.items() if copies < self.factor)


@dataclass(frozen=True, slots=True)
class Expected:
    """The expectation: the factor, nodes besides those that landed, and how long (µs) a node may be silent."""

    factor: int
    nodes: tuple[str, ...] = ()
    silent_after: int = 86_400_000_000


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """The landings of one node: its newest log position, and when its first and last event landed (µs)."""

    newest: tuple[str, int]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Tally:
    """The facts of one place that the same nodes have shown: their number, least and largest write time. `owners` are the nodes
    that have shown any fact of their partition; None if every node should hold them.
    """

    nodes: frozenset[str]
    owners: frozenset[str] | None
    facts: int
    oldest: int
    newest: int


class Reader(AbstractContextManager["Reader"]):
    """One snapshot of a raw table, and statements on it. A context manager."""

    def __init__(self, raw: RawTable, *, landed_as_of: int | None = None) -> None:
        """Open the current snapshot, without facts that landed after `landed_as_of` (µs)."""
        self.raw, self._engine, self._snapshot = raw, DuckDbEngine(), snapshot_of(raw)
        statements = Statements(raw.relation, from_clause(self._snapshot, raw), landed_as_of=landed_as_of)
        self.landed = {
            row[NODE]: NodeProgress((row[NEWEST]["segment"], row[NEWEST]["position"]), row[SINCE], row[LANDED])
            for row in self.rows(statements.landed()).to_pylist()
        }
        self.statements = replace(statements, nodes=tuple(sorted(self.landed)))

    def __exit__(self, *raised: object) -> None:
        self._engine.close()

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a statement; raises `EngineError`."""
        return self._engine.run(sql, self._snapshot)

    def places(self) -> list[CellStructs]:
        """Return the places of the table; empty if no node has landed anything."""
        return list(places(self.raw.relation.schema)) if self.landed else []

    def members(self, digits: str) -> tuple[str, ...]:
        """Return the nodes of a set, which statements return as digits; by name."""
        return tuple(node for node, digit in zip(self.statements.nodes, digits, strict=True) if digit == "1")

    def tallies(self, *, with_owners: bool) -> list[Tally]:
        """Return the tallies of every place."""
        found: list[Tally] = []
        for place in self.places():
            for row in self.rows(self.statements.tally(place, with_owners=with_owners)).to_pylist():
                owners = frozenset(self.members(row[OWNERS])) if with_owners else None
                nodes = frozenset(self.members(row[NODES]))
                found.append(Tally(nodes, owners, row[COUNT], row[OLDEST], row[NEWEST]))
        return found

    def after_first(self, behind: list[Behind], *, with_owners: bool) -> Counter[str]:
        """Count, per node, its facts that come in its witness's log after the first fact that it lacks."""
        firsts: dict[Behind, LogPlace] = {}
        for place in self.places() if behind else ():
            (row,) = self.rows(self.statements.first(place, behind, with_owners=with_owners)).to_pylist()
            for one, found in zip(behind, row.values(), strict=True):
                if found is not None:
                    at = (found["size"], found["segment"], found["position"])
                    firsts[one] = min(firsts.get(one, at), at)
        after: Counter[str] = Counter()
        for place in self.places() if firsts else ():
            (row,) = self.rows(self.statements.after(place, firsts)).to_pylist()
            after.update({one.node: n for one, n in zip(firsts, row.values(), strict=True)})
        return after


def count(raw: RawTable, expected: Expected) -> ReplicaReport:
    """Return on how many nodes each cell fact of a raw table was seen, and each node's status."""
    with Reader(raw) as reader:
        known = sorted({*reader.landed, *expected.nodes})
        with_owners = len(known) > expected.factor
        tallies = reader.tallies(with_owners=with_owners)
        nodes = [_Node.of(name, reader.landed.get(name), tallies) for name in known]
        behind = [Behind(node.name, _witness(node.lacking)[0]) for node in nodes if node.is_behind]
        after = reader.after_first(behind, with_owners=with_owners)
    latest = max((one.last for one in reader.landed.values()), default=0)
    reports = [node.report(quiet_since=latest - expected.silent_after, after=after[node.name]) for node in nodes]
    copies = dict.fromkeys(range(1, len(known) + 1), 0)
    for tally in tallies:
        copies[len(tally.nodes)] += tally.facts
    return ReplicaReport(raw.relation.schema.full_name, expected.factor, copies, tuple(reports))


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    landed: NodeProgress | None
    seen: list[Tally]
    lacking: list[Tally]

    @classmethod
    def of(cls, name: str, landed: NodeProgress | None, tallies: Iterable[Tally]) -> _Node:
        seen, lacking = [], []
        for tally in tallies:
            if name in tally.nodes:
                seen.append(tally)
            elif tally.owners is None or name in tally.owners:
                lacking.append(tally)
        return cls(name, landed, seen, lacking)

    @property
    def newest(self) -> int | None:
        return max((tally.newest for tally in self.seen), default=None)

    @property
    def is_behind(self) -> bool:
        """Whether it lacks facts that are not newer than all facts it has shown."""
        return self.newest is not None and any(tally.oldest <= self.newest for tally in self.lacking)

    def report(self, *, quiet_since: int, after: int) -> NodeReport:
        """Return its report; `after` counts its facts that come in its witness's log after the first fact that it lacks."""
        status = NodeStatus.OK
        if self.landed is None or (self.lacking and self.landed.last <= quiet_since):
            status = NodeStatus.SILENT
        elif self.lacking:
            # logs differ in order, so it may have up to a quarter of the facts after the first that it lacks
            is_tail = after * 4 <= after + _witness(self.lacking)[1]
            status = NodeStatus.MISSING if self.is_behind and not is_tail else NodeStatus.LAGGING
        return NodeReport(
            self.name,
            sum(tally.facts for tally in self.seen),
            sum(tally.facts for tally in self.lacking),
            min((tally.oldest for tally in self.lacking), default=None),
            self.newest,
            None if self.landed is None else self.landed.newest,
            None if self.landed is None else self.landed.last,
            status,
        )


def _witness(lacking: Iterable[Tally]) -> tuple[str, int]:
    """Return the node that has most of the facts (of equals, the first by name), and how many it has."""
    having: Counter[str] = Counter()
    for tally in lacking:
        having.update(dict.fromkeys(tally.nodes, tally.facts))
    return min(having.items(), key=lambda item: (-item[1], item[0]))
