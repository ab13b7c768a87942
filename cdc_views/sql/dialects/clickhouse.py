"""ClickHouse 24.8 and newer. Facts marked *run*: ClickHouse 26.9 (PyPI `chdb` 4.4.0, tests/unit/test_dialect_clickhouse.py).

The raw table has the columns of `storage.relation`: named Tuples whose scalar elements are Nullable, and Arrays. An absent
struct is a tuple of nulls, also from the Parquet reader, because a Tuple itself is not Nullable (before 26.x, and without a
setting). So `x IS NULL` of a struct tests its write time, which every cell has. A view shows an absent tuple or user type as a
tuple of nulls, and an absent collection as an empty one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp

from cdc_views.model.naming import physical_name
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import is_changed
from cdc_views.sql.dialects.lineage import Built, shown_kind, shown_kinds
from cdc_views.sql.dialects.structs import StructDialect
from cdc_views.sql.dialects.times import within
from cdc_views.sql.dialects.writing import Sql, function, identifier, lambda_of, number, text

_SECONDS = (-2_208_988_800, 10_413_791_999)
"""DateTime64: 1900 to 2299; outside it, conversions silently give a wrong instant (run). Source: ClickHouse, DateTime64."""
_DAYS = (-25_567, 120_529)
"""Date32: 1900 to 2299. Source: ClickHouse, Date32."""
_TYPES = {
    Kind.TINYINT: "Int8",
    Kind.SMALLINT: "Int16",
    Kind.INT: "Int32",
    Kind.BIGINT: "Int64",
    Kind.FLOAT: "Float32",
    Kind.DOUBLE: "Float64",
    Kind.BOOLEAN: "Bool",
    Kind.TIMESTAMP: "DateTime64(3, 'UTC')",
    Kind.INSTANT: "DateTime64(6, 'UTC')",
    Kind.DATETIME: "DateTime64(6, 'UTC')",
    Kind.DATE: "Date32",
}
"""Types of friendly values; the others are String."""


class ClickHouse(StructDialect):
    """Winners by `argMaxIf(payload, order)` over two tuples, so that it skips no null value."""

    name = "clickhouse"
    sqlglot_name = "clickhouse"
    ignores_case = False
    """Source: ClickHouse, Syntax, Identifiers."""
    compares_structs = False
    """A comparison of tuples with a null inside is null (run)."""
    greatest_skips_null = False
    """Before 24.12, `greatest` returned null for any null argument. Source: ClickHouse changelog 24.12,
    `least_greatest_legacy_null_behavior`."""
    types_bare_nulls = True
    """NULL has no common type with an Array or with a Tuple that is not Nullable (run)."""
    compares_comparables_alone = True
    """NaN = NaN is false in a join (run)."""
    settings: ClassVar[dict[str, int]] = {"join_use_nulls": 1, "prefer_column_name_to_alias": 1}
    """Without the first, a LEFT JOIN fills in zeros and empty strings. Without the second, `max(x) AS x` hides column x.
    They are part of the query, so a view keeps them in any session (run)."""
    presence_by_written = True
    """`IS NULL` of a Tuple is false (run)."""
    _functions: ClassVar = {"keep": "arrayFilter", "each": "arrayMap", "array_size": "length", "explode": "arrayJoin"}

    def finished(self, query: exp.Select) -> exp.Select:
        pairs = [exp.EQ(this=exp.to_identifier(name), expression=number(value)) for name, value in self.settings.items()]
        query.set("settings", pairs)
        return query

    def now(self) -> Sql:
        # `toUnixTimestamp` is a UInt32; the clock is constant during a query
        return function("toInt64", function("toUnixTimestamp", function("now")))

    def visit_field(self, node: e.Field, item: Sql | None) -> Sql:
        # tuples that the plan builds have no names of fields
        origin = self.origin(node.base)
        place = number(origin.index(node.name) + 1) if isinstance(origin, Built) else text(node.name)
        return function("tupleElement", self.render(node.base, item), place)

    def visit_case(self, node: e.Case, item: Sql | None) -> Sql:
        # a value that cannot be Nullable becomes its type's default: a tuple of nulls, or an empty array
        (condition, shown), *others = node.branches
        if others or node.otherwise != e.Lit(None) or not self._is_composite(shown):
            return super().visit_case(node, item)
        value = self.render(shown, item)
        return function("if", self.render(condition, item), value, function("defaultValueOfArgumentType", value.copy()))

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        origin = self.origin(node.value)
        if node.fold is e.Fold.COLLECT:
            return self.collect(node)
        arguments = [self.render(node.value)]
        name = {e.Fold.MAX: "max", e.Fold.MIN: "min", e.Fold.ANY: "any"}[node.fold]
        if node.fold is e.Fold.MAX and isinstance(origin, Built):
            order = function("tuple", *(self.render(part) for part in origin.order(node.value)))
            name, arguments = "argMax", [*arguments, order]
        return self._counted(name, arguments, node)

    def visit_newest(self, node: e.Newest, item: Sql | None) -> Sql:
        # argMax skips nulls, and no tuple is one
        said = function("tuple", self.render(node.value))
        return function("tupleElement", self._counted("argMax", [said, self.render(node.by)], node), number(1))

    def _counted(self, name: str, arguments: list[Sql], node: e.Agg | e.Newest) -> Sql:
        if node.where is None:
            return function(name, *arguments)
        return function(f"{name}If", *arguments, self.render(node.where))

    def collect(self, node: e.Agg) -> Sql:
        listed = self._counted("groupArray", [self.render(node.value)], node)
        return function("arraySort", lambda_of(_key_first), listed)

    def _over(self, what: str, array: Sql, body: Callable[[Sql], Sql]) -> Sql:
        return self._own(what, lambda_of(body), array)

    def visit_struct(self, node: e.Struct, item: Sql | None) -> Sql:
        # a shown tuple has names of fields
        parts, kinds = [self.render(part, item) for _, part in node.parts], shown_kinds(node)
        return _named_tuple(parts, kinds) if kinds is not None else function("tuple", *parts)

    def _friendly_struct(self, base: Sql, parts: list[tuple[str, str, LogicalType]]) -> Sql:
        values = [self.friendly(function("tupleElement", base.copy(), text(at)), kind) for _, at, kind in parts]
        return _named_tuple(values, [(name, kind) for name, _, kind in parts])

    def array_max(self, array: Sql) -> Sql:
        # null elements do not count (run)
        return function("arrayReduce", text("max"), array)

    def bare_null(self, like: e.Expr) -> Sql:
        """Return a null, or the default value if the type of `like` cannot be null."""
        shown = like.branches[0][1] if isinstance(like, e.Case) else like
        if isinstance(shown, e.Each | e.Keep | e.MapFrom):
            return exp.Array(expressions=[])
        parts = shown_kinds(shown) if isinstance(shown, e.Struct) else None
        kind = Udt("", "", tuple(parts), frozen=False) if parts is not None else shown_kind(shown)
        if kind is None or isinstance(kind, Scalar):
            return exp.Null()
        return function("defaultValueOfTypeName", text(type_name(kind)))

    def decimal_type(self, precision: int, scale: int) -> exp.DataType:
        return exp.DataType.build(f"Nullable(Decimal({precision}, {scale}))", dialect="clickhouse")

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Instants and days outside their types' ranges become null; times become text."""
        utc = text("UTC")
        match kind:
            case Kind.TIMESTAMP:
                return within(base, _SECONDS, function("fromUnixTimestamp64Milli", base, utc), scale=1000)
            case Kind.DATETIME | Kind.INSTANT:
                return within(base, _SECONDS, function("fromUnixTimestamp64Micro", base, utc), scale=10**6)
            case Kind.DATE:
                epoch = function("toDate32", text("1970-01-01"))
                return within(base, _DAYS, function("addDays", epoch, base))
            case Kind.TIME:
                return _time_text(base)
        return base

    def _is_composite(self, value: e.Expr) -> bool:
        if isinstance(value, e.Friendly):
            return not isinstance(value.kind, Scalar)
        is_array = isinstance(value, e.Each | e.Keep | e.MapFrom | e.Struct)
        return is_array or bool(self.lineage.fields(self.origin(value)))


def type_name(kind: LogicalType) -> str:
    """Return the type of friendly values of `kind`; Nullable if possible."""
    match kind:
        case Scalar() if kind.decimal_size is not None:
            return "Nullable(Decimal({}, {}))".format(*kind.decimal_size)
        case Scalar():
            return f"Nullable({_TYPES.get(kind.kind, 'String')})"
        case ListOf() | SetOf() | VectorOf():
            return f"Array({type_name(kind.element)})"
        case MapOf():
            return f"Array({_tuple_name([('key', kind.key), ('value', kind.value)])})"
        case TupleOf():
            return _tuple_name([(f"f{i}", part) for i, part in enumerate(kind.fields)])
        case Udt():
            shown = is_changed(kind) or not kind.frozen
            return _tuple_name([(name if shown else physical_name(name), part) for name, part in kind.fields])
    raise TypeError(kind)


def _tuple_name(parts: list[tuple[str, LogicalType]]) -> str:
    return "Tuple(" + ", ".join(f"{identifier(name).sql('clickhouse')} {type_name(kind)}" for name, kind in parts) + ")"


def _named_tuple(values: list[Sql], parts: list[tuple[str, LogicalType]]) -> Sql:
    return function("CAST", function("tuple", *values), text(_tuple_name(parts)))


def _time_text(nanos: Sql) -> Sql:
    """`HH:MM:SS.nnnnnnnnn`; `/` would give a double."""

    def part(size: int, modulus: int) -> Sql:
        whole = function("intDiv", function("abs", nanos.copy()), number(size))
        return function("modulo", whole, number(modulus)) if modulus else whole

    sign = function("if", exp.LT(this=nanos.copy(), expression=number(0)), text("-"), text(""))
    parts = [part(3600 * 10**9, 0), part(60 * 10**9, 60), part(10**9, 60), part(1, 10**9)]
    return function("printf", text("%s%02d:%02d:%02d.%09d"), sign, *parts)


def _key_first(element: Sql) -> Sql:
    """What an element sorts by: its first field, null first."""
    first = function("tupleElement", element, number(1))
    return function("tuple", function("isNotNull", first), first.copy())
