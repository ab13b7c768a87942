"""Arrays of a serving table: BigQuery stores none that holds null, so elements without a value are left out, and counted.

An element shows as null where it has 0 bytes, or is an instant or a day outside of what TIMESTAMP, DATETIME and DATE hold
(years 1 to 9999). A view keeps it; a stored array cannot.

Source: BigQuery, Data types, Array type, "Nulls and the array type".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from cdc_views.model.naming import held_name, physical_name
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf, is_text
from cdc_views.sql.dialects.base import Sql, function, identifier, number

_BOUNDED = frozenset({Kind.TIMESTAMP, Kind.DATETIME, Kind.INSTANT, Kind.DATE})


def may_hold_null(kind: LogicalType) -> bool:
    """Whether an array within a shown value of `kind` may hold null."""
    match kind:
        case ListOf() | SetOf() | VectorOf():
            return _shows_null(kind) or may_hold_null(kind.element)
        case MapOf():
            return may_hold_null(kind.key) or may_hold_null(kind.value)
        case TupleOf() | Udt():
            return any(may_hold_null(part) for _, part in _parts(kind))
    return False


def _shows_null(kind: ListOf | SetOf | VectorOf) -> bool:
    """Whether an element may show as null; a frozen array with an element of 0 bytes is in no raw table of BigQuery."""
    if kind.is_multicell:
        return not is_text(kind.element)
    return isinstance(kind.element, Scalar) and kind.element.kind in _BOUNDED


def without_nulls(value: Sql, kind: LogicalType) -> Sql:
    """Return a shown value with the elements of its arrays that have one, in order; `value` itself where all have."""
    if not may_hold_null(kind):
        return value
    match kind:
        case ListOf() | SetOf() | VectorOf():
            return _each(value, lambda item: without_nulls(item, kind.element), is_kept=_has_value)
        case MapOf():
            return _each(value, lambda item: _struct(item, [("key", kind.key), ("value", kind.value)]))
        case TupleOf() | Udt():
            filled = exp.If(this=_has_value(value), true=_struct(value, _parts(kind)))
            return exp.Case(ifs=[filled])
    raise TypeError(kind)


def nulls_in(value: Sql, kind: LogicalType) -> Iterator[Sql]:
    """Yield numbers whose sum is how many elements `without_nulls` leaves out."""
    if not may_hold_null(kind):
        return
    match kind:
        case ListOf() | SetOf() | VectorOf():
            within = _total(nulls_in(_item(), kind.element))
            yield _sum(value, exp.Case(ifs=[exp.If(this=_has_value(_item()), true=within)], default=number(1)))
        case MapOf():
            parts = [("key", kind.key), ("value", kind.value)]
            yield _sum(value, _total(one for name, part in parts for one in nulls_in(_field(_item(), name), part)))
        case TupleOf() | Udt():
            for name, part in _parts(kind):
                yield from nulls_in(_field(value, name), part)


def _parts(kind: TupleOf | Udt) -> list[tuple[str, LogicalType]]:
    """Names and types of a struct's fields, named as `engines.serving.column_types` names them."""
    if isinstance(kind, TupleOf):
        return [(f"f{i}", part) for i, part in enumerate(kind.fields)]
    named: Callable[[str], str] = physical_name if kind.is_multicell else held_name
    return [(named(name), part) for name, part in kind.fields]


def _item() -> Sql:
    return exp.column(identifier("_item"))


def _field(value: Sql, name: str) -> Sql:
    return exp.Dot(this=value.copy(), expression=identifier(name))


def _has_value(value: Sql) -> Sql:
    return exp.Is(this=value.copy(), expression=exp.Not(this=exp.Null()))


def _struct(value: Sql, parts: list[tuple[str, LogicalType]]) -> Sql:
    return function("STRUCT", *(exp.alias_(without_nulls(_field(value, n), part), identifier(n)) for n, part in parts))


def _each(array: Sql, value: Callable[[Sql], Sql], *, is_kept: Callable[[Sql], Sql] | None = None) -> Sql:
    """`ARRAY(SELECT … FROM UNNEST(array) AS _item WITH OFFSET … ORDER BY _offset)`."""
    source = _unnest(array, offset=identifier("_offset"))
    query = exp.select(value(_item())).from_(source)
    query = query.where(is_kept(_item())) if is_kept is not None else query
    ordered = query.order_by(exp.Ordered(this=exp.column(identifier("_offset")), nulls_first=True))
    return exp.Array(expressions=[ordered], struct_name_inheritance=True)


def _sum(array: Sql, value: Sql) -> Sql:
    """`(SELECT COALESCE(SUM(value), 0) FROM UNNEST(array) AS _item)`."""
    total = function("COALESCE", function("SUM", value), number(0))
    return exp.paren(exp.select(total).from_(_unnest(array)))


def _unnest(array: Sql, *, offset: Sql | None = None) -> Sql:
    return exp.Unnest(expressions=[array.copy()], alias=exp.TableAlias(columns=[identifier("_item")]), offset=offset)


def _total(numbers: Iterator[Sql]) -> Sql:
    """The sum of some numbers; 0 of none."""
    found = list(numbers)
    total = found[0] if found else number(0)
    for one in found[1:]:
        total = exp.Add(this=total, expression=one)
    return total


def left_out(columns: list[tuple[Sql, LogicalType]]) -> Sql:
    """Return how many elements of a row's arrays have no value."""
    return _total(one for value, kind in columns for one in nulls_in(value, kind))
