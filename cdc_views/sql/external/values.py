"""Values of an event as stored values (`rules.codec.physical`), by the column's type and by what the external table holds.

The result is what the raw format's adapter gives, or the query fails. What only the adapter can read raises `NotInSqlError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from cdc_views.formats.connect.hints import Binary, Decimals, Hints, Unit
from cdc_views.formats.connect.scalars import (
    A_DAY_IN_MILLIS,
    INFINITIES_IN_MILLIS,
    LAST_DAY_IN_MILLIS,
    LEAST_MICROS,
    LONGEST_TIME_IN_MICROS,
    stated_unit,
)
from cdc_views.landing.external.texts import is_text
from cdc_views.model.types import Kind, LogicalType, Scalar
from cdc_views.plan.documents import (
    As,
    Base64,
    Days,
    HasMember,
    InstantForm,
    JsonObject,
    LowerCase,
    Member,
    Micros,
    ObjectMember,
    Physical,
    Utf8,
)
from cdc_views.plan.expr import TRUE, Call, Case, Expr, Lit, Op, col, either

OBJECT, MEMBER = pa.json_(pa.string()), pa.json_(pa.large_string())
"""The types of a column that a step made a JSON object, or the text of an object's member."""


class NotInSqlError(Exception):
    """SQL cannot read the events exactly; the text says which part of them, and why."""


@dataclass(frozen=True, slots=True)
class Found:
    """A value of an event: a column or field of that Arrow type, or the text of a JSON member (`kind` None).

    `is_unscaled`: it is the hex digits of a decimal without its point (`decimals.unscaled`).
    """

    value: Expr
    kind: pa.DataType | None = None
    is_unscaled: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the value is the text of a JSON member."""
        return self.kind is None

    def is_of(self, check: Callable[[pa.DataType], bool]) -> bool:
        """Whether the value is a column or field of a type that passes `check`."""
        return self.kind is not None and check(self.kind)

    @property
    def is_text(self) -> bool:
        """Whether the value is text: a column or field of texts, or a JSON member."""
        return self.is_json or self.is_of(_is_string)

    def as_type(self, wanted: Physical) -> Expr:
        """Return the value as a stored type; fails if it is none."""
        return self.value if self.kind is not None and self.kind == _ARROW.get(wanted) else As(self.value, wanted)

    @property
    def whole(self) -> Expr:
        """The value as a whole number of 64 bits; raises `NotInSqlError` for a column of another type."""
        if self.is_json or self.is_of(pa.types.is_signed_integer):
            return self.as_type(Physical.INT64)
        raise NotInSqlError(f"{self.kind} where a whole number was expected")

    @property
    def text(self) -> Expr:
        """The value as text; raises `NotInSqlError` for a column of another type."""
        if self.is_text:
            return self.value
        raise NotInSqlError(f"{self.kind} where a text was expected")


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a JSON object (`kind` None), the fields of a struct, or the columns of a step (`of` None)."""

    of: Expr | None
    kind: pa.StructType | None = None

    @classmethod
    def columns(cls, columns: pa.Schema) -> Members:
        """Return the columns of a step as members."""
        return cls(None, pa.struct(list(columns)))

    @property
    def names(self) -> frozenset[str] | None:
        """The names of the members; None if only the values show them."""
        return None if self.kind is None else frozenset(field.name for field in self.kind)

    def member(self, name: str) -> Found | None:
        """Return a member's value, which is null if an object lacks it; None if no event can have it."""
        if self.kind is None:
            assert self.of is not None, "JSON is the value of an expression"
            return Found(Member(self.of, name))
        if name not in (self.names or ()):
            return None
        kind = self.kind.field(name).type
        return Found(col(name) if self.of is None else self.of[name], None if kind == MEMBER else kind)

    def object(self, name: str) -> Members | None:
        """Return the members of a member, which may be JSON as text; None if no event can have it. Raises `NotInSqlError`."""
        if self.kind is None and self.of is not None:
            return Members(ObjectMember(self.of, name))
        found = self.member(name)
        if found is None or found.is_of(pa.types.is_struct):
            return None if found is None else Members(found.value, found.kind)
        if found.kind == OBJECT:
            return Members(found.value)
        if found.is_of(is_text):
            return Members(JsonObject(found.value if found.is_of(_is_string) else Utf8(found.value)))
        raise NotInSqlError(f"{name!r} is {found.kind}; SQL reads structs, and JSON as text or bytes")

    def has(self, name: str) -> Expr:
        """Return whether the member is there, with a value or null."""
        return TRUE if self.kind is not None or self.of is None else HasMember(self.of, name)


def stored_value(kind: LogicalType, found: Found, hints: Hints) -> Expr:
    """Return a found value as the stored value of a type. Raises `NotInSqlError`."""
    if not isinstance(kind, Scalar) or kind.kind not in _READERS:
        raise NotInSqlError(f"SQL does not read {kind}")
    return _READERS[kind.kind](kind, found, hints)


def physical_of(kind: LogicalType) -> Physical:
    """Return the stored type of a value that `stored_value` reads."""
    assert isinstance(kind, Scalar)
    return _STORED.get(kind.kind, Physical.TEXT)


def is_uuid(kind: LogicalType) -> bool:
    """Whether values of a type are UUIDs, whose stored text is their identity."""
    return isinstance(kind, Scalar) and kind.kind in (Kind.UUID, Kind.TIMEUUID)


def is_unit_guessed(kind: LogicalType, found: Found, hints: Hints) -> bool:
    """Whether nothing says what a date-time's number counts, so that its size does."""
    if not isinstance(kind, Scalar) or kind.kind not in (Kind.DATETIME, Kind.INSTANT):
        return False
    is_number = found.is_of(pa.types.is_integer) or (found.is_json and kind.kind is Kind.DATETIME)
    return is_number and stated_unit(kind.kind, hints) is None


def _integer(wanted: Physical) -> Callable[[Scalar, Found, Hints], Expr]:
    def read(kind: Scalar, found: Found, hints: Hints) -> Expr:
        found.whole  # noqa: B018 - raises for another type
        return found.as_type(wanted)

    return read


def _text(kind: Scalar, found: Found, hints: Hints) -> Expr:
    return found.text


def _uuid(kind: Scalar, found: Found, hints: Hints) -> Expr:
    return LowerCase(found.text)


def _boolean(kind: Scalar, found: Found, hints: Hints) -> Expr:
    if found.is_json or found.is_of(pa.types.is_boolean):
        return found.as_type(Physical.BOOLEAN)
    raise NotInSqlError(f"{found.kind} where a boolean was expected")


def _floating(kind: Scalar, found: Found, hints: Hints) -> Expr:
    if not (found.is_json or found.is_of(pa.types.is_floating)):
        raise NotInSqlError(f"{found.kind} where a floating-point number was expected")
    if kind.kind is Kind.DOUBLE:
        return found.as_type(Physical.DOUBLE)
    # a text is rounded twice, as the adapter does
    return As(As(found.value, Physical.DOUBLE), Physical.FLOAT) if found.is_json else found.as_type(Physical.FLOAT)


def _blob(kind: Scalar, found: Found, hints: Hints) -> Expr:
    if found.is_of(pa.types.is_binary) or found.is_of(pa.types.is_large_binary):
        return found.value
    if not found.is_text:
        raise NotInSqlError(f"{found.kind} where bytes were expected")
    if hints.binary is Binary.BASE64:
        return Base64(found.text)
    raise NotInSqlError("bytes in JSON are exact in SQL as base64, with `raw: {options: {binary: base64}}`")


def _decimal(kind: Scalar, found: Found, hints: Hints) -> Expr:
    if found.is_text and hints.decimals is Decimals.STRING:
        return found.text
    raise NotInSqlError(
        "decimals are exact in SQL as numbers with a declared size; in JSON also if the project file says how they are written: "
        "`raw: {options: {decimals: precise}}`, for base64, of a declared size of at most 35 digits (with a scale: precision "
        "plus scale of at most 36), or `string`"
    )


def _date(kind: Scalar, found: Found, hints: Hints) -> Expr:
    if found.is_of(pa.types.is_date):
        return Days(found.value)
    found.whole  # noqa: B018 - raises for another type
    return found.as_type(Physical.INT32)


def _instant(kind: Scalar, found: Found, hints: Hints) -> Expr:
    if found.kind is not None and pa.types.is_timestamp(found.kind):
        return Micros(found.value, InstantForm.LOCAL if found.kind.tz is None else InstantForm.ZONED)
    if kind.kind is Kind.INSTANT and found.is_text:
        return Micros(found.text, InstantForm.TEXT)
    unit, number = stated_unit(kind.kind, hints), found.whole
    if unit is Unit.NANOS:
        raise NotInSqlError("nanoseconds, which SQL would round")
    if unit is not None:
        return number * 1000 if unit is Unit.MILLIS else number
    is_millis = either(
        _between(number, range(1 - LEAST_MICROS, LEAST_MICROS)),
        _between(number, LAST_DAY_IN_MILLIS),
        Call(Op.IN, (number, *map(Lit, sorted(INFINITIES_IN_MILLIS)))),
    )
    # no branch for texts in ISO 8601: DuckDB 2.0 computes a cast also for rows of another branch, and fails there
    return Case(((is_millis, number * 1000),), number)


def _millis(kind: Scalar, found: Found, hints: Hints) -> Expr:
    if found.kind is not None and pa.types.is_timestamp(found.kind):
        return _instant(kind, found, hints) // 1000
    if stated_unit(Kind.TIMESTAMP, hints) is Unit.MILLIS:
        return found.whole
    raise NotInSqlError("nothing says that its numbers count milliseconds")


def _time(kind: Scalar, found: Found, hints: Hints) -> Expr:
    unit, number = stated_unit(Kind.TIME, hints), found.whole
    if unit is not None:
        return number * unit.nanos if unit.nanos > 1 else number
    by_size = ((A_DAY_IN_MILLIS, Unit.MILLIS), (LONGEST_TIME_IN_MICROS, Unit.MICROS))
    branches = tuple((_between(number, range(-most, most + 1)), number * unit.nanos) for most, unit in by_size)
    return Case(branches, number)


def _between(number: Expr, limits: range) -> Expr:
    return Call(Op.BETWEEN, (number, Lit(limits.start), Lit(limits.stop - 1)))


def _is_string(kind: pa.DataType) -> bool:
    return is_text(kind) and not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind)


_ARROW = {
    Physical.BOOLEAN: pa.bool_(),
    Physical.INT8: pa.int8(),
    Physical.INT16: pa.int16(),
    Physical.INT32: pa.int32(),
    Physical.INT64: pa.int64(),
    Physical.FLOAT: pa.float32(),
    Physical.DOUBLE: pa.float64(),
}
"""The Arrow types of stored types that need no cast."""
_STORED = {
    Kind.TINYINT: Physical.INT8,
    Kind.SMALLINT: Physical.INT16,
    **dict.fromkeys((Kind.INT, Kind.DATE), Physical.INT32),
    **dict.fromkeys((Kind.BIGINT, Kind.DATETIME, Kind.INSTANT, Kind.TIMESTAMP, Kind.TIME), Physical.INT64),
    Kind.BOOLEAN: Physical.BOOLEAN,
    Kind.FLOAT: Physical.FLOAT,
    Kind.DOUBLE: Physical.DOUBLE,
    Kind.BLOB: Physical.BYTES,
}
"""The stored types of kinds that are not stored as text."""
_READERS: dict[Kind, Callable[[Scalar, Found, Hints], Expr]] = {
    Kind.TINYINT: _integer(Physical.INT8),
    Kind.SMALLINT: _integer(Physical.INT16),
    Kind.INT: _integer(Physical.INT32),
    Kind.BIGINT: _integer(Physical.INT64),
    **dict.fromkeys((Kind.TEXT, Kind.ASCII, Kind.JSON), _text),
    **dict.fromkeys((Kind.UUID, Kind.TIMEUUID), _uuid),
    Kind.BOOLEAN: _boolean,
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), _floating),
    Kind.BLOB: _blob,
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    **dict.fromkeys((Kind.DATETIME, Kind.INSTANT), _instant),
    Kind.TIMESTAMP: _millis,
    Kind.TIME: _time,
}
