"""Arrays of a serving table: BigQuery stores no null in an array, so elements without a value are left out, and counted.

An element shows as null if it has 0 bytes, or is an instant or a day outside TIMESTAMP, DATETIME and DATE (years 1 to 9999).
A view keeps it; a stored array cannot.

Source: BigQuery, Data types, Array type, "Nulls and the array type".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from sqlglot import exp

from cdc_views.model.naming import held_name, physical_name
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf, is_text
from cdc_views.sql.dialects.writing import EACH, Sql, each_element, function, identifier, is_present, number

_BOUNDED = frozenset({Kind.TIMESTAMP, Kind.DATETIME, Kind.INSTANT, Kind.DATE})


def stored(value: Sql, kind: LogicalType) -> tuple[Sql, list[Sql]]:
    """Return a shown value without the elements of its arrays that have no value, and numbers whose sum counts these elements.

    The other elements keep their order. If every element has a value, return `value` itself and no numbers.
    """
    match kind:
        case ListOf() | SetOf() | VectorOf():
            item, within = stored(each_element(), kind.element)
            if not (within or _shows_null(kind)):
                return value, []
            counted = exp.Case(ifs=[exp.If(this=is_present(each_element()), true=total(within))], default=number(1))
            return _each(value, item, is_kept=is_present(each_element())), [_sum(value, counted)]
        case MapOf():
            entry, within = _struct(each_element(), [("key", kind.key), ("value", kind.value)])
            return (_each(value, entry), [_sum(value, total(within))]) if within else (value, [])
        case TupleOf() | Udt():
            struct, within = _struct(value, _parts(kind))
            filled = exp.If(this=is_present(value), true=struct)
            return (exp.Case(ifs=[filled]), within) if within else (value, [])
    return value, []


def _shows_null(kind: ListOf | SetOf | VectorOf) -> bool:
    """Return whether an element may show as null; no raw table of BigQuery has a frozen array with an element of 0 bytes."""
    if kind.is_multicell:
        return not is_text(kind.element)
    return isinstance(kind.element, Scalar) and kind.element.kind in _BOUNDED


def _parts(kind: TupleOf | Udt) -> list[tuple[str, LogicalType]]:
    """Return the names, as in `engines.serving.column_types`, and types of a struct's fields."""
    if isinstance(kind, TupleOf):
        return [(f"f{i}", part) for i, part in enumerate(kind.fields)]
    named: Callable[[str], str] = physical_name if kind.is_multicell else held_name
    return [(named(name), part) for name, part in kind.fields]


def _field(value: Sql, name: str) -> Sql:
    return exp.Dot(this=value.copy(), expression=identifier(name))


def _struct(value: Sql, parts: list[tuple[str, LogicalType]]) -> tuple[Sql, list[Sql]]:
    members: list[Sql] = []
    numbers: list[Sql] = []
    for name, kind in parts:
        member, within = stored(_field(value, name), kind)
        members.append(exp.alias_(member, identifier(name)))
        numbers += within
    return function("STRUCT", *members), numbers


def _each(array: Sql, value: Sql, *, is_kept: Sql | None = None) -> Sql:
    """`ARRAY(SELECT … FROM UNNEST(array) AS _each WITH OFFSET … ORDER BY _offset)`."""
    query = exp.select(value).from_(_unnest(array, offset=identifier("_offset")))
    query = query.where(is_kept) if is_kept is not None else query
    ordered = query.order_by(exp.Ordered(this=exp.column(identifier("_offset")), nulls_first=True))
    return exp.Array(expressions=[ordered], struct_name_inheritance=True)


def _sum(array: Sql, value: Sql) -> Sql:
    """`(SELECT COALESCE(SUM(value), 0) FROM UNNEST(array) AS _each)`."""
    summed = function("COALESCE", function("SUM", value), number(0))
    return exp.paren(exp.select(summed).from_(_unnest(array)))


def _unnest(array: Sql, *, offset: Sql | None = None) -> Sql:
    return exp.Unnest(expressions=[array.copy()], alias=exp.TableAlias(columns=[identifier(EACH)]), offset=offset)


def total(numbers: list[Sql]) -> Sql:
    """Return the sum of some numbers; 0 if there are none."""
    return reduce(lambda left, right: exp.Add(this=left, expression=right), numbers) if numbers else number(0)
