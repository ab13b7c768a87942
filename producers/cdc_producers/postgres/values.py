"""PostgreSQL's printed values as JSON, in the form of Debezium's connector.

Numbers are exact, never doubles. Of Debezium's modes, this uses those whose values explain themselves, because no schema goes
with an event:

===========================  ==========================================================================
column                       JSON
===========================  ==========================================================================
integers, float, numeric     number, digit by digit; NaN and infinities as text
boolean, bit(1)              true, false
bytea, bit(n), point         hex after `0x` (bit: little-endian bytes; point: well-known binary)
date, time, timestamp(tz)    text, as printed in UTC
time with time zone          text in UTC with `Z`
interval                     number of µs, a month counted as 30.4375 days; in a `duration` column ISO 8601
arrays                       array; inner arrays null, unless the schema has lists of lists
anything else                text, as printed
===========================  ==========================================================================
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted
from typing import Any

from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar

Encode = Callable[[str], str]
"""Turns a value's printed form into JSON; raises ValueError for an invalid text."""


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """A type in the catalog: `kind` is pg_type's typtype; `element` is 0 unless it is an array; `base` is a domain's."""

    kind: str
    element: int
    base: int
    delimiter: str


TypeCatalog = Callable[[int], TypeFacts | None]

BOOL, BYTEA, INT8, INT2, INT4, OID, POINT = 16, 17, 20, 21, 23, 26, 600
TEXT, BPCHAR, VARCHAR, UUID = 25, 1042, 1043, 2950
FLOAT4, FLOAT8, TIMETZ, INTERVAL, BIT, VARBIT, NUMERIC = 700, 701, 1266, 1186, 1560, 1562, 1700


def encoder(type_id: int, modifier: int, *, catalog: TypeCatalog, wanted: LogicalType | None) -> Encode:
    """Return a column's encoder; `wanted` is the column's type in the table's schema, None if unknown."""
    facts = catalog(type_id)
    if facts is not None and facts.kind == "d":
        # a column that the DDL declares with a domain over a number is a text column
        is_text = wanted == Scalar(Kind.TEXT)
        return quoted if is_text else encoder(facts.base, modifier, catalog=catalog, wanted=wanted)
    if facts is not None and facts.element:
        return _array(facts, modifier, catalog, wanted)
    if type_id == INTERVAL:
        return quoted if wanted == Scalar(Kind.DURATION) else interval_micros
    if type_id == BIT and modifier == 1:
        return _boolean
    return _ENCODERS.get(type_id, quoted)


def has_bytes(type_id: int, catalog: TypeCatalog) -> bool:
    """Return whether values of a type are written as bytes, so that a column of bytes takes them."""
    facts = catalog(type_id)
    if facts is not None and facts.kind == "d":
        return has_bytes(facts.base, catalog)
    return type_id in (BYTEA, BIT, VARBIT, POINT)


def _array(facts: TypeFacts, modifier: int, catalog: TypeCatalog, wanted: LogicalType | None) -> Encode:
    element = wanted.element if isinstance(wanted, ListOf) else None
    is_nested = isinstance(element, ListOf)
    while isinstance(element, ListOf):
        element = element.element
    encode = encoder(facts.element, modifier, catalog=catalog, wanted=element)
    if element is None and wanted is not None:
        return quoted  # a text column in the schema

    def written(items: list[Any], *, is_inner: bool) -> str:
        if is_inner and not is_nested:
            return "null"
        parts = (written(i, is_inner=True) if isinstance(i, list) else "null" if i is None else encode(i) for i in items)
        return f"[{','.join(parts)}]"

    return lambda text: written(parse_array(text, facts.delimiter), is_inner=False)


def _number(text: str) -> str:
    return quoted(text) if text in ("NaN", "Infinity", "-Infinity") else "-0.0" if text == "-0" else text


def _boolean(text: str) -> str:
    return "true" if text in ("t", "1") else "false"


def _hex(text: str) -> str:
    if not text.startswith("\\x"):
        raise ValueError("bytea in another form than hex")
    return f'"0x{text[2:]}"'


def _bits(text: str) -> str:
    number = int(text, 2) if text else 0
    return f'"0x{number.to_bytes((len(text) + 7) // 8, "little").hex()}"'


def _point(text: str) -> str:
    x, _, y = text.strip("()").partition(",")
    return f'"0x{struct.pack("<BIdd", 1, 1, float(x), float(y)).hex()}"'


_TIMETZ = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")
_DAY = 86_400


def _time_in_utc(text: str) -> str:
    found = _TIMETZ.fullmatch(text)
    if found is None:
        raise ValueError("a value is no time with a zone")
    hours, minutes, seconds, _, _, *zone = (int(part) if part and part.isdecimal() else 0 for part in found.groups())
    offset = zone[0] * 3600 + zone[1] * 60 + zone[2]
    clock = hours * 3600 + minutes * 60 + seconds - (offset if found[5] == "+" else -offset)
    clock %= _DAY
    return f'"{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}{found[4] or ""}Z"'


_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?", re.ASCII
)
_MONTH_MICROS = 2_629_800_000_000
"""30.4375 days. Source: Debezium 3.6, seen in events; documented as the average of 365.25 days a year."""


def interval_micros(text: str) -> str:
    """Return an interval in PostgreSQL's `iso_8601` style as µs; raises ValueError for any other text."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError("a value is no interval")
    years, months, days, hours, minutes = (int(part or 0) for part in found.groups()[:5])
    micros = int(found[7] or 0) * 1_000_000 + int((found[8] or "").ljust(6, "0"))
    clock = ((days * 24 + hours) * 60 + minutes) * 60_000_000 + (-micros if found[6] else micros)
    return str((years * 12 + months) * _MONTH_MICROS + clock)


_TOKENS = {mark: re.compile(rf'"((?:[^"\\]|\\.)*)"|([{{}}])|([^"{{}}{mark}]+)|{mark}', re.DOTALL) for mark in ",;"}
"""By the delimiter of the element's type: a comma, except for `box`."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MOST_NESTED = 6


def parse_array(text: str, delimiter: str = ",") -> list[Any]:
    r"""Return the elements: printed texts, None, and inner arrays as lists; raises ValueError for an invalid text.

    >>> parse_array('{1,NULL,"a \\"b\\"","NULL"}')
    ['1', None, 'a "b"', 'NULL']
    >>> parse_array("[0:1]={{1,2},{3,4}}")
    [['1', '2'], ['3', '4']]
    """
    body = text.partition("=")[2] if text.startswith("[") else text
    open_lists: list[list[Any]] = [[]]
    token, at = _TOKENS[delimiter], 0
    while at < len(body) and (found := token.match(body, at)) is not None:
        in_quotes, brace, plain = found.groups()
        if brace == "{":
            open_lists[-1].append([])
            open_lists.append(open_lists[-1][-1])
        elif brace:
            open_lists.pop()
        elif in_quotes is not None:
            open_lists[-1].append(_ESCAPED.sub(r"\1", in_quotes))
        elif plain is not None:
            open_lists[-1].append(None if plain == "NULL" else plain)
        if not 0 < len(open_lists) <= _MOST_NESTED + 1:
            break
        at = found.end()
    match open_lists:
        case [[list() as items]] if at == len(body):
            return items
    raise ValueError("a value is no array")


_ENCODERS: dict[int, Encode] = {
    BOOL: _boolean,
    BYTEA: _hex,
    **dict.fromkeys((INT8, INT2, INT4, OID), str),
    **dict.fromkeys((FLOAT4, FLOAT8, NUMERIC), _number),
    POINT: _point,
    TIMETZ: _time_in_utc,
    **dict.fromkeys((BIT, VARBIT), _bits),
}
"""By the type's oid, which is the same in every PostgreSQL. Source: PostgreSQL 17, `pg_type.dat`."""
