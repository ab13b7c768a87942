"""The nodes of a plan. Each says what its rows are (`grain`); renderers say how to get them.

A node is one step with a name of its own: a CTE in SQL, a DataFrame in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdc_views.model.types import LogicalType
from cdc_views.plan.expr import Expr, Named
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


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """Rows of the raw table itself, projected and filtered."""

    columns: Named
    where: Expr | None = None
    source: Source = Source.ALL

    def output(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Select(Node):
    """Projection of `source`, filtered before it is projected."""

    source: Node
    columns: Named
    where: Expr | None = None

    def sources(self) -> tuple[Node, ...]:
        return (self.source,)

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
class LatestCells(Node):
    """The winner of each cell column by rule C2, a cell again: reducing is closed (rule M1).

    `folds` are further aggregates of the same groups (largest deletion, key as written …).
    """

    source: Node
    keys: tuple[str, ...]
    cells: tuple[CellColumn, ...]
    folds: Named = ()

    def sources(self) -> tuple[Node, ...]:
        return (self.source,)

    def output(self) -> tuple[str, ...]:
        return self.keys + tuple(c.name for c in self.cells) + tuple(name for name, _ in self.folds)


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """One row per distinct `keys` (one row in all when there are none)."""

    source: Node
    keys: tuple[str, ...]
    folds: Named
    where: Expr | None = None

    def sources(self) -> tuple[Node, ...]:
        return (self.source,)

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

    def output(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Explode(Node):
    """One row per element of `array`, called `element`, beside the kept columns; empty arrays give none."""

    source: Node
    keep: tuple[str, ...]
    array: Expr
    element: str

    def sources(self) -> tuple[Node, ...]:
        return (self.source,)

    def output(self) -> tuple[str, ...]:
        return (*self.keep, self.element)


@dataclass(frozen=True, slots=True)
class UnionAll(Node):
    """All rows of the parts, which have the same columns in the same order."""

    parts: tuple[Node, ...]

    def sources(self) -> tuple[Node, ...]:
        return self.parts

    def output(self) -> tuple[str, ...]:
        return self.parts[0].output()


@dataclass(frozen=True, slots=True)
class Ordered(Node):
    """Rows in order, nulls first when ascending and last when descending; the first `limit` of them."""

    source: Node
    by: tuple[tuple[str, bool], ...]
    limit: int | None = None

    def sources(self) -> tuple[Node, ...]:
        return (self.source,)

    def output(self) -> tuple[str, ...]:
        return self.source.output()


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
