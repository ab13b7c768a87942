"""The plan of a commit of a serving table, and the types of its columns, for every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from cdc_views.engines.base import Read, Sources, ValueForm, ask_of
from cdc_views.model.naming import held_name, physical_name
from cdc_views.model.schema import Column
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.plan.build import output_names
from cdc_views.plan.compact import PART
from cdc_views.plan.nodes import Node
from cdc_views.plan.representation import is_mappable
from cdc_views.plan.rewrites import lowered
from cdc_views.plan.serving import CHANGES_AT, serving_names, serving_rows
from cdc_views.rules.codec.physical import arrow_type
from cdc_views.sql.dialects import Dialect
from cdc_views.storage.friendly import override_type
from cdc_views.storage.relation import Relation
from cdc_views.storage.shown_relation import casts_of

NOTE = "cdc-views"
"""The key of a commit's note in its metadata."""
_SHOWN = {
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.INSTANT: pa.timestamp("us", tz="UTC"),
    Kind.DATETIME: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.string(),
}
"""Kinds whose shown type differs from their stored type."""


@dataclass(frozen=True, slots=True)
class ServingWrite:
    """One commit of a serving table, which replaces the rows of some or all buckets.

    Attributes:
        sources: The facts of a state, at least the facts of the buckets.
        as_of: The clock of rule C4, epoch seconds.
        target: The location of the table, which exists.
        version: The version of the table that this commit builds on.
        digits: The number of binary digits in a bucket's name.
        parts: The buckets; empty for the whole table, whose columns are replaced too.
        transaction: The name and number that the commit records.
        note: A note in the commit for the next run.
    """

    sources: Sources
    as_of: int
    target: str
    version: int
    digits: int
    parts: tuple[str, ...]
    transaction: tuple[str, int]
    note: str

    @property
    def relation(self) -> Relation:
        """The relation of the facts."""
        return self.sources.raw.relation

    @property
    def replaced(self) -> str | None:
        """The condition on the rows to replace; None for all rows."""
        return f"{PART} IN ('" + "', '".join(self.parts) + "')" if self.parts else None


def plan_of(write: ServingWrite) -> Node:
    """Return the lowered plan of the rows."""
    split = write.sources.split()
    rows = serving_rows(write.relation, as_of=write.as_of, digits=write.digits, parts=write.parts, split=split)
    return lowered(rows)


def order_of(relation: Relation) -> tuple[str, ...]:
    """Return the sort columns of a serving table's rows."""
    shown = serving_names(relation.schema)
    return (PART, *(shown[column.name] for column in relation.schema.row_key))


_DialectT = TypeVar("_DialectT", bound=Dialect)


def for_form(dialect: _DialectT, form: ValueForm) -> _DialectT:
    """Return the dialect, for plans of rows in a form."""
    dialect.holds_any_field = form is not ValueForm.HELD
    return dialect


def serving_schema(relation: Relation) -> pa.Schema:
    """Return the columns of a serving table: the view's columns and types, then two of our own."""
    return pa.schema([*_held(relation).values(), pa.field(CHANGES_AT, pa.int64()), pa.field(PART, pa.string())])


def _held(relation: Relation) -> dict[str, pa.Field]:
    """The column of a serving table for each column of the view, by user name."""
    shown = serving_names(relation.schema)
    return {name: pa.field(shown[name], kind) for name, kind in column_types(relation, field_name=held_name).items()}


def held_fields(read: Read) -> list[tuple[str, pa.Field]]:
    """Return, for each column of a read in form `HELD`, the column of its plan and the one to write."""
    held = _held(read.raw.relation)
    return [(output, held[name]) for name, output in output_names(ask_of(read))]


def held_schema(read: Read) -> pa.Schema:
    """Return the columns of the rows of a read in form `HELD`."""
    return pa.schema([field for _, field in held_fields(read)])


def column_types(relation: Relation, *, field_name: Callable[[str], str]) -> dict[str, pa.DataType]:
    """Return the Arrow type of each column of the view, by user name; `field_name` converts the fields of frozen user types."""
    casts = casts_of(relation)
    return {
        column.name: override_type(casts[column.name]) if column.name in casts else _column_type(column, field_name)
        for column in relation.shown.columns
    }


def _column_type(column: Column, field_name: Callable[[str], str]) -> pa.DataType:
    kind = column.type
    if kind.is_multicell and isinstance(kind, MapOf) and is_mappable(kind.key):
        return pa.map_(_shown_type(kind.key, field_name), _shown_type(kind.value, field_name))
    if kind.is_multicell and isinstance(kind, Udt):
        return pa.struct([pa.field(physical_name(name), _shown_type(part, field_name)) for name, part in kind.fields])
    return _shown_type(kind, field_name)


def _shown_type(kind: LogicalType, field_name: Callable[[str], str]) -> pa.DataType:
    match kind:
        case Scalar():
            if kind.decimal_size is not None:
                return pa.decimal128(*kind.decimal_size)
            return _SHOWN.get(kind.kind) or arrow_type(kind)
        case ListOf() | SetOf() | VectorOf():
            return pa.list_(_shown_type(kind.element, field_name))
        case MapOf():
            sides = (("key", _shown_type(kind.key, field_name)), ("value", _shown_type(kind.value, field_name)))
            return pa.list_(pa.struct(sides))
        case TupleOf():
            return pa.struct([pa.field(f"f{i}", _shown_type(part, field_name)) for i, part in enumerate(kind.fields)])
        case Udt():
            return pa.struct([pa.field(field_name(name), _shown_type(part, field_name)) for name, part in kind.fields])
    raise TypeError(f"no shown type for {kind!r}")
