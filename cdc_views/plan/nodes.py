"""The nodes of a plan. A node is one named step: a CTE in SQL, a DataFrame in Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from cdc_views.model.types import LogicalType
from cdc_views.plan.expr import Expr, Named, col, cols, expressions_in
from cdc_views.plan.parts import Source
from cdc_views.rules.facts import FactKind


@dataclass(frozen=True, slots=True)
class StepNote:
    """What a comment in SQL says of a step, or of one of its `column`s: then only while the step has that column."""

    text: str
    column: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """Base of nodes; `name` is unique within a plan, `grain` completes "one row per …", `notes` say more in SQL's comments."""

    name: str
    grain: str
    notes: tuple[StepNote, ...] = field(default=(), kw_only=True)

    def comment(self, *remarks: str) -> str:
        """Return what the comment on the step's text says: its grain, its notes, and `remarks` of who writes the text."""
        texts = [*(note.text for note in self.notes if not note.column or note.column in self.output()), *remarks]
        return f"one row per {self.grain}" + (f": {'; '.join(texts)}" if texts else "")

    def sources(self) -> tuple[Node, ...]:
        """Return the nodes that this one reads."""
        return ()

    def output(self) -> tuple[str, ...]:
        """Return the names of the output columns, in order."""
        raise NotImplementedError

    def over(self, sources: tuple[Node, ...]) -> Node:
        """Return the node with `sources` in place of its own."""
        return self

    def expressions(self) -> Iterator[Expr]:
        """Yield the node's expressions, its conditions last."""
        for part in fields(self):
            yield from expressions_in(getattr(self, part.name))


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
    """Rows of the raw table itself, projected and filtered; `kinds` are those of its facts, empty if the plan does not know."""

    columns: Named
    where: Expr | None = None
    source: Source = Source.ALL
    kinds: tuple[FactKind, ...] = ()

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
    """A column of cells to reduce. `kind` is None where no value decides a tie: for cells without a value (a set's elements, a
    row marker), and where only copies of one event tie (S3).

    `payload` names the fields (`value`, `bytes`) that the plan reads afterwards besides `written` and `rank`. `stored` names the
    fields of the cell in the raw table; `is_bare`: it has no others, as an element has its path.
    """

    name: str
    cell: Expr
    kind: LogicalType | None
    payload: tuple[str, ...] = ("value",)
    stored: tuple[str, ...] = ()
    is_bare: bool = True


@dataclass(frozen=True, slots=True)
class LatestCells(OfOne):
    """The winner of each cell column by rule C2, again as a cell (rule M1); `folds` are further aggregates of the groups."""

    keys: tuple[str, ...]
    cells: tuple[CellColumn, ...]
    folds: Named = ()

    def output(self) -> tuple[str, ...]:
        return self.keys + tuple(c.name for c in self.cells) + tuple(name for name, _ in self.folds)


@dataclass(frozen=True, slots=True)
class Aggregate(OfOne):
    """One row per distinct `keys`; without keys, one row in all."""

    keys: tuple[str, ...]
    folds: Named
    where: Expr | None = None

    def output(self) -> tuple[str, ...]:
        return self.keys + tuple(name for name, _ in self.folds)


@dataclass(frozen=True, slots=True)
class OneValue(Expr):
    """The one value of the one row of `node`, which reads a scan of its own, or a step that others read too."""

    node: Aggregate


class JoinKind(str, Enum):
    """Kinds of join. SEMI and ANTI return the rows of `left` with and without a match, each once and with its own columns."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    CROSS = "cross"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True, slots=True)
class Join(Node):
    """`left` and `right` side by side; `columns` name the sides `l` and `r`.

    `on` are key columns of both sides; if `is_null_safe`, null matches null. `matching` is a further condition.
    `is_right_small`: each worker may hold all of `right`, so that `left` need not move.
    """

    left: Node
    right: Node
    kind: JoinKind
    on: tuple[str, ...]
    columns: Named
    matching: Expr | None = None
    is_null_safe: bool = False
    is_right_small: bool = False

    def sources(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def over(self, sources: tuple[Node, ...]) -> Node:
        return replace(self, left=sources[0], right=sources[1])

    def output(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Explode(OfOne):
    """One row per element of `array`, as column `element` beside the columns `keep`; no row for an empty array."""

    keep: tuple[str, ...]
    array: Expr
    element: str

    def output(self) -> tuple[str, ...]:
        return (*self.keep, self.element)


@dataclass(frozen=True, slots=True)
class UnionAll(Node):
    """All rows of `parts`, which have the same columns in the same order."""

    parts: tuple[Node, ...]

    def sources(self) -> tuple[Node, ...]:
        return self.parts

    def over(self, sources: tuple[Node, ...]) -> Node:
        return replace(self, parts=sources)

    def output(self) -> tuple[str, ...]:
        return self.parts[0].output()


@dataclass(frozen=True, slots=True)
class Ordered(OfOne):
    """The first `limit` rows by `by` (name, whether descending), after `offset` others; nulls are first when ascending and last
    when descending.
    """

    by: tuple[tuple[str, bool], ...]
    limit: int | None = None
    offset: int = 0

    def output(self) -> tuple[str, ...]:
        return self.source.output()


def noted(*notes: str | StepNote | tuple[StepNote, ...]) -> tuple[StepNote, ...]:
    """Return the notes of one step, or of steps that become one: in order, and each once."""
    found: list[StepNote] = []
    for note in notes:
        found += note if isinstance(note, tuple) else [note if isinstance(note, StepNote) else StepNote(note)]
    return tuple(dict.fromkeys(note for note in found if note.text))


def together(name: str, parts: Sequence[Node], *, grain: str = "") -> Node:
    """Return the union of the parts, or a single part as it is."""
    return UnionAll(name, grain or parts[0].grain, tuple(parts)) if len(parts) > 1 else parts[0]


def beside(name: str, left: Node, right: Node, on: tuple[str, ...], *, grain: str = "") -> Join:
    """Left-join `right`, without the columns that `left` has too; without `on`, join each row with all of `right`."""
    columns = cols(left.output(), "l") + cols([n for n in right.output() if n not in left.output()], "r")
    return Join(name, grain or left.grain, left, right, JoinKind.LEFT if on else JoinKind.CROSS, on, columns)


def replaced(name: str, source: Node, values: Mapping[str, Expr], *, where: Expr | None = None) -> Select:
    """Return `source` with some of its columns replaced by `values`."""
    return Select(name, source.grain, source, tuple((n, values.get(n, col(n))) for n in source.output()), where)


def rebuilt(root: Node, change: Callable[[Node, Node], Node]) -> Node:
    """Return the plan with `change(old, new)` of each node; `new` is `old` over changed sources. Shared nodes stay shared."""
    done: dict[int, Node] = {}
    for node in in_order(root):
        done[id(node)] = change(node, node.over(tuple(done[id(source)] for source in node.sources())))
    return done[id(root)]


def in_order(root: Node) -> list[Node]:
    """Return `root` and the nodes below it, each once and after its sources."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in found:
            for source in node.sources():
                visit(source)
            found[id(node)] = node

    visit(root)
    return list(found.values())
