"""Which types look different in a view than as they are stored."""

from __future__ import annotations

from cdc_views.model.naming import physical_name
from cdc_views.model.types import ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf, is_reshaped


def is_changed(kind: LogicalType) -> bool:
    """Whether the friendly form of `kind` differs from the stored one (in a user type, also by its names)."""
    match kind:
        case Scalar():
            return is_reshaped(kind)
        case ListOf() | SetOf() | VectorOf():
            return is_changed(kind.element)
        case MapOf():
            return is_changed(kind.key) or is_changed(kind.value)
        case TupleOf():
            return any(is_changed(field) for field in kind.fields)
        case Udt():
            return any(name != physical_name(name) or is_changed(field) for name, field in kind.fields)
    return False
