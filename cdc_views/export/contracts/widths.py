"""Whether what a view shows fits into a type that a contract promises."""

from __future__ import annotations

from enum import Enum
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

_T = exp.DataType.Type
_ORDERS: tuple[tuple[Any, ...], ...] = (
    (_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT, _T.INT128),
    (_T.FLOAT, _T.DOUBLE),
    ("i8", "i16", "i32", "i64", "i128"),
    ("f32", "f64"),
    ("integer", "number"),
)
"""From narrow to wide."""
_OLDER = {("object", "map"), ("array", "map"), ("array", "vector")}
"""What versions before 3.2 of the standard could say at most."""


class Fit(Enum):
    """How a promised type relates to the one that is there."""

    SAME = "same"
    NARROWER = "narrower in the contract"
    WIDER = "wider in the contract"
    OTHER = "of another type"
    UNKNOWN = "not compared"


def fit_of(said: Any, found: Any, *, key: str, dialect: str) -> Fit:
    """Return how `said` in a contract relates to `found`, both under `key` of a property."""
    if said == found or (said, found) in _OLDER:
        return Fit.SAME
    if key != "physicalType":
        return _ranked(said, found)
    try:
        promised, there = (_parsed(text, dialect) for text in (said, found))
    except (SqlglotError, ValueError):
        return Fit.UNKNOWN
    if promised == there:
        return Fit.SAME
    if promised.is_type(_T.UNKNOWN, _T.USERDEFINED):
        return Fit.UNKNOWN
    if promised.this is there.this:
        return _sized(promised, there)
    if promised.is_type(*exp.DataType.TEXT_TYPES) and there.is_type(*exp.DataType.TEXT_TYPES):
        return _sized(promised, there)
    return _ranked(promised.this, there.this)


def _parsed(text: str, dialect: str) -> exp.DataType:
    """The type that a text names; DuckDB takes a length and ignores it, but a contract that gives one promises it."""
    found = exp.DataType.build(text, dialect=dialect)
    return exp.DataType.build(text) if found.is_type(*exp.DataType.TEXT_TYPES) and "(" in text else found


def _ranked(said: Any, found: Any) -> Fit:
    for order in _ORDERS:
        if said in order and found in order:
            return Fit.NARROWER if order.index(said) < order.index(found) else Fit.WIDER
    return Fit.OTHER


def _sized(promised: exp.DataType, there: exp.DataType) -> Fit:
    """Of decimals by digits, of texts by length; a text without a length has any."""
    said, found = _sizes(promised), _sizes(there)
    if promised.is_type(*exp.DataType.TEXT_TYPES):
        longest = [sizes[0] if sizes else None for sizes in (said, found)]
        if longest[0] == longest[1] or longest[0] is None:
            return Fit.SAME if longest[0] == longest[1] else Fit.WIDER
        return Fit.NARROWER if longest[1] is None or longest[0] < longest[1] else Fit.WIDER
    if len(said) == len(found) == 2 and promised.this is _T.DECIMAL:
        whole = [sizes[0] - sizes[1] for sizes in (said, found)]
        return Fit.WIDER if whole[0] >= whole[1] and said[1] >= found[1] else Fit.NARROWER
    return Fit.OTHER


def _sizes(kind: exp.DataType) -> list[int]:
    texts = [part.name for part in kind.expressions]
    return [int(text) for text in texts] if texts and all(text.isdecimal() for text in texts) else []
