"""Snowflake: rendered and parsed; nothing here was run.

The raw table has the columns of `relation.py`; structs are OBJECT, nested values VARIANT, as COPY INTO makes them of
Parquet. Bytes inside an OBJECT (`bytes`, blobs) are lower-case hex text, which sorts as the bytes do; comparables of
keys are BINARY columns of their own.

Only tables without clustering columns and without collections of several cells: range deletions and elements need an
OBJECT taken apart inside a lambda, which is refused here until someone can run it.
"""

from __future__ import annotations

from sqlglot import exp

from cdc_views.model.types import Kind, LogicalType, Scalar
from cdc_views.plan import expr as e
from cdc_views.plan.nodes import Explode, Node
from cdc_views.sql.dialects.base import Sql, function, number
from cdc_views.sql.dialects.lineage import Built
from cdc_views.sql.dialects.structs import StructDialect

_DAYS = (-719_162, 2_932_896)
_SECONDS = (-62_135_596_800, 253_402_300_799)
"""Years 1 to 9999, which DATE and TIMESTAMP hold. Source: Snowflake, Date & time data types."""
_PLAN_FIELDS = {"written": "DECIMAL(38, 0)", "rank": "BIGINT", "bytes": "", "negative": "BOOLEAN"}
"""Types of the fields that every raw table or plan has; empty is text."""
_STORED = {
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DATE), "BIGINT"),
    **dict.fromkeys((Kind.TIME, Kind.TIMESTAMP, Kind.DATETIME, Kind.INSTANT), "BIGINT"),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), "DOUBLE"),
    Kind.BOOLEAN: "BOOLEAN",
}
"""Stored types by kind; the others are text."""


class SemiStructured(StructDialect):
    """What the dialects share whose structs have no type: each field is cast when it is read."""

    text_type = "VARCHAR"
    """A text type that cuts nothing."""
    compares_structs = False
    presence_by_written = True
    """A JSON null is not a SQL null; the write time, cast, is one."""
    compares_comparables_alone = True

    def begin(self, nodes: list[Node]) -> None:
        """See `Dialect.begin`; refuses what the module's docstring excludes."""
        super().begin(nodes)
        remedy = "run the view on duckdb, spark, bigquery, clickhouse, postgres or trino, or materialize there"
        for node in nodes:
            if isinstance(node, Explode):
                self.refuse("merge the elements of a collection that is stored cell by cell", remedy=remedy)
            for value in dict(getattr(node, "folds", ())).values():
                if isinstance(value, e.Agg) and value.fold is e.Fold.COLLECT:
                    self.refuse("cover rows by range deletions, which a table with clustering columns may have", remedy=remedy)

    def visit_field(self, node: e.Field, item: Sql | None) -> Sql:
        """A member, cast to its stored type; nested ones as they are."""
        member = self.member(self.render(node.base, item), node.name)
        stored = None if self.lineage.fields(self.origin(node)) else self.stored(node)
        return member if stored is None else exp.cast(member, stored)

    def member(self, base: Sql, name: str) -> Sql:
        """Return a field of an untyped struct."""
        raise NotImplementedError

    def stored(self, value: e.Field) -> str | None:
        """The type of a scalar field, None of a nested value; refuses a value of which the plan does not tell."""
        if value.name in _PLAN_FIELDS:
            return _PLAN_FIELDS[value.name] or self.text_type
        kind = self.lineage.kind(self.origin(value))
        if kind is None:
            return str(self.cannot(f"tell the type of the field {value.name!r}"))
        return _STORED.get(kind.kind, self.text_type) if isinstance(kind, Scalar) else None

    def visit_friendly(self, node: e.Friendly, item: Sql | None) -> Sql:
        """See `Dialect.visit_friendly`; a blob out of a struct is hex text."""
        base = self.render(node.base, item)
        if node.kind == Scalar(Kind.BLOB) and isinstance(node.base, e.Field):
            return self.from_hex(base)
        return self.friendly(base, node.kind)

    def from_hex(self, text: Sql) -> Sql:
        """Return bytes of their hex text."""
        raise NotImplementedError

    def friendly(self, base: Sql, kind: LogicalType) -> Sql:
        """Scalars in friendly types; what is nested as it is stored."""
        return self.friendly_leaf(base, kind) if isinstance(kind, Scalar) else base


class Snowflake(SemiStructured):
    """The latest is `GET(ARRAY_AGG(object) WITHIN GROUP (ORDER BY … DESC), 0)`: MAX takes no OBJECT, MAX_BY one key."""

    name = "snowflake"
    sqlglot_name = "snowflake"
    ignores_case = False
    """Quoted names keep their case. Source: Snowflake, Identifier requirements."""
    max_name_bytes = 255
    """Source: Snowflake, Identifier requirements."""
    has_filter = False
    """Source: Snowflake, Aggregate functions: FILTER is not among their clauses."""
    greatest_skips_null = False
    """GREATEST gives null if any argument is null; GREATEST_IGNORE_NULLS does not. Source: Snowflake, GREATEST."""

    def now(self) -> Sql:
        """Whole seconds: DATE_PART cuts."""
        return function("DATE_PART", exp.Literal.string("EPOCH_SECOND"), function("CURRENT_TIMESTAMP"))

    def greatest(self, args: list[Sql]) -> Sql:
        """`GREATEST_IGNORE_NULLS`."""
        return function("GREATEST_IGNORE_NULLS", *args)

    def member(self, base: Sql, name: str) -> Sql:
        """`GET(object, 'name')`: names are case-sensitive there."""
        return function("GET", base, exp.Literal.string(name))

    def struct(self, parts: list[tuple[str, Sql]]) -> Sql:
        """`OBJECT_CONSTRUCT_KEEP_NULL('name', value, …)`; sqlglot reads it back only with comparisons in parentheses."""
        closed = [(name, exp.paren(part) if isinstance(part, exp.Binary) else part) for name, part in parts]
        pairs = [item for name, part in closed for item in (exp.Literal.string(name), part)]
        return function("OBJECT_CONSTRUCT_KEEP_NULL", *pairs)

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        """Structs by the first of a list, which has no nulls. Source: Snowflake, ARRAY_AGG, "omits null input"."""
        origin = self.origin(node.value)
        if not isinstance(origin, Built):
            return super().visit_agg(node, item)
        value = self.render(node.value)
        counted = function("IFF", self.render(node.where), value, exp.Null()) if node.where is not None else value
        order = origin.order(node.value) if node.fold is e.Fold.MAX else []
        keys = [exp.Ordered(this=self.render(part), desc=True, nulls_first=False) for part in order]
        listed: Sql = function("ARRAY_AGG", counted)
        listed = exp.WithinGroup(this=listed, expression=exp.Order(expressions=keys)) if keys else listed
        return function("GET", listed, number(0))

    def from_hex(self, text: Sql) -> Sql:
        """`TO_BINARY(text, 'HEX')`."""
        return function("TO_BINARY", text, exp.Literal.string("HEX"))

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Instants as TIMESTAMP_TZ, others as TIMESTAMP_NTZ, days as DATE, times as text; out of range: null."""
        match kind:
            case Kind.TIMESTAMP:
                return within(base, _SECONDS, 1000, function("TO_TIMESTAMP_TZ", base, number(3)))
            case Kind.DATETIME:
                return within(base, _SECONDS, 10**6, function("TO_TIMESTAMP_NTZ", base, number(6)))
            case Kind.INSTANT:
                return within(base, _SECONDS, 10**6, function("TO_TIMESTAMP_TZ", base, number(6)))
            case Kind.DATE:
                epoch = exp.cast(exp.Literal.string("1970-01-01"), "DATE")
                return within(base, _DAYS, 1, function("DATEADD", exp.Literal.string("day"), base, epoch))
            case Kind.TIME:
                return time_text(base)
        return base


def within(base: Sql, limits: tuple[int, int], scale: int, value: Sql) -> Sql:
    """Return `value` where `base`, in `scale` parts of a unit, lies within `limits` units, else null."""
    inside = exp.Between(this=base.copy(), low=number(limits[0] * scale), high=number(limits[1] * scale + scale - 1))
    return exp.Case(ifs=[exp.If(this=inside, true=value)])


def time_text(nanos: Sql) -> Sql:
    """Return `HH:MM:SS.nnnnnnnnn`; a remainder is taken off before each division, which would round it."""

    def part(size: int, modulus: int, width: int) -> Sql:
        amount = function("ABS", nanos.copy())
        whole = exp.Sub(this=amount, expression=function("MOD", amount.copy(), number(size)))
        count: Sql = exp.cast(exp.Div(this=exp.paren(whole), expression=number(size), typed=True), "BIGINT")
        count = function("MOD", count, number(modulus)) if modulus else count
        text = exp.cast(count, "VARCHAR")
        padded = function("LPAD", text, number(width), exp.Literal.string("0"))
        is_short = exp.LT(this=function("LENGTH", text.copy()), expression=number(width))
        return exp.Case(ifs=[exp.If(this=is_short, true=padded)], default=text.copy())

    negative = exp.LT(this=nanos.copy(), expression=number(0))
    sign: Sql = exp.Case(ifs=[exp.If(this=negative, true=exp.Literal.string("-"))], default=exp.Literal.string(""))
    parts = [part(3600 * 10**9, 0, 2), part(60 * 10**9, 60, 2), part(10**9, 60, 2), part(1, 10**9, 9)]
    for separator, piece in zip(("", ":", ":", "."), parts, strict=True):
        sign = exp.DPipe(this=exp.DPipe(this=sign, expression=exp.Literal.string(separator)), expression=exp.paren(piece))
    return sign


__all__ = ["SemiStructured", "Snowflake", "time_text", "within"]
