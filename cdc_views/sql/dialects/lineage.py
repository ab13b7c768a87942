"""The origins of a plan's values: a path into the raw table, or a struct that the plan builds.

Expressions have no types. For dialects that treat structs differently, the origin is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.model.types import LogicalType
from cdc_views.plan import expr as e
from cdc_views.plan.nodes import Aggregate, Explode, Join, Node, Ordered, Scan, Select, UnionAll

ELEMENT = "[]"
"""The step in a path from an array to its elements."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A value of the raw table; the path is the column, then fields or `ELEMENT`."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """A struct that `node` builds over `item`, or an array of such structs."""

    struct: e.Struct
    node: Node
    item: Raw | Built | None

    def index(self, field: str) -> int:
        """Return the 0-based position of a field."""
        return [name for name, _ in self.struct.parts].index(field)

    def order(self, value: e.Expr) -> list[e.Expr]:
        """Return the parts of the cell `value` that rule C2 compares, in order; fields after `bytes` are payload."""
        names = [name for name, _ in self.struct.parts]
        kept = names[: names.index("bytes") + 1] if "bytes" in names else names
        parts = dict(value.parts) if isinstance(value, e.Struct) else {name: e.Field(value, name) for name in kept}
        return [parts[name] for name in kept]


Origin = Raw | Built | None
"""None is a scalar that the plan computes."""


class Origins:
    """The origins in one plan, and the fields of the raw table's structs that it reads."""

    def __init__(self, nodes: list[Node]) -> None:
        self._fields: dict[tuple[str, ...], set[str]] = {}
        self._kinds: dict[tuple[str, ...], LogicalType] = {}
        for node in nodes:
            for expression in node.expressions():
                self._walk(expression, node, None)

    def fields(self, origin: Origin) -> frozenset[str]:
        """Return the names of a struct's fields that the plan reads; none for a scalar."""
        if isinstance(origin, Built):
            return frozenset(name for name, _ in origin.struct.parts)
        return frozenset(self._fields.get(origin.path, ())) if origin is not None else frozenset()

    def kind(self, origin: Origin) -> LogicalType | None:
        """Return the type in which the plan shows a raw value; None if it does not."""
        return self._kinds.get(origin.path) if isinstance(origin, Raw) else None

    def of(self, value: e.Expr, node: Node, item: Origin = None) -> Origin:
        """Return the origin of an expression of `node`; `item` is the origin of `Item()`."""
        match value:
            case e.Col():
                if isinstance(node, Scan):
                    return Raw((value.name,))
                return _output(self, node.sources()[1 if value.of == "r" else 0], value.name)
            case e.Item():
                return item
            case e.Field():
                return self._field(self.of(value.base, node, item), value.name)
            case e.Struct():
                return Built(value, node, item)
            case e.Case(branches=((_, shown),)):
                return self.of(shown, node, item)
            case e.Agg() | e.Newest():
                return self.of(value.value, node, item)
            case e.Keep():
                return self.of(value.array, node, item)
            case e.Each():
                return self.of(value.value, node, element(self.of(value.array, node, item)))
        return None

    def _field(self, base: Origin, name: str) -> Origin:
        if isinstance(base, Built):
            return self.of(dict(base.struct.parts)[name], base.node, base.item)
        return Raw((*base.path, name)) if base is not None else None

    def _walk(self, value: e.Expr, node: Node, item: Origin) -> None:
        match value:
            case e.Field():
                base = self.of(value.base, node, item)
                if isinstance(base, Raw):
                    self._fields.setdefault(base.path, set()).add(value.name)
            case e.Friendly():
                origin = self.of(value.base, node, item)
                if isinstance(origin, Raw):
                    self._kinds[origin.path] = value.kind
            case e.Keep() | e.Each():
                self._walk(value.array, node, item)
                inner = value.where if isinstance(value, e.Keep) else value.value
                self._walk(inner, node, element(self.of(value.array, node, item)))
                return
        for child in value.children():
            self._walk(child, node, item)


def element(array: Origin) -> Origin:
    """Return the origin of an array's elements."""
    return Raw((*array.path, ELEMENT)) if isinstance(array, Raw) else array


def shown_kind(value: e.Expr) -> LogicalType | None:
    """Return the type of a friendly value, perhaps inside a condition; None for anything else."""
    if isinstance(value, e.Case) and len(value.branches) == 1:
        return shown_kind(value.branches[0][1])
    return value.kind if isinstance(value, e.Friendly) else None


def shown_kinds(struct: e.Struct) -> list[tuple[str, LogicalType]] | None:
    """Return (name, type) of a struct's parts if all are friendly values, else None."""
    kinds = [(name, shown_kind(part)) for name, part in struct.parts]
    known = [(name, kind) for name, kind in kinds if kind is not None]
    return known if len(known) == len(kinds) else None


def _output(lineage: Origins, node: Node, name: str) -> Origin:
    match node:
        case Scan() | Select() | Join():
            return lineage.of(dict(node.columns)[name], node)
        case Aggregate():
            return lineage.of(dict(node.folds)[name], node) if name in dict(node.folds) else _output(lineage, node.source, name)
        case Explode() if name == node.element:
            return element(lineage.of(node.array, node))
        case Explode() | Ordered():
            return _output(lineage, node.source, name)
        case UnionAll():
            return _output(lineage, node.parts[0], name)
    return None


def without_values(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the key columns without the values whose comparables are among them."""
    return tuple(key for key in keys if f"_key_{key}" not in keys)
