"""The raw columns that feed each column of a view, derived from the plan of the view.

A raw column *gives* a value if the plan passes its content on, maybe changed. It *decides* if the plan only tests it: which
of two cells is later, whether a deletion covers one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cdc_views.model.naming import bytes_name, key_name, physical_name
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.plan import names
from cdc_views.plan.build import Ask, build, output_names
from cdc_views.plan.expr import Agg, AnyOver, Call, Case, Col, Expr, Keep, Op, Over, RowNumber
from cdc_views.plan.nodes import Aggregate, Explode, Join, LatestCells, Node, Ordered, Scan, Select, UnionAll, in_order
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

_PASSED_ON = frozenset({Op.ADD, Op.MUL, Op.DIV, Op.COALESCE, Op.GREATEST})
"""Operators whose result contains their arguments; the others only test them."""
_OWN = {
    names.LIVE: ("row marker", {FactKind.ROW}),
    names.DELETED: ("deletion", set(FactKind) - {FactKind.STATIC}),
    names.FROM: ("start of the range", {FactKind.RANGE}),
    names.TO: ("end of the range", {FactKind.RANGE}),
}
"""Columns of the raw layout itself that a plan tests: their names for people, and the facts in which they may be non-null."""


@dataclass(frozen=True, slots=True, order=True)
class RawColumn:
    """A column of the raw table in facts of the kinds `facts`; `is_ours`: every raw table has it (row marker, deletion …)."""

    name: str
    facts: tuple[str, ...]
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The raw columns that give the values of one column of a view, and those that decide which value shows, if any.
    `description` is the schema's comment.
    """

    column: str
    type: str
    given: tuple[RawColumn, ...]
    decided: tuple[RawColumn, ...]
    description: str = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The columns of a view, in order, and the raw columns that decide which rows it has (rules W1 to W3)."""

    columns: tuple[ColumnLineage, ...]
    rows: tuple[RawColumn, ...]

    @property
    def decisions(self) -> tuple[tuple[tuple[str, ...], tuple[RawColumn, ...]], ...]:
        """Groups of columns that the same raw columns decide, with these; without columns that nothing decides."""
        found: dict[tuple[RawColumn, ...], list[str]] = {}
        for one in self.columns:
            if one.decided:
                found.setdefault(one.decided, []).append(one.column)
        return tuple((tuple(names), decided) for decided, names in found.items())


def lineage_of(relation: Relation, columns: tuple[str, ...] = ()) -> Lineage:
    """Return the origin of columns of the table's view (default: of all); the same for all strategies and engines."""
    ask = Ask(relation, columns=columns)
    root, schema = build(ask), relation.schema
    found = []
    for name, output in output_names(ask):
        walk = _Walk()
        walk.column(root, output, gives=True)
        given = _named(schema, walk.given)
        known = {(one.name, one.is_ours) for one in given}
        decided = [one for one in _named(schema, walk.decided) if (one.name, one.is_ours) not in known]
        column = schema.column(name)
        found.append(ColumnLineage(name, str(column.type), tuple(given), tuple(decided), column.description))
    rows = _Walk()
    for node in in_order(root):
        if isinstance(node, Select) and node.where is not None:
            rows.expression(node.where, (node.source,), gives=False)
    keys = {column.name for column in schema.row_key}
    return Lineage(tuple(found), tuple(one for one in _named(schema, rows.decided) if one.name not in keys))


@dataclass(slots=True)
class _Walk:
    given: set[tuple[str, str]] = field(default_factory=set)
    decided: set[tuple[str, str]] = field(default_factory=set)
    seen: set[tuple[int, str, bool]] = field(default_factory=set)

    def column(self, node: Node, name: str, *, gives: bool) -> None:
        if (place := (id(node), name, gives)) in self.seen:
            return
        self.seen.add(place)
        match node:
            case Scan():
                self._read(node, name, gives=gives)
            case Select() | Join():
                self.expression(dict(node.columns)[name], node.sources(), gives=gives)
            case UnionAll():
                for part in node.parts:
                    self.column(part, part.output()[node.output().index(name)], gives=gives)
            case Explode(element=element) if element == name:
                self.expression(node.array, node.sources(), gives=gives)
            case LatestCells() | Aggregate():
                self._folded(node, name, gives=gives)
            case Ordered(source=source) | Explode(source=source):
                self.column(source, name, gives=gives)
            case _:
                raise TypeError(f"no lineage through {type(node).__name__}")

    def _read(self, scan: Scan, name: str, *, gives: bool) -> None:
        for used, gives_it in _uses(dict(scan.columns)[name], gives=gives):
            (self.given if gives_it else self.decided).update((used.name, kind.value) for kind in scan.kinds)

    def _folded(self, node: LatestCells | Aggregate, name: str, *, gives: bool) -> None:
        computed = dict(node.folds)
        if isinstance(node, LatestCells):
            computed |= {cell.name: cell.cell for cell in node.cells}
        if name in computed:
            self.expression(computed[name], (node.source,), gives=gives)
        else:
            self.column(node.source, name, gives=gives)

    def expression(self, value: Expr, sources: tuple[Node, ...], *, gives: bool) -> None:
        for used, gives_it in _uses(value, gives=gives):
            self.column(sources[-1] if used.of == "r" else sources[0], used.name, gives=gives_it)


def _uses(value: Expr, *, gives: bool) -> Iterator[tuple[Col, bool]]:
    """Yield each column that an expression uses, and whether the expression passes its content on."""
    if isinstance(value, Col):
        yield value, gives
        return
    asked = _asked(value)
    for child in value.children():
        yield from _uses(child, gives=gives and not any(child is one for one in asked))


def _asked(value: Expr) -> tuple[Expr, ...]:
    match value:
        case Case(branches=branches):
            return tuple(condition for condition, _ in branches)
        case Agg(where=where) | Keep(where=where):
            return () if where is None else (where,)
        case Call(op=op, args=args):
            return () if op in _PASSED_ON else args
        case RowNumber() | AnyOver():
            return tuple(value.children())
        case Over(partition=partition, order=order):
            return (*partition, *order)
    return ()


def _named(schema: TableSchema, reached: Iterable[tuple[str, str]]) -> list[RawColumn]:
    """Return raw columns by user names, in schema order: a key's comparable and bytes count as the key; `_kind` is left out."""
    merged: dict[str, set[str]] = {}
    for name, kind in reached:
        merged.setdefault(name, set()).add(kind)
    found = []
    for column in schema.columns:
        stored = (physical_name(column.name), key_name(column.name), bytes_name(column.name))
        kinds = set().union(*(merged.get(name, set()) for name in stored))
        if kinds:
            found.append(RawColumn(column.name, _sorted(kinds, _carriers(column))))
    ours = ((name, called, carriers) for name, (called, carriers) in _OWN.items() if name in merged)
    return found + [RawColumn(called, _sorted(merged[name], carriers), is_ours=True) for name, called, carriers in ours]


def _carriers(column: Column) -> set[FactKind]:
    """Return the kinds of facts in which a column may be non-null; a scan may read more kinds."""
    if column.role is Role.STATIC:
        return {FactKind.STATIC}
    is_of_rows = column.role in (Role.REGULAR, Role.CLUSTERING)
    return {FactKind.ROW} if is_of_rows else set(FactKind) - {FactKind.TABLE}


def _sorted(kinds: set[str], carriers: set[FactKind]) -> tuple[str, ...]:
    return tuple(kind.value for kind in FactKind if kind in carriers and kind.value in kinds)
