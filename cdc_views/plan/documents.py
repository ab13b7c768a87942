"""Expressions over the events of a table that somebody else lands: JSON objects, and values that become stored ones.

Each fails the query for a value that it cannot read, and never gives null or another value for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdc_views.plan.expr import Expr


class Physical(str, Enum):
    """The stored types to which a text, a number or bytes are cast."""

    TEXT = "text"
    BYTES = "bytes"
    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    """A number with digits after the point, of any size."""
    POSITION = "position"
    """A whole number of 38 digits: a position in a log (rule S2)."""


@dataclass(frozen=True, slots=True)
class Utf8(Expr):
    """Bytes as the text that they hold; fails for bytes that are no UTF-8."""

    value: Expr


@dataclass(frozen=True, slots=True)
class JsonObject(Expr):
    """A text as a JSON object; null for null. Fails for a text that is not JSON, or is null if `is_lenient`."""

    text: Expr
    is_lenient: bool = False


@dataclass(frozen=True, slots=True)
class Member(Expr):
    """A member of a JSON object as text: a string's characters, else its JSON. Null if it is absent or null.

    `is_scalar`: it is no object and no array, or an engine may show null for it.
    """

    of: Expr
    name: str
    is_scalar: bool = True


@dataclass(frozen=True, slots=True)
class ObjectMember(Expr):
    """A member of a JSON object that is an object itself; it has no members if it is absent or null."""

    of: Expr
    name: str


@dataclass(frozen=True, slots=True)
class HasMember(Expr):
    """Whether a JSON object has a member, which may be null."""

    of: Expr
    name: str


@dataclass(frozen=True, slots=True)
class As(Expr):
    """A value as a stored type; fails if it is none."""

    value: Expr
    type: Physical


@dataclass(frozen=True, slots=True)
class AsDecimal(Expr):
    """A number as DECIMAL(precision, scale), which it fits."""

    value: Expr
    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Base64(Expr):
    """The bytes that a text in base64 means; fails for a text that is none."""

    text: Expr


@dataclass(frozen=True, slots=True)
class HexOfBase64(Expr):
    """The hex digits of the bytes that a text in base64 means; fails for a text that is none."""

    text: Expr


MOST_BYTES = 15
"""Of an `Unscaled`: the powers of two that it adds up fit 38 digits."""


@dataclass(frozen=True, slots=True)
class Unscaled(Expr):
    """The whole number of hex digits, big-endian two's complement; null for null.

    Fails for no digits, and for more than `MOST_BYTES`; a number of more than `precision` digits may fail, too.
    """

    digits: Expr
    precision: int


@dataclass(frozen=True, slots=True)
class Differs(Expr):
    """Whether two values differ; null differs from a value."""

    left: Expr
    right: Expr


class InstantForm(str, Enum):
    """The forms of an instant in an external table."""

    ZONED = "zoned"
    """A timestamp that is an instant."""
    LOCAL = "local"
    """A timestamp without a zone, which is in UTC."""
    TEXT = "text"
    """ISO 8601 with a zone."""


@dataclass(frozen=True, slots=True)
class Micros(Expr):
    """The µs since the epoch of an instant; fails for a text that is none."""

    value: Expr
    clock: InstantForm


@dataclass(frozen=True, slots=True)
class Days(Expr):
    """The days since the epoch of a date."""

    value: Expr


@dataclass(frozen=True, slots=True)
class ArraySize(Expr):
    """The number of an array's elements; 0 for a null array."""

    array: Expr


@dataclass(frozen=True, slots=True)
class ItemAt(Expr):
    """An element of an array, from 0; null if the array is shorter."""

    array: Expr
    index: int


@dataclass(frozen=True, slots=True)
class LowerCase(Expr):
    """A text in lower case."""

    value: Expr


@dataclass(frozen=True, slots=True)
class LastNumber(Expr):
    """The whole number after the last dot of a text, as `binlog.000003` has it; fails without one."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Failure(Expr):
    """No value: the query fails with `message` when it needs one; `type` is the type of the value that is missing."""

    message: str
    type: Physical
