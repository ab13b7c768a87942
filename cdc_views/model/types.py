"""Logical types of columns, independent of any engine, and the native Python values that oracle, codecs and printers use:

============================  ==================================================================
type                          native value
============================  ==================================================================
tinyint … bigint, varint      int
float, double                 float (float: rounded to 32 bits)
boolean                       bool
text, ascii, json             str
blob                          bytes
decimal                       decimal.Decimal, scale kept (1.0 is not 1.00)
uuid, timeuuid                uuid.UUID
inet                          str, IPv6 uncompressed as Java prints it (``0:0:0:0:0:0:0:1``)
timestamp                     int, milliseconds since the epoch
datetime, instant             int, microseconds since the epoch (relational; instant: with a zone)
date                          int, days since the epoch
time                          int, nanoseconds of the day (relational TIME may pass a day or be negative)
duration                      (months, days, nanoseconds)
list, set, vector             tuple (a set's sorted by rule K2)
map                           tuple of (key, value), sorted by rule K2
tuple, user type              tuple, a missing field None, in declared order
any but text                  `EMPTY`, the serialized value of 0 bytes, which is not null
============================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum


class _Empty(Enum):
    """The type of `EMPTY`: an enum, so that copies and pickles keep it one object."""

    EMPTY = "empty"

    def __repr__(self) -> str:
        return "EMPTY"


EMPTY = _Empty.EMPTY
"""A value of 0 bytes whose type is not text: legal in Cassandra, distinct from null, printed as `""`."""


class Kind(str, Enum):
    """The scalar types; the value is CQL's name, or our own name for a relational type."""

    ASCII = "ascii"
    BIGINT = "bigint"
    BLOB = "blob"
    BOOLEAN = "boolean"
    COUNTER = "counter"
    DATE = "date"
    DECIMAL = "decimal"
    DOUBLE = "double"
    DURATION = "duration"
    FLOAT = "float"
    INET = "inet"
    INT = "int"
    SMALLINT = "smallint"
    TEXT = "text"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMEUUID = "timeuuid"
    TINYINT = "tinyint"
    UUID = "uuid"
    VARINT = "varint"
    # of relational sources only
    DATETIME = "datetime"
    INSTANT = "instant"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogicalType:
    """The base of the types below. `str` gives the type as CQL writes it."""

    @property
    def is_multicell(self) -> bool:
        """Whether a column stores one cell per element: its type is a collection or user type that is not frozen."""
        return False

    def frozen_form(self) -> LogicalType:
        """Return the same type, stored as one cell."""
        return self


@dataclass(frozen=True, slots=True)
class Scalar(LogicalType):
    """A type without parts. `scale` and `precision` come from a relational `numeric(p, s)`. None means that each value has its
    own; `precision` is also None if it is not declared.
    """

    kind: Kind
    scale: int | None = None
    precision: int | None = field(default=None, repr=False)  # not in `repr`, by which states identify key types

    def __str__(self) -> str:
        return self.kind.value

    @property
    def decimal_size(self) -> tuple[int, int] | None:
        """The (precision, scale) of the DECIMAL that views show; None if they show text or another type. A scale below 0 counts
        zeros before the point, a scale above the precision counts zeros after it.

        >>> Scalar(Kind.DECIMAL, 2, 12).decimal_size, Scalar(Kind.DECIMAL, -2, 3).decimal_size, Scalar(Kind.DECIMAL).decimal_size
        ((12, 2), (5, 0), None)
        """
        if self.kind is not Kind.DECIMAL or self.scale is None or self.precision is None:
            return None
        precision, scale = max(self.precision - min(self.scale, 0), self.scale), max(self.scale, 0)
        return (precision, scale) if 0 < precision <= MOST_DIGITS and scale <= MOST_SCALE else None


_FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class _Collection(LogicalType):
    """A type that is frozen (one cell) or multi-cell; nested ones are always frozen."""

    @property
    def is_multicell(self) -> bool:
        # not a field of this base: subclasses add required fields, which must come before one with a default
        return not getattr(self, _FROZEN)

    def frozen_form(self) -> LogicalType:
        changed: LogicalType = replace(self, **{_FROZEN: True})
        return changed

    def _wrap(self, text: str) -> str:
        return text if self.is_multicell else f"frozen<{text}>"


@dataclass(frozen=True, slots=True)
class SequenceOf(LogicalType):
    """A list, a set or a vector: ordered values of one type."""

    element: LogicalType


@dataclass(frozen=True, slots=True)
class ListOf(_Collection, SequenceOf):
    """`list<element>`; multi-cell elements are ordered by their timeuuid path."""

    frozen: bool = True

    def __str__(self) -> str:
        return self._wrap(f"list<{self.element}>")


@dataclass(frozen=True, slots=True)
class SetOf(_Collection, SequenceOf):
    """`set<element>`, sorted by rule K2."""

    frozen: bool = True

    def __str__(self) -> str:
        return self._wrap(f"set<{self.element}>")


@dataclass(frozen=True, slots=True)
class MapOf(_Collection):
    """`map<key, value>`, sorted by key by rule K2."""

    key: LogicalType
    value: LogicalType
    frozen: bool = True

    def __str__(self) -> str:
        return self._wrap(f"map<{self.key}, {self.value}>")


@dataclass(frozen=True, slots=True)
class RecordOf(LogicalType):
    """A tuple or a user type: one value for each field."""

    @property
    def field_types(self) -> tuple[LogicalType, ...]:
        """The fields' types, in declared order."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Udt(_Collection, RecordOf):
    """A user type; `fields` are (name, type) in declared order, names unquoted and case-sensitive."""

    keyspace: str
    name: str
    fields: tuple[tuple[str, LogicalType], ...]
    frozen: bool = True

    def __str__(self) -> str:
        plain = self.name.isidentifier() and self.name == self.name.lower() and self.name not in _CQL_TYPE_WORDS
        quoted = self.name if plain else '"' + self.name.replace('"', '""') + '"'
        return self._wrap(quoted)

    @property
    def field_types(self) -> tuple[LogicalType, ...]:
        return tuple([kind for _, kind in self.fields])

    def field_type(self, name: str) -> LogicalType | None:
        """Return the type of the field called `name`; None if there is none."""
        return next((kind for field, kind in self.fields if field == name), None)


@dataclass(frozen=True, slots=True)
class TupleOf(RecordOf):
    """`tuple<…>`: always one cell."""

    fields: tuple[LogicalType, ...]

    @property
    def field_types(self) -> tuple[LogicalType, ...]:
        return self.fields

    def __str__(self) -> str:
        return f"frozen<tuple<{', '.join(map(str, self.fields))}>>"


@dataclass(frozen=True, slots=True)
class VectorOf(SequenceOf):
    """`vector<element, size>`: always one cell, no null elements."""

    size: int

    def __str__(self) -> str:
        return f"vector<{self.element}, {self.size}>"


def children(kind: LogicalType) -> Iterator[LogicalType]:
    """Yield the types directly inside `kind`, in declared order; nothing for a scalar."""
    match kind:
        case SequenceOf():
            yield kind.element
        case MapOf():
            yield kind.key
            yield kind.value
        case RecordOf():
            yield from kind.field_types


def contains(kind: LogicalType, wanted: Kind) -> bool:
    """Whether the scalar `wanted` occurs in `kind` at any depth.

    >>> prices = MapOf(Scalar(Kind.TEXT), Scalar(Kind.DECIMAL), frozen=False)
    >>> str(prices), prices.is_multicell, contains(prices, Kind.DECIMAL)
    ('map<text, decimal>', True, True)
    """
    if isinstance(kind, Scalar):
        return kind.kind is wanted
    return any(contains(child, wanted) for child in children(kind))


_CQL_TYPE_WORDS = frozenset({kind.value for kind in Kind} | {"list", "set", "map", "tuple", "frozen", "vector", "varchar"})
"""Names that a user type must quote, since CQL has types of these names."""

MOST_DIGITS = 38  # the most digits of a decimal in DuckDB, Spark and Arrow
MOST_SCALE = 37  # the most digits after the point of a decimal in a view; views show longer ones as text

INTEGER_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64, Kind.COUNTER: 64}  # fixed-width integers

STORED_BITS = INTEGER_BITS | {Kind.TIMESTAMP: 64, Kind.TIME: 64, Kind.DATETIME: 64, Kind.INSTANT: 64}
"""Bits of the kinds that Cassandra stores as signed integers; a date is unsigned."""

TEXT_KINDS = frozenset({Kind.TEXT, Kind.ASCII, Kind.JSON})
"""Kinds with native values of type str; their 0-byte value is the empty string, not `EMPTY`."""

TEXT_STORED = frozenset({Kind.DECIMAL, Kind.VARINT, Kind.UUID, Kind.TIMEUUID, Kind.INET, Kind.DURATION})
"""Kinds that raw tables store as text, in the form that `query` prints."""


def is_reshaped(kind: Scalar) -> bool:
    """Whether views show another type of `kind` than raw tables store, which is an integer (ms, µs, ns, days) or a text."""
    is_time = kind.kind in {Kind.TIMESTAMP, Kind.DATE, Kind.TIME, Kind.DATETIME, Kind.INSTANT}
    return is_time or kind.decimal_size is not None


def is_text(kind: LogicalType) -> bool:
    """Whether a 0-byte value of `kind` is the empty string or, for blob, empty bytes."""
    return isinstance(kind, Scalar) and (kind.kind in TEXT_KINDS or kind.kind is Kind.BLOB)


def carries_order_bytes(kind: LogicalType) -> bool:
    """Whether cells of `kind` also store their serialized bytes (rule C3). For other kinds, the stored value gives the order of
    the bytes: integers and timestamps by `(v < 0, v)`; text, blob, uuid, timeuuid, boolean, date and time by the value itself.
    """
    if not isinstance(kind, Scalar):
        return True
    return kind.kind in {Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.VARINT, Kind.INET, Kind.DURATION}


def carries_comparable(kind: LogicalType) -> bool:
    """Whether a *key* of `kind` also stores a comparable (rules K1, K2): SQL's `=` and `<` differ from Cassandra's comparator."""
    if not isinstance(kind, Scalar):
        return True
    return kind.kind in TEXT_STORED or kind.kind in {Kind.FLOAT, Kind.DOUBLE}


def reads_from_bytes(kind: LogicalType) -> bool:
    """Whether exact reads take a value of `kind` from its serialized bytes, so that keys and paths store these too: engines'
    nested types lose values of 0 bytes, and DuckDB's `max` of a struct turns -0.0 into 0.0.
    """
    return not isinstance(kind, Scalar) or kind.kind in {Kind.FLOAT, Kind.DOUBLE}
