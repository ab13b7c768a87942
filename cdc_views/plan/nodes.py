"""The nodes of a plan. Each says what its rows are (`grain`); renderers say how to get them.

A node is one step with a name of its own: a CTE in SQL, a DataFrame in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum

from cdc_views.model.types import LogicalType
from cdc_views.plan.expr import Expr, Named, col, cols, expressions_in
from cdc_views.plan.parts import Source


@dataclass(frozen=True, slots=True)
class Node:
    """Base of nodes; `name` is unique within a plan, `grain` completes "one row per …"."""

    name: str
    grain: str

    def sources(self) -> tuple[Node, ...]:
        """The nodes this one reads."""
        return ()

    def output(self) -> tuple[str, ...]:
        """Names of the output columns, in order."""
        raise NotImplementedError

    def over(self, sources: tuple[Node, ...]) -> Node:
        """Return the node reading `sources` instead of its own."""
        return self

    def expressions(self) -> Iterator[Expr]:
        """Yield what the node computes, its conditions last."""
        for field in fields(self):
            yield from expressions_in(getattr(self, field.name))


@dataclass(frozen=True, slots=True)
class OfOne(Node):
    """A node that reads one other."""

    source: Node

    def sources(self) -> tuple[Node, ...]:
        return (self.source,)

    def over(self, sources: tuple[Node, ...]) -> Node:
        return replace(self, source=sources[0])


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """Rows of the raw table itself, projected and filtered."""

    columns: Named
    where: Expr | None = None
    source: Source = Source.ALL

    def output(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Select(OfOne):
    """Projection of `source`, filtered before it is projected."""

    columns: Named
    where: Expr | None = None

    def output(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True, slots=True)
class CellColumn:
    """A column of cells to reduce: its name, the expression of the cell, the type of its value.

    `value` is the cell's stored value, None for cells that carry none (a set's elements, a row marker);
    `payload` names the fields the plan reads afterwards besides written and rank (value, bytes, or none).
    """

    name: str
    cell: Expr
    kind: LogicalType | None
    payload: tuple[str, ...] = ("value",)


@dataclass(frozen=True, slots=True)
class LatestCells(OfOne):
    """The winner of each cell column by rule C2, a cell again: reducing is closed (rule M1).

    `folds` are further aggregates of the same groups (largest deletion, key as written …).
    """

    keys: tuple[str, ...]
    cells: tuple[CellColumn, ...]
    folds: Named = ()

    def output(self) -> tuple[str, ...]:
        return self.keys + tuple(c.name for c in self.cells) + tuple(name for name, _ in self.folds)


@dataclass(frozen=True, slots=True)
class Aggregate(OfOne):
    """One row per distinct `keys` (one row in all when there are none)."""

    keys: tuple[str, ...]
    folds: Named
    where: Expr | None = None

    def output(self) -> tuple[str, ...]:
        return self.keys + tuple(name for name, _ in self.folds)


class JoinKind(str, Enum):
    """Kinds of join."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    CROSS = "cross"
    SEMI = "semi"
    """Rows of `left` that have a match, once each; only its columns."""
    ANTI = "anti"
    """Rows of `left` that have none."""


@dataclass(frozen=True, slots=True)
class Join(Node):
    """`left` and `right` side by side; `columns` name sides `l` and `r`.

    `on` are key columns that both sides have; `matching` is a further condition. Keys that may be null
    (`is_null_safe`) match null with null.
    """

    left: Node
    right: Node
    kind: JoinKind
    on: tuple[str, ...]
    columns: Named
    matching: Expr | None = None
    is_null_safe: bool = False
    is_right_small: bool = False
    """Whether each worker may hold all of `right`, so that `left` stays where it is."""

    def sources(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def over(self, sources: tuple[Node, ...]) -> Node:
        return replace(self, left=sources[0], right=sources[1])

    def output(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Explode(OfOne):
    """One row per element of `array`, called `element`, beside the kept columns; empty arrays give none."""

    keep: tuple[str, ...]
    array: Expr
    element: str

    def output(self) -> tuple[str, ...]:
        return (*self.keep, self.element)


@dataclass(frozen=True, slots=True)
class UnionAll(Node):
    """All rows of the parts, which have the same columns in the same order."""

    parts: tuple[Node, ...]

    def sources(self) -> tuple[Node, ...]:
        return self.parts

    def over(self, sources: tuple[Node, ...]) -> Node:
        return replace(self, parts=sources)

    def output(self) -> tuple[str, ...]:
        return self.parts[0].output()


@dataclass(frozen=True, slots=True)
class Ordered(OfOne):
    """Rows in order, nulls first when ascending and last when descending; the first `limit` of them."""

    by: tuple[tuple[str, bool], ...]
    limit: int | None = None

    def output(self) -> tuple[str, ...]:
        return self.source.output()


def together(name: str, parts: Sequence[Node], *, grain: str = "") -> Node:
    """Return all rows of the parts; a single part as it is."""
    return UnionAll(name, grain or parts[0].grain, tuple(parts)) if len(parts) > 1 else parts[0]


def beside(name: str, left: Node, right: Node, on: tuple[str, ...], *, grain: str = "") -> Join:
    """Return each row of `left` with the columns that `right`, which may have no match, adds; without `on` with all of it."""
    columns = cols(left.output(), "l") + cols([n for n in right.output() if n not in left.output()], "r")
    return Join(name, grain or left.grain, left, right, JoinKind.LEFT if on else JoinKind.CROSS, on, columns)


def replaced(name: str, source: Node, values: Mapping[str, Expr], *, where: Expr | None = None) -> Select:
    """Return `source` with `values` in place of the columns that they name."""
    return Select(name, source.grain, source, tuple((n, values.get(n, col(n))) for n in source.output()), where)


def in_order(root: Node) -> list[Node]:
    """Return the nodes below `root` and itself, each after its sources, each once."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in found:
            for source in node.sources():
                visit(source)
            found[id(node)] = node

    visit(root)
    return list(found.values())
