"""Ordered rewrites of a plan; each is one function, node in, node out.

`choose` picks a strategy; `lower` turns every `LatestCells` into the nodes of a strategy; `prune` drops columns nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cdc_views.errors import UnsupportedError, did_you_mean
from cdc_views.plan import strategies
from cdc_views.plan.expr import Col, Expr, Named, columns_used
from cdc_views.plan.nodes import Aggregate, Explode, Join, LatestCells, Node, Ordered, Scan, Select, UnionAll, in_order

Lowering = Callable[..., Node]
LOWERINGS: Mapping[str, Lowering] = {
    "aggregate": strategies.aggregate,
    "window": strategies.window,
    "self_join": strategies.self_join,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and the reason for it, a sentence fit for a comment."""

    strategy: str
    why: str


def choose(strategy: str) -> Choice:
    """Return the strategy to use; `auto` decides, anything else was pinned by the user."""
    if strategy != "auto":
        if strategy not in LOWERINGS:
            known = ["auto", *LOWERINGS]
            raise UnsupportedError(
                f"there is no strategy {strategy!r}{did_you_mean(strategy, known)}", remedy=f"choose one of {', '.join(known)}"
            )
        return Choice(strategy, f"strategy {strategy}, as asked for")
    return Choice("aggregate", "strategy aggregate: one scan and one group-by, the fastest exact one on every engine measured")


def with_sources(node: Node, sources: tuple[Node, ...]) -> Node:
    """Return `node` reading `sources` instead of its own."""
    match node:
        case Scan():
            return node
        case Join():
            return replace(node, left=sources[0], right=sources[1])
        case UnionAll():
            return replace(node, parts=sources)
        case Select() | LatestCells() | Aggregate() | Explode() | Ordered():
            return replace(node, source=sources[0])
    raise TypeError(f"no rewrite of {type(node).__name__}")


def lower(root: Node, *, strategy: str) -> Node:
    """Return the plan with every `LatestCells` computed by `strategy`; shared nodes stay shared."""
    done: dict[int, Node] = {}
    for node in in_order(root):
        sources = tuple(done[id(source)] for source in node.sources())
        if isinstance(node, LatestCells):
            done[id(node)] = LOWERINGS[strategy](node, source=sources[0])
        else:
            done[id(node)] = with_sources(node, sources)
    return done[id(root)]


def prune(root: Node) -> Node:
    """Return the plan without columns that no later node reads; keys of aggregates always stay."""
    needed: dict[int, set[str]] = {id(root): set(root.output())}
    ordered = in_order(root)
    for node in reversed(ordered):
        for source, names in _reads(node, needed[id(node)]):
            needed.setdefault(id(source), set()).update(names)
    done: dict[int, Node] = {}
    for node in ordered:
        sources = tuple(done[id(source)] for source in node.sources())
        done[id(node)] = with_sources(_narrowed(node, needed[id(node)]), sources)
    return done[id(root)]


def _kept(columns: Named, needed: set[str]) -> Named:
    kept = tuple((name, value) for name, value in columns if name in needed)
    return kept or columns[:1]  # a step without columns is not SQL


def _narrowed(node: Node, needed: set[str]) -> Node:
    match node:
        case Scan() | Select() | Join():
            return replace(node, columns=_kept(node.columns, needed))
        case Aggregate():
            return replace(node, folds=tuple((n, v) for n, v in node.folds if n in needed) or node.folds[: not node.keys])
        case Explode():
            return replace(node, keep=tuple(name for name in node.keep if name in needed))
    return node


def _reads(node: Node, needed: set[str]) -> list[tuple[Node, set[str]]]:
    match node:
        case Select():
            return [(node.source, _used(_kept(node.columns, needed), node.where))]
        case Aggregate():
            folds = tuple((n, v) for n, v in node.folds if n in needed) or node.folds[: not node.keys]
            return [(node.source, _used(folds, node.where) | set(node.keys))]
        case Explode():
            return [(node.source, (needed & set(node.keep)) | {c.name for c in columns_used(node.array)})]
        case UnionAll():
            return [(part, set(part.output())) for part in node.parts]
        case Ordered():
            return [(node.source, set(node.output()))]
        case Join():
            columns = [c for _, v in _kept(node.columns, needed) for c in columns_used(v)]
            columns += columns_used(node.matching) if node.matching is not None else []
            keys = set(node.on)
            return [(node.left, keys | _side(columns, "l")), (node.right, keys | _side(columns, "r"))]
    return []


def _side(columns: list[Col], side: str) -> set[str]:
    return {c.name for c in columns if c.of == side}


def _used(columns: Named, where: Expr | None) -> set[str]:
    expressions = [value for _, value in columns] + ([where] if where is not None else [])
    return {c.name for expression in expressions for c in columns_used(expression)}
