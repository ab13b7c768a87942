"""Scalar and aggregate expressions of a plan: small, immutable, free of any dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Op(str, Enum):
    """Operators of a `Call`. Comparisons with null give null unless a note below states otherwise."""

    AND = "and"
    OR = "or"
    NOT = "not"
    EQ = "="
    SAME = "is not distinct from"
    """Equal, or both null; never null."""
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IS_NULL = "is null"
    BETWEEN = "between"
    """Whether the first argument is at least the second and at most the third."""
    IN = "in"
    LIKE = "like"
    """A text like a pattern of SQL, as `run%`."""
    ADD = "+"
    MUL = "*"
    DIV = "//"
    """The whole quotient; engines round it differently for an argument below 0."""
    COALESCE = "coalesce"
    CONCAT = "||"
    GREATEST = "greatest"
    """The largest argument that is not null; null if all are."""
    POSITION = "position"
    """The argument, a write time, in the type that the engine compares fastest."""
    NOW = "now"
    """Whole UTC seconds since the epoch when the query runs (rule M3)."""


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of expressions. Python's operators build a `Call` (a number becomes a literal), and brackets build a `Field`.

    >>> (col("cell")["rank"] < 0) & ~col("x") == Call(Op.AND, (Call(Op.LT, (Field(col("cell"), "rank"), Lit(0))), ~col("x")))
    True
    """

    def children(self) -> Iterator[Expr]:
        """Yield the expressions directly inside this one."""
        for name in self.__dataclass_fields__:
            yield from expressions_in(getattr(self, name))

    def __getitem__(self, name: str) -> Expr:
        return Field(self, name)

    def __and__(self, other: Expr) -> Call:
        return Call(Op.AND, (self, other))

    def __invert__(self) -> Call:
        return Call(Op.NOT, (self,))

    def __lt__(self, other: Expr | int) -> Call:
        return Call(Op.LT, (self, literal(other)))

    def __le__(self, other: Expr | int) -> Call:
        return Call(Op.LE, (self, literal(other)))

    def __gt__(self, other: Expr | int) -> Call:
        return Call(Op.GT, (self, literal(other)))

    def __ge__(self, other: Expr | int) -> Call:
        return Call(Op.GE, (self, literal(other)))

    def __add__(self, other: Expr | int) -> Call:
        return Call(Op.ADD, (self, literal(other)))

    def __mul__(self, other: Expr | int) -> Call:
        return Call(Op.MUL, (self, literal(other)))

    def __floordiv__(self, other: Expr | int) -> Call:
        return Call(Op.DIV, (self, literal(other)))


def expressions_in(value: object) -> Iterator[Expr]:
    """Yield the expressions in a field's value, which may be nested tuples."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from expressions_in(item)


@dataclass(frozen=True, slots=True)
class Col(Expr):
    """A column of the node's source; `of` is the side (`l` or `r`) inside a join."""

    name: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Item(Expr):
    """The current element of the enclosing `Keep` or `Each`."""


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """A field of a struct; null if the struct is."""

    base: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Lit(Expr):
    """A constant."""

    value: int | str | bool | None


TRUE, FALSE = Lit(value=True), Lit(value=False)


@dataclass(frozen=True, slots=True)
class Moment(Expr):
    """A constant instant, in µs since the epoch."""

    micros: int


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An operator over arguments."""

    op: Op
    args: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Case(Expr):
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr = Lit(None)


@dataclass(frozen=True, slots=True)
class Struct(Expr):
    """A struct of named fields, never null itself; compared field by field.

    `stored` is a struct that exists already and has all parts as fields, but perhaps in another order. `is_alike`: it has the
    parts alone, so that the two compare alike if their order is the same.
    """

    parts: tuple[tuple[str, Expr], ...]
    stored: Expr | None = None
    is_alike: bool = False

    def __getitem__(self, name: str) -> Expr:
        """Return the part itself, which no engine has to take out of a struct."""
        return dict(self.parts).get(name) or Field(self, name)


@dataclass(frozen=True, slots=True)
class Keep(Expr):
    """The elements of an array for which `where` (over `Item()`) is true; null for a null array."""

    array: Expr
    where: Expr


@dataclass(frozen=True, slots=True)
class Each(Expr):
    """An array with `value` (over `Item()`) computed for each element; null for a null array."""

    array: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Greatest(Expr):
    """The largest element of an array; null for a null or empty array."""

    array: Expr


@dataclass(frozen=True, slots=True)
class IsEmpty(Expr):
    """Whether an array is null or has no elements."""

    array: Expr


@dataclass(frozen=True, slots=True)
class Friendly(Expr):
    """A stored value in its friendly type (`storage.friendly`); `kind` is a `types.LogicalType`."""

    base: Expr
    kind: Any


@dataclass(frozen=True, slots=True)
class MapFrom(Expr):
    """A map built from an array of struct(key, value)."""

    entries: Expr


class Fold(str, Enum):
    """How an aggregate folds a group; all skip nulls. COLLECT gives an array of the structs, sorted by their first field."""

    MAX = "max"
    MIN = "min"
    ANY = "any"
    COLLECT = "collect"
    TOTAL = "total"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Agg(Expr):
    """A fold of `value` over the group's rows for which `where` is true (None: all rows)."""

    fold: Fold
    value: Expr
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class Newest(Expr):
    """The `value`, which may be null, of the group's row with the largest `by`, of those for which `where` is true (None: all).

    Null without such a row. Rows with one `by` are copies of one event.
    """

    value: Expr
    by: Expr
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class RowNumber(Expr):
    """The number of each row in its partition, from 1, by `order`: every part descending, nulls last."""

    partition: tuple[Expr, ...]
    order: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class AnyOver(Expr):
    """A window: whether `value` is true for any row of the partition."""

    value: Expr
    partition: tuple[Expr, ...]


class Window(str, Enum):
    """Functions of an `Over`. BEFORE and AFTER give the value of the previous or next row; null without such a row."""

    LARGEST = "largest"
    SMALLEST = "smallest"
    TOTAL = "total"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Over(Expr):
    """A value computed over the row's partition, whose rows ascend by `order`.

    LARGEST, SMALLEST and TOTAL skip nulls. They read the rows up to this one and its equals in `order`; without one, all rows.
    """

    what: Window
    value: Expr
    partition: tuple[Expr, ...]
    order: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Gathered(Expr):
    """An array of the distinct `values` and elements of `arrays`, in no order, without nulls."""

    values: tuple[Expr, ...]
    arrays: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Bucket(Expr):
    """The place of a partition in a state: the text `prefix`, then the first `digits` binary digits of the keys' digest.

    Each digit is the lowest bit of one hex digit of an MD5, which engines return as text. `keys` are (value, whether it is
    bytes); their texts are joined with `|`, bytes as upper-case hex digits. `engines.buckets.digest` does the same in Python.
    """

    keys: tuple[tuple[Expr, bool], ...]
    prefix: Expr
    digits: int


@dataclass(frozen=True, slots=True)
class UserSql(Expr):
    """A user's boolean expression: a sqlglot tree in DuckDB's dialect over the columns of the node."""

    tree: Any


Named = tuple[tuple[str, Expr], ...]
"""Output columns: (name, expression) in order."""


def col(name: str, of: str = "") -> Col:
    """Shorthand for `Col`."""
    return Col(name, of)


def cols(names: Iterable[str], of: str = "") -> Named:
    """Return columns under their own names, inside a join those of one side."""
    return tuple((name, Col(name, of)) for name in names)


def literal(value: Expr | int | str) -> Expr:
    """Return a number or text as a constant, and an expression as it is."""
    return value if isinstance(value, Expr) else Lit(value)


def both(*conditions: Expr | None) -> Expr | None:
    """Return the conjunction of the conditions that are not None; None without any."""
    parts = (c.args if isinstance(c, Call) and c.op is Op.AND else (c,) for c in conditions if c is not None)
    given = tuple(part for each in parts for part in each)
    return given[0] if len(given) == 1 else Call(Op.AND, given) if given else None


def either(*conditions: Expr) -> Expr:
    """Return the disjunction; false without conditions."""
    parts = (c.args if isinstance(c, Call) and c.op is Op.OR else (c,) for c in conditions)
    given = tuple(part for each in parts for part in each)
    return given[0] if len(given) == 1 else Call(Op.OR, given) if given else FALSE


def largest(*values: Expr) -> Expr:
    """Return the largest value that is not null; null without one."""
    return values[0] if len(values) == 1 else Call(Op.GREATEST, values) if values else Lit(None)


def equal(value: Expr, other: Expr | int | str) -> Expr:
    """Return `value = other`."""
    return Call(Op.EQ, (value, literal(other)))


def coalesce(*values: Expr) -> Expr:
    """Return the first value that is not null."""
    return Call(Op.COALESCE, values)


def is_null(value: Expr) -> Expr:
    """Return `value IS NULL`."""
    return Call(Op.IS_NULL, (value,))


def not_null(value: Expr) -> Expr:
    """Return `value IS NOT NULL`."""
    return ~is_null(value)


def when(condition: Expr, value: Expr) -> Expr:
    """Return `value` if `condition` is true, else null."""
    return Case(((condition, value),))


def any_of(names: Iterable[str]) -> Expr:
    """Return whether any of the columns is not null."""
    return either(*(not_null(col(name)) for name in names))


def maxima(*names: str) -> Named:
    """Return the largest value of each column in a group, under its name."""
    return tuple((name, Agg(Fold.MAX, col(name))) for name in names)


def lists(*names: str) -> Named:
    """Return the values of each column in a group, without nulls, under its name."""
    return tuple((name, Agg(Fold.COLLECT, col(name), not_null(col(name)))) for name in names)
