"""Rewrites of a plan: `choose` a strategy, `lower` every `LatestCells` to its nodes, `prune` columns that no node reads.

Three strategies give equal rows, and a fourth, `kernel`, is no rewrite: an engine with tasks runs another engine's SQL in them.

- `aggregate`: one group-by; each column's winner is the maximum of a struct that starts with rule C2's order.
- `window`: rank each column's cells within the key, then gather the first ones.
- `self_join`: find each column's latest order key and join back on it, as WePay's view did (there on time alone).

Whole rows (`plan.events`) have no cells to reduce; `window` and `self_join` reduce theirs all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from cdc_views.errors import UnsupportedError, choose_one
from cdc_views.model.strategy import Strategy
from cdc_views.plan.expr import Agg, Expr, Fold, RowNumber, Struct, col, cols, equal, not_null
from cdc_views.plan.nodes import (
    Aggregate,
    CellColumn,
    Explode,
    Join,
    JoinKind,
    LatestCells,
    Node,
    Ordered,
    Scan,
    Select,
    UnionAll,
    in_order,
    rebuilt,
)
from cdc_views.plan.order import WRITTEN, precedence_parts
from cdc_views.plan.walk import columns_used


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and the reason for it, as text for a comment in SQL."""

    strategy: str
    why: str


_BELOW = frozenset({"source", "left", "right", "parts"})
"""The fields of nodes that hold other nodes."""


def choose(strategy: str) -> Choice:
    """Return the strategy of a plan or view to use; with `auto`, the fastest one. Raises `UnsupportedError`."""
    if strategy != Strategy.AUTO.value:
        known = [Strategy.AUTO.value, *LOWERINGS]
        if strategy == Strategy.KERNEL.value:
            raise UnsupportedError(
                "strategy kernel is for reads on Spark: it runs DuckDB's SQL in Spark's tasks",
                remedy=f"choose one of {', '.join(known)}",
            )
        if strategy not in LOWERINGS:
            raise UnsupportedError(f"there is no strategy {strategy!r}", remedy=choose_one(strategy, known))
        return Choice(strategy, f"strategy {strategy}, as asked for")
    return Choice("aggregate", "strategy aggregate: one scan and one group-by, the fastest exact one on every engine measured")


def note_on(strategy: str) -> str:
    """Return a line of a view's header about a strategy that somebody asked for; empty for the usual one."""
    return "" if strategy == Strategy.AUTO.value else choose(strategy).why


def lower(root: Node, *, strategy: str) -> Node:
    """Return the plan with every `LatestCells` computed by `strategy`; shared nodes stay shared."""

    def lowered_node(_: Node, new: Node) -> Node:
        if not isinstance(new, LatestCells):
            return new
        return LOWERINGS.get(strategy, aggregate)(new, source=new.source)

    return rebuilt(root, lowered_node)


def lowered(root: Node, *, strategy: str = "aggregate") -> Node:
    """Return the plan lowered and pruned, as renderers and compilers require it; equal steps are one step."""
    return shared(prune(lower(root, strategy=strategy)))


def shared(root: Node) -> Node:
    """Return the plan with one node in the place of equal ones."""
    known: dict[object, Node] = {}
    named = Counter(node.name for node in in_order(root))

    def one_of(_: Node, new: Node) -> Node:
        if named[new.name] == 1:  # the expressions of a wide table take long to hash
            return new
        own = tuple(getattr(new, part.name) for part in fields(new) if part.name not in _BELOW)
        return known.setdefault((type(new), own, tuple(map(id, new.sources()))), new)

    return rebuilt(root, one_of)


def prune(root: Node) -> Node:
    """Return the plan without columns that no later node reads; keys of aggregates always stay."""
    needed: dict[int, set[str]] = {id(root): set(root.output())}
    narrow: dict[int, Node] = {}
    ordered = in_order(root)
    for node in reversed(ordered):
        narrow[id(node)] = narrowed = _narrowed(node, needed[id(node)])
        for source, names in zip(node.sources(), _reads(narrowed), strict=True):
            needed.setdefault(id(source), set()).update(names)
    return rebuilt(root, lambda old, new: narrow[id(old)].over(new.sources()))


def _narrowed(node: Node, needed: set[str]) -> Node:
    match node:
        case Scan() | Select() | Join():
            # SQL has no SELECT without columns
            return replace(node, columns=tuple((n, v) for n, v in node.columns if n in needed) or node.columns[:1])
        case Aggregate():
            return replace(node, folds=tuple((n, v) for n, v in node.folds if n in needed) or node.folds[: not node.keys])
        case Explode():
            return replace(node, keep=tuple(name for name in node.keep if name in needed))
    return node


def _reads(node: Node) -> list[set[str]]:
    used = {c for expression in node.expressions() for c in columns_used(expression)}
    match node:
        case Join():
            return [{*node.on, *(c.name for c in used if c.of == side)} for side in ("l", "r")]
        case UnionAll() | Ordered():
            return [set(source.output()) for source in node.sources()]
    keys = node.keys if isinstance(node, Aggregate) else node.keep if isinstance(node, Explode) else ()
    return [{*keys, *(c.name for c in used)} for _ in node.sources()]


def ordered_cell(column: CellColumn) -> Struct:
    """Return the cell as a struct whose maximum is the winner: rule C2's order, then the payload."""
    parts = dict(precedence_parts(column.cell, column.kind))
    for name in column.payload:
        parts.setdefault(name, column.cell[name])
    # without a kind, a field that is not read decides no tie either
    ties_are_copies = column.kind is None and bool(column.payload)
    is_whole = bool(column.stored) and (ties_are_copies or parts.keys() >= {*column.stored})
    return Struct(tuple(parts.items()), column.cell if is_whole else None, is_alike=is_whole and column.is_bare)


def _is_present(column: CellColumn) -> Expr:
    """Whether the fact has the cell. Tests the write time, so that engines need not read the rest of the struct."""
    return not_null(column.cell[WRITTEN])


def aggregate(node: LatestCells, *, source: Node) -> Node:
    """Reduce by one group-by."""
    winners = tuple((c.name, Agg(Fold.MAX, ordered_cell(c), _is_present(c))) for c in node.cells)
    return Aggregate(node.name, node.grain, source, node.keys, (*winners, *node.folds), notes=node.notes)


def window(node: LatestCells, *, source: Node) -> Node:
    """Reduce by ranks of each column's cells within the key."""
    keys = tuple(map(col, node.keys))
    ranks: list[tuple[str, Expr]] = []
    winners: list[tuple[str, Expr]] = []
    for i, cell in enumerate(node.cells):
        order = tuple(part for _, part in precedence_parts(cell.cell, cell.kind))
        ranks.append((f"_rank_{i}", RowNumber(keys, order)))
        winners.append((cell.name, Agg(Fold.ANY, ordered_cell(cell), equal(col(f"_rank_{i}"), 1) & _is_present(cell))))
    ranked = Select(f"{node.name}_ranked", "fact", source, (*cols(source.output()), *ranks))
    return Aggregate(node.name, node.grain, ranked, node.keys, (*winners, *node.folds), notes=node.notes)


def self_join(node: LatestCells, *, source: Node) -> Node:
    """Reduce by joining each column's largest order key back to the facts that have it."""
    result: Node = Aggregate(f"{node.name}_keys" if node.cells else node.name, node.grain, source, node.keys, node.folds)
    for i, column in enumerate(node.cells):
        name = node.name if i == len(node.cells) - 1 else f"{node.name}_and_{i + 1}"
        winners = _joined_back(node, source, column=column)
        columns = (*cols(result.output(), "l"), (column.name, col("_cell", "r")))
        notes = node.notes if name == node.name else ()
        result = Join(name, node.grain, result, winners, JoinKind.LEFT, node.keys, columns, is_null_safe=True, notes=notes)
    return result


def _joined_back(node: LatestCells, source: Node, *, column: CellColumn) -> Node:
    base = f"{node.name}_of_{column.name.lstrip('_')}"
    keys, order = node.keys, Struct(precedence_parts(column.cell, column.kind))
    columns = (*cols(keys), ("_order", order), ("_cell", ordered_cell(column)))
    facts = Select(f"{base}_facts", "fact of the column", source, columns, _is_present(column))
    latest = Aggregate(f"{base}_order", node.grain, facts, keys, (("_latest", Agg(Fold.MAX, col("_order"))),))
    is_latest, kept = equal(col("_order", "l"), col("_latest", "r")), cols((*keys, "_cell"), "l")
    name, grain = f"{base}_joined", "latest fact and copy"
    matching = Join(name, grain, facts, latest, JoinKind.INNER, keys, kept, is_latest, is_null_safe=True)
    return Aggregate(base, node.grain, matching, node.keys, (("_cell", Agg(Fold.ANY, col("_cell"))),))


Lowering = Callable[..., Node]
LOWERINGS: Mapping[str, Lowering] = {"aggregate": aggregate, "window": window, "self_join": self_join}
