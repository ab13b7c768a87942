"""Trino 400 and newer. Facts marked *run*: Trino 435 (tests/unit/test_dialect_trino.py).

The raw table has the columns of `storage.relation` as ROW and ARRAY types, as the Delta and Iceberg connectors give them.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

from cdc_views.model.naming import physical_name
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.plan import expr as e
from cdc_views.sql.dialects.lineage import Built, shown_kinds
from cdc_views.sql.dialects.structs import StructDialect, ordered
from cdc_views.sql.dialects.times import DAYS, YEARS, time_text, within
from cdc_views.sql.dialects.writing import Sql, descending, function, identifier, is_present, number, only_if, text

_TYPES = {
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INT: "INT",
    Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "REAL",
    Kind.DOUBLE: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.BLOB: "VARBINARY",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP(3) WITH TIME ZONE",
    Kind.INSTANT: "TIMESTAMP(6) WITH TIME ZONE",
    Kind.DATETIME: "TIMESTAMP(6)",
}
"""Types of friendly values; the others are VARCHAR."""
_NESTED = ListOf | SetOf | MapOf | VectorOf | TupleOf | Udt


class Trino(StructDialect):
    """Winners by `element_at(array_agg(row ORDER BY … DESC) FILTER (WHERE …), 1)`.

    `max` and `max_by` take ROWs, but fail to compare two ROWs with a null inside, and a tombstone's value is null.
    Source: Trino, Comparison functions and operators; `RowType.comparison` ("null elements").
    """

    name = "trino"
    sqlglot_name = "trino"
    compares_structs = False
    """See the class."""
    greatest_skips_null = False
    """`greatest` returns null for any null argument (run)."""
    compares_comparables_alone = True
    """NaN = NaN is false, and comparing a ROW with a null inside fails (run)."""

    _functions: ClassVar = {
        "keep": "filter",
        "each": "transform",
        "array_max": "array_max",
        "array_size": "cardinality",
        "collect": "array_agg",
    }

    def now(self) -> Sql:
        # `to_unixtime` has fractions; a cast would round them
        return exp.cast(function("floor", function("to_unixtime", function("now"))), "BIGINT")

    def visit_field(self, node: e.Field, item: Sql | None) -> Sql:
        # rows that the plan builds have no names of fields
        base, origin = self.render(node.base, item), self.origin(node.base)
        if isinstance(origin, Built):
            return exp.Bracket(this=base, expressions=[number(origin.index(node.name) + 1)], offset=1)
        return exp.Dot(this=base, expression=identifier(node.name))

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        origin = self.origin(node.value)
        if node.fold is e.Fold.MIN and isinstance(kind := self.lineage.kind(origin), _NESTED):
            # the least text: `min` fails for a null inside, and no bytes become JSON (run)
            least = function("json_format", exp.cast(self._as_json(self.render(node.value), kind), "JSON"))
            return self.filtered(function("min_by", self.render(node.value), least), node)
        if node.fold is e.Fold.COLLECT or not isinstance(origin, Built):
            return super().visit_agg(node, item)
        order = [descending(self.render(part)) for part in origin.order(node.value)] if node.fold is e.Fold.MAX else []
        listed = self.filtered(function("array_agg", ordered(self.render(node.value), order)), node)
        return function("element_at", listed, number(1))

    def _as_json(self, base: Sql, kind: LogicalType) -> Sql:
        """A stored value of which each part has a cast to JSON."""
        match kind:
            case Scalar(Kind.BLOB):
                return function("to_hex", base)
            case ListOf() | SetOf() | VectorOf():
                return self.each(base, lambda item: self._as_json(item, kind.element))
            case MapOf():
                return self.each(base, lambda item: self._parts(item, [("key", kind.key), ("value", kind.value)]))
            case TupleOf():
                return self._parts(base, [(f"f{i}", part) for i, part in enumerate(kind.fields)])
            case Udt():
                return self._parts(base, [(physical_name(name), part) for name, part in kind.fields])
        return base

    def _parts(self, base: Sql, fields: list[tuple[str, LogicalType]]) -> Sql:
        places = [(exp.Dot(this=base.copy(), expression=identifier(name)), kind) for name, kind in fields]
        return function("ROW", *(self._as_json(place, kind) for place, kind in places))

    def visit_struct(self, node: e.Struct, item: Sql | None) -> Sql:
        # a shown row has names of fields
        parts, kinds = [self.render(part, item) for _, part in node.parts], shown_kinds(node)
        return _named_row(parts, kinds) if kinds is not None else function("ROW", *parts)

    def _friendly_struct(self, base: Sql, parts: list[tuple[str, str, LogicalType]]) -> Sql:
        fields = [self.friendly(exp.Dot(this=base.copy(), expression=identifier(at)), kind) for _, at, kind in parts]
        return only_if(is_present(base.copy()), _named_row(fields, [(name, kind) for name, _, kind in parts]))

    def greatest(self, args: list[Sql]) -> Sql:
        return self.array_max(self.keep(exp.Array(expressions=args), is_present))

    def explode(self, array: Sql, *, alias: str) -> tuple[Sql | None, Sql | None]:
        # UNNEST would split a row into its fields, so wrap it in a row. Source: Trino, UNNEST
        boxed = self.each(array, lambda each: function("ROW", each))
        columns = exp.TableAlias(this=identifier("_elements"), columns=[identifier(alias)])
        return exp.column(identifier(alias)), exp.Unnest(expressions=[boxed], alias=columns)

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Times become text; null outside the years 1 to 9999. Source: Trino, Data types, Date and time."""
        match kind:
            case Kind.TIMESTAMP:
                return within(base, YEARS, _instant(base, 10**6, _TYPES[kind]), scale=1000)
            case Kind.INSTANT:
                return within(base, YEARS, _instant(base, 10**3, _TYPES[kind]), scale=10**6)
            case Kind.DATETIME:
                utc = exp.AtTimeZone(this=_instant(base, 10**3, _TYPES[Kind.INSTANT]), zone=text("UTC"))
                return within(base, YEARS, exp.cast(utc, _TYPES[kind]), scale=10**6)
            case Kind.DATE:
                epoch = exp.cast(text("1970-01-01"), "DATE")
                return within(base, DAYS, function("date_add", text("day"), base.copy(), epoch))
            case Kind.TIME:
                return _time_text(base)
        return base


def type_of(kind: LogicalType) -> exp.DataType:
    """Return the type of friendly values of `kind`."""
    match kind:
        case Scalar() if kind.decimal_size is not None:
            return exp.DataType.build("DECIMAL({}, {})".format(*kind.decimal_size))
        case Scalar():
            return exp.DataType.build(_TYPES.get(kind.kind, "VARCHAR"), dialect="trino")
        case ListOf() | SetOf() | VectorOf():
            return _nested(exp.DType.ARRAY, [type_of(kind.element)])
        case MapOf():
            return _nested(exp.DType.ARRAY, [_row_type([("key", kind.key), ("value", kind.value)])])
        case TupleOf():
            return _row_type([(f"f{i}", part) for i, part in enumerate(kind.fields)])
        case Udt():
            return _row_type(list(kind.fields))
    raise TypeError(kind)


def _nested(kind: exp.DType, parts: list[exp.Expression]) -> exp.DataType:
    return exp.DataType(this=kind, expressions=parts, nested=True)


def _row_type(parts: list[tuple[str, LogicalType]]) -> exp.DataType:
    fields: list[exp.Expression] = [exp.ColumnDef(this=identifier(name), kind=type_of(kind)) for name, kind in parts]
    return _nested(exp.DType.STRUCT, fields)


def _named_row(values: list[Sql], parts: list[tuple[str, LogicalType]]) -> Sql:
    return exp.Cast(this=function("ROW", *values), to=_row_type(parts))


def _instant(base: Sql, nanos: int, kind: str) -> Sql:
    """`from_unixtime_nanos` of a decimal: a bigint of ns ends in 2262, and a double rounds."""
    wide = exp.cast(base.copy(), "DECIMAL(38, 0)")
    exact = function("from_unixtime_nanos", exp.Mul(this=wide, expression=number(nanos)))
    return exp.Cast(this=exact, to=exp.DataType.build(kind, dialect="trino"))


def _time_text(nanos: Sql) -> Sql:
    """`HH:MM:SS.nnnnnnnnn`; `/` of integers is integer division."""
    return time_text(nanos, "format", divided=lambda whole, size: exp.Div(this=whole, expression=number(size), typed=True))
