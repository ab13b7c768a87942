"""Forms of values in a plan: friendly types for views, exact forms for `query`, or both.

*Exact* columns are named `_exact_<column>` and hold struct(v). A null struct is null; a null or empty `v` is a value of
0 bytes. Nested values are their serialized bytes. Elements keep their path. `engines.exact` reads exact columns back.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.model.types import ListOf, LogicalType, MapOf, Scalar, SetOf, carries_comparable, reads_from_bytes
from cdc_views.plan import names
from cdc_views.plan.expr import Each, Expr, Friendly, Item, MapFrom, Named, Struct, when
from cdc_views.plan.order import BYTES, VALUE
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import element_value_type


def exact_name(column: str) -> str:
    """Return the name of a column's exact form."""
    return f"_exact_{physical_name(column)}"


def exact_key(column: Column) -> str:
    """Return the column that holds a key exactly: its bytes if raw stores them, else its value."""
    return names.shown_as(column)[-1]


def is_mappable(kind: LogicalType) -> bool:
    """Return whether a view shows a map with keys of `kind` as a MAP; it shows others as arrays of (key, value).

    The keys of a MAP must be equal in the engine exactly when they are equal in Cassandra.
    """
    return isinstance(kind, Scalar) and not carries_comparable(kind)


@dataclass(frozen=True, slots=True)
class Representation:
    """The forms in which a plan returns each value: one, or both."""

    is_friendly: bool = True
    is_exact: bool = False

    def payload(self, kind: LogicalType) -> tuple[str, ...]:
        """Return the stored fields of a cell that the forms need: at least one."""
        wants_bytes = self.is_exact and reads_from_bytes(kind)
        wants_value = self.is_friendly or not wants_bytes
        return (VALUE,) * wants_value + (BYTES,) * wants_bytes

    def of_cell(self, column: Column, cell: Expr) -> Named:
        """Return the forms of a simple column's visible cell."""
        return self._forms(column, Friendly(cell[VALUE], column.type), _exact(cell, column.type))

    def of_fields(self, column: Column, fields: list[tuple[str, Expr, Expr, LogicalType]]) -> Named:
        """Return the forms of a multi-cell user type; `fields` are (name, cell, whether it shows, value type)."""
        friendly = Struct(tuple((name, when(shown, Friendly(cell[VALUE], kind))) for name, cell, shown, kind in fields))
        exact = Struct(tuple((name, when(shown, _exact(cell, kind))) for name, cell, shown, kind in fields))
        return self._forms(column, friendly, exact)

    def of_elements(self, column: Column, live: Expr) -> Named:
        """Return the forms of a list, set or map from its live elements in path order."""
        return self._forms(column, _friendly_elements(column.type, live), _exact_elements(column.type, live))

    def _forms(self, column: Column, friendly: Expr, exact: Expr) -> Named:
        shown, exactly = (physical_name(column.name), friendly), (exact_name(column.name), exact)
        return (shown,) * self.is_friendly + (exactly,) * self.is_exact


def _exact(cell: Expr, kind: LogicalType) -> Expr:
    return Struct((("v", cell[BYTES if reads_from_bytes(kind) else VALUE]),))


def _friendly_elements(kind: LogicalType, live: Expr) -> Expr:
    path = Friendly(Item()["path"], path_type(kind))
    match kind:
        case ListOf():
            return Each(live, Friendly(Item()[VALUE], kind.element))
        case SetOf():
            return Each(live, path)
        case MapOf():
            entry = Struct((("key", path), ("value", Friendly(Item()[VALUE], kind.value))))
            entries = Each(live, entry)
            return MapFrom(entries) if is_mappable(kind.key) else entries
    raise TypeError(f"{kind} has no elements")


def _exact_elements(kind: LogicalType, live: Expr) -> Expr:
    path = "path_bytes" if reads_from_bytes(path_type(kind)) else "path"
    parts: list[tuple[str, Expr]] = [("path", Item()[path])]
    value = element_value_type(kind)
    if value is not None:
        parts.append(("v", Item()[BYTES if reads_from_bytes(value) else VALUE]))
    return Each(live, Struct(tuple(parts)))
