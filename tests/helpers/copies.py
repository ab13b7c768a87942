"""Cell facts counted in plain Python: what `replicas` and `query --confirmed` are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cdc_views.model.schema import Column, TableSchema
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind
from cdc_views.rules.oracle import path_type

Part = Cell | Liveness | Deletion


@dataclass(frozen=True, slots=True)
class CellFact:
    """One cell, marker or deletion: where it is, in bytes that are equal where Cassandra's keys are, and what it says."""

    kind: FactKind
    what: str
    partition: tuple[bytes, ...]
    place: tuple[Hashable, ...]
    """The clustering key of a row, the bounds of a range."""
    column: str
    path: bytes
    content: tuple[Hashable, ...]

    @property
    def written(self) -> Any:
        """Its write time."""
        return self.content[0]


def cell_facts(schema: TableSchema, fact: Fact) -> Iterator[CellFact]:
    """Yield every cell fact of a fact."""

    def of(part: Part, what: str, column: str = "", path: bytes = b"") -> CellFact:
        return CellFact(fact.kind, what, partition_of(schema, fact), _place(schema, fact), column, path, _content(part))

    if fact.liveness is not None:
        yield of(fact.liveness, "row marker")
    if fact.deletion is not None:
        yield of(fact.deletion, f"{fact.kind.value} deletion")
    for name, cell in fact.cells.items():
        yield of(cell, _what(cell), name)
    for name, elements in fact.elements.items():
        if elements.deletion is not None:
            yield of(elements.deletion, "column deletion", name)
        for path, cell in elements.cells:
            yield of(cell, _what(cell), name, _path(schema.column(name), path))


def partition_of(schema: TableSchema, fact: Fact) -> tuple[bytes, ...]:
    """Return what tells partitions apart."""
    return tuple(partition_identity(c.type, v) for c, v in zip(schema.partition, fact.partition, strict=True))


def _place(schema: TableSchema, fact: Fact) -> tuple[Hashable, ...]:
    if fact.start is not None and fact.end is not None:
        return _bound(schema, fact.start), _bound(schema, fact.end)
    return tuple(comparable(c.type, v) for c, v in zip(schema.clustering, fact.clustering, strict=False))


def _bound(schema: TableSchema, bound: Bound) -> Hashable:
    return tuple(comparable(c.type, v) for c, v in zip(schema.clustering, bound.prefix, strict=False)), bound.inclusive


def _path(column: Column, path: Any) -> bytes:
    return comparable(path_type(column.type), path)


def _what(cell: Cell) -> str:
    return "tombstone" if cell.is_tombstone else "cell"


def _content(part: Part) -> tuple[Hashable, ...]:
    match part:
        case Deletion():
            return part.written, part.deleted_at
        case Liveness():
            return part.written, part.ttl, part.expires_at
    return part.written, part.ttl, part.expires_at, part.deleted_at, part.order_bytes


@dataclass(frozen=True)
class Copies:
    """Cell facts, and the nodes that have shown each."""

    nodes: dict[CellFact, set[str]]
    owners: dict[tuple[bytes, ...], set[str]]
    """The nodes that have shown anything of a partition."""

    def by_number(self) -> dict[int, int]:
        """Number of nodes → cell facts that so many have shown."""
        return dict(Counter(len(nodes) for nodes in self.nodes.values()))

    def seen(self, node: str) -> int:
        """How many a node has shown."""
        return sum(node in nodes for nodes in self.nodes.values())

    def lacking(self, node: str, *, factor: int, known: Iterable[str]) -> int:
        """How many a node has not shown and should hold."""
        everywhere = len(set(known)) <= factor
        holds = [fact for fact in self.nodes if everywhere or node in self.owners[fact.partition]]
        return sum(node not in self.nodes[fact] for fact in holds)

    def listed(self, wanted: Callable[[set[str]], bool]) -> Counter[tuple[Any, ...]]:
        """What a list of those facts says."""
        return Counter(
            (f.what, f.partition, f.place, f.column, f.path, f.written, tuple(sorted(nodes)))
            for f, nodes in self.nodes.items()
            if wanted(nodes)
        )


def copies_of(schema: TableSchema, facts: Iterable[Fact]) -> Copies:
    """Count the nodes of every cell fact."""
    found = Copies({}, {})
    for fact in facts:
        found.owners.setdefault(partition_of(schema, fact), set()).add(fact.origin.node)
        for one in cell_facts(schema, fact):
            found.nodes.setdefault(one, set()).add(fact.origin.node)
    return found


def confirmed_facts(schema: TableSchema, facts: Iterable[Fact], *, copies: int) -> list[Fact]:
    """Return the facts without what fewer nodes have shown; without those of which nothing is left."""
    facts = list(facts)
    enough = {one for one, nodes in copies_of(schema, facts).nodes.items() if len(nodes) >= copies}
    return [kept for fact in facts if (kept := _kept(schema, fact, enough)) is not None]


def _kept(schema: TableSchema, fact: Fact, enough: set[CellFact]) -> Fact | None:
    def is_kept(**only: Any) -> bool:
        bare = replace(fact, **{"liveness": None, "deletion": None, "cells": {}, "elements": {}, **only})
        return all(one in enough for one in cell_facts(schema, bare))

    def elements_kept(name: str, elements: Elements) -> Elements:
        deletion = elements.deletion if is_kept(elements={name: Elements(elements.deletion)}) else None
        return Elements(deletion, tuple(e for e in elements.cells if is_kept(elements={name: Elements(None, (e,))})))

    kept = replace(
        fact,
        liveness=fact.liveness if is_kept(liveness=fact.liveness) else None,
        deletion=fact.deletion if is_kept(deletion=fact.deletion) else None,
        cells={name: cell for name, cell in fact.cells.items() if is_kept(cells={name: cell})},
        elements={name: elements_kept(name, elements) for name, elements in fact.elements.items()},
    )
    return kept if any(True for _ in cell_facts(schema, kept)) else None
