"""Rows of an answer → one row per bucket of keys: how many rows, and a sum of their hashes. Equal answers have equal sums.

A row's text has the exact forms of its columns, in order, each so that it cannot run into the next:

- a number or a boolean: its digits or word, then `;`. Bytes: upper-case hex digits, then `;`. A text: its length, `:`, the text.
- null: `~`, which none of these begins with. A cell: `~` without one, else `=` and its value.
- elements: `~` for null, else their texts in brackets. A multi-cell user type: `~`, else its fields in braces.

So two rows have one text only if they are the same: null is not the empty text, and values cannot move between columns. Every
type has such a text, the same in DuckDB and in Spark. A clustering key with several spellings (rule K1) counts by its comparable,
which all spellings share. Elements and map keys count as they are spelled: sums may differ where rows compare as equal, and who
compares looks at the rows then.

A row's hash is `PIECES` numbers of 32 bits, the first digits of the MD5 of its text. A bucket has the sum of each, not their XOR:
two equal rows do not cancel out. Answers that differ in a bucket have equal sums and counts there by a chance of 2⁻⁹⁶; with 2¹⁴
buckets, a comparison misses a difference once in 10²⁴ times at most. MD5 is no guard against one who makes values collide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, Role
from cdc_views.model.types import LogicalType, Udt, reads_from_bytes
from cdc_views.plan import names
from cdc_views.plan.build import Ask, Tells, build
from cdc_views.plan.compact import is_bytes, part_of
from cdc_views.plan.expr import Agg, Bucket, Call, Case, Each, Expr, Field, Fold, Item, Lit, Op, col, cols, is_null
from cdc_views.plan.nodes import Aggregate, Node, Select
from cdc_views.plan.parts import Parts
from cdc_views.plan.representation import exact_key, exact_name
from cdc_views.rules.codec.physical import arrow_type
from cdc_views.rules.oracle import may_be_spelled_otherwise, path_type
from cdc_views.storage.relation import Relation, element_value_type

PIECES = 3
BUCKET, COUNT = "_bucket", "_count"
SUMS = tuple(f"_sum_{number}" for number in range(PIECES))
_DIGEST = "_digest"


class Form(Enum):
    """How `Spelled` writes a value."""

    WORD = "a number or a boolean"
    TEXT = "a text"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Spelled(Expr):
    """The text of a value, which no other value has and no other value's text begins with; `~` for null."""

    value: Expr
    form: Form


@dataclass(frozen=True, slots=True)
class Joined(Expr):
    """Texts one after the other, none of which is null."""

    texts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class JoinedElements(Expr):
    """The texts of an array one after the other; empty for an empty array."""

    array: Expr


@dataclass(frozen=True, slots=True)
class Md5(Expr):
    """The MD5 of a text in UTF-8, as 32 lower-case hex digits."""

    text: Expr


@dataclass(frozen=True, slots=True)
class Piece(Expr):
    """A number of 32 bits: the hex digits `8 * number` and up of a `Md5`."""

    digest: Expr
    number: int


@dataclass(frozen=True, slots=True)
class Places:
    """Buckets: `of_partition` digits of the partition key's digest, then `of_row` digits of the row key's."""

    of_partition: int
    of_row: int = 0

    def of(self, relation: Relation) -> Expr:
        """Return a row's bucket, over columns of `Tells.IDENTITY`."""
        keys = tuple((col(names.identity(c)), is_bytes(c)) for c in relation.schema.row_key)
        return Bucket(keys, part_of(relation, prefix="", digits=self.of_partition), self.of_row)


@dataclass(frozen=True, slots=True)
class Within:
    """Only the rows in some buckets of `places`."""

    places: Places
    buckets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table's answer at `as_of` (epoch seconds), as in `plan.build.Ask`; `within` None: all."""

    relation: Relation
    as_of: int
    split: Parts | None = None
    within: Within | None = None

    def sums(self, places: Places) -> Node:
        """Return the plan of `BUCKET`, `COUNT` and `SUMS`: one row per bucket that has rows."""
        text = Joined(tuple(_column_text(column) for column in self.relation.schema.columns))
        hashed = self._selected("hashed_rows", ((BUCKET, places.of(self.relation)), (_DIGEST, Md5(text))))
        pieces = ((name, Agg(Fold.TOTAL, Piece(col(_DIGEST), number))) for number, name in enumerate(SUMS))
        return Aggregate("sums", "bucket", hashed, (BUCKET,), ((COUNT, Agg(Fold.COUNT, Lit(1))), *pieces))

    def exact(self) -> Node:
        """Return the plan of the rows in exact form, in no order, with the columns of `Tells.IDENTITY`."""
        return self._selected("rows_within", None)

    def _selected(self, name: str, columns: Iterable[tuple[str, Expr]] | None) -> Node:
        ask = Ask(self.relation, as_of=self.as_of, split=self.split, is_exact=True, tells=Tells.IDENTITY)
        shown, where = build(ask), None
        if self.within is not None:
            where = Call(Op.IN, (self.within.places.of(self.relation), *map(Lit, self.within.buckets)))
        return Select(name, "visible row", shown, tuple(columns or cols(shown.output())), where)


def _column_text(column: Column) -> Expr:
    if column.role is Role.CLUSTERING and may_be_spelled_otherwise(column):
        return Spelled(col(names.identity(column)), Form.BYTES)
    if column.is_key:
        return _leaf(col(exact_key(column)), column.type)
    cell, kind = col(exact_name(column.name)), column.type
    if not kind.is_multicell:
        return _cell(cell, kind)
    if isinstance(kind, Udt):
        fields = (_cell(cell[physical_name(name)], of) for name, of in kind.fields)
        return _or_null(cell, Joined((Lit("{"), *fields, Lit("}"))))
    path, value = _leaf(Item()["path"], path_type(kind)), element_value_type(kind)
    element = path if value is None else Joined((path, _leaf(Item()["v"], value)))
    return _or_null(cell, Joined((Lit("["), JoinedElements(Each(cell, element)), Lit("]"))))


def _cell(cell: Expr, kind: LogicalType) -> Expr:
    return _or_null(cell, Joined((Lit("="), _leaf(Field(cell, "v"), kind))))


def _or_null(value: Expr, text: Expr) -> Expr:
    return Case(((is_null(value), Lit("~")),), text)


def _leaf(value: Expr, kind: LogicalType) -> Spelled:
    """The text of a value as exact reads take it: its serialized bytes, or the stored value."""
    stored = pa.binary() if reads_from_bytes(kind) else arrow_type(kind)
    if pa.types.is_binary(stored):
        return Spelled(value, Form.BYTES)
    return Spelled(value, Form.TEXT if pa.types.is_string(stored) else Form.WORD)
