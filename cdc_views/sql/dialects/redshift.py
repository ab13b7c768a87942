"""Amazon Redshift: rendered and parsed; nothing here was run.

The raw table has the columns of `relation.py`; structs are SUPER, as COPY makes them of Parquet. Bytes inside a SUPER
are lower-case hex text; comparables of keys are VARBYTE columns of their own.

Only the strategy `window`, and only tables without clustering columns whose columns are scalars: no aggregate keeps a
whole struct (ARRAY_AGG does not exist, MAX takes no SUPER, ANY_VALUE may answer null), so the winner's fields are
gathered one by one, which takes a single winner per key.
"""

from __future__ import annotations

from sqlglot import exp

from cdc_views.model.types import Kind
from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import Sql, function, identifier, number
from cdc_views.sql.dialects.lineage import Built
from cdc_views.sql.dialects.snowflake import SemiStructured, time_text, within

_SECONDS = (-62_135_596_800, 253_402_300_799)
_DAYS = (-719_162, 2_932_896)
"""Years 1 to 9999, well inside TIMESTAMP's 4713 BC to 294276 AD. Source: Redshift, Datetime types."""
_ONLY_WINDOW = "ask for the strategy window (--strategy window)"


class Redshift(SemiStructured):
    """The winner is `OBJECT('written', MAX(CASE WHEN rank = 1 THEN …), …)`."""

    name = "redshift"
    sqlglot_name = "redshift"
    text_type = "VARCHAR(65535)"
    """A cast to VARCHAR alone cuts at 256 bytes. Source: Redshift, Character types."""
    max_name_bytes = 127
    """Longer names are cut. Source: Redshift, Names and identifiers."""
    has_filter = False
    """Source: Redshift, Aggregate functions: FILTER is not among their clauses."""
    greatest_skips_null = True
    """Source: Redshift, GREATEST and LEAST: null only if all arguments are."""

    def now(self) -> Sql:
        """GETDATE has whole seconds, in UTC."""
        return exp.cast(exp.Extract(this=exp.var("EPOCH"), expression=function("GETDATE")), "BIGINT")

    def same(self, left: Sql, right: Sql) -> Sql:
        """Refused: there is no IS NOT DISTINCT FROM, and an OR in a join is a nested loop."""
        return self.refuse("join on keys that may be null", remedy=_ONLY_WINDOW)

    def member(self, base: Sql, name: str) -> Sql:
        """`super.name`; names are lower case there."""
        return exp.Dot(this=base, expression=identifier(name))

    def struct(self, parts: list[tuple[str, Sql]]) -> Sql:
        """`OBJECT('name', value, …)`."""
        return function("OBJECT", *(item for name, part in parts for item in (exp.Literal.string(name), part)))

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        """Of a struct each field apart, of the one row where the condition holds; scalars as everywhere."""
        origin = self.origin(node.value)
        if not isinstance(origin, Built):
            return super().visit_agg(node, item)
        if node.fold is not e.Fold.ANY or node.where is None or not isinstance(node.value, e.Struct):
            return self.refuse("keep the largest of several structs in one aggregate", remedy=_ONLY_WINDOW)
        condition = self.render(node.where)
        return self.struct([(name, self._only(part, condition)) for name, part in node.value.parts])

    def _only(self, part: e.Expr, condition: Sql) -> Sql:
        """The value of the one row that counts."""
        if isinstance(part, e.Field) and self.stored(part) is None:
            return self.refuse("keep a frozen collection, tuple or user type", remedy="run the view on duckdb or spark")
        is_boolean = isinstance(part, e.Call) or (isinstance(part, e.Field) and self.stored(part) == "BOOLEAN")
        chosen = exp.Case(ifs=[exp.If(this=condition.copy(), true=self.render(part))])
        return function("BOOL_OR" if is_boolean else "MAX", chosen)

    def from_hex(self, text: Sql) -> Sql:
        """`FROM_HEX`."""
        return function("FROM_HEX", text)

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Instants as TIMESTAMPTZ, others as TIMESTAMP, days as DATE, times as text; out of range: null."""
        match kind:
            case Kind.TIMESTAMP:
                return within(base, _SECONDS, 1000, _since("TIMESTAMPTZ", base, 1000, "1 millisecond"))
            case Kind.DATETIME:
                return within(base, _SECONDS, 10**6, _since("TIMESTAMP", base, 10**6, "1 microsecond"))
            case Kind.INSTANT:
                return within(base, _SECONDS, 10**6, _since("TIMESTAMPTZ", base, 10**6, "1 microsecond"))
            case Kind.DATE:
                epoch = exp.cast(exp.Literal.string("1970-01-01"), "DATE")
                days = exp.cast(base.copy(), "INT")
                return within(base, _DAYS, 1, exp.Add(this=epoch, expression=days))
            case Kind.TIME:
                return time_text(base)
        return base


def _since(kind: str, base: Sql, scale: int, unit: str) -> Sql:
    """The epoch plus whole seconds plus the rest."""
    rest = function("MOD", base.copy(), number(scale))
    seconds = exp.Div(this=exp.paren(exp.Sub(this=base.copy(), expression=rest)), expression=number(scale), typed=True)
    epoch = exp.cast(exp.Literal.string("1970-01-01 00:00:00" + ("+00" if kind == "TIMESTAMPTZ" else "")), kind)
    whole = exp.Mul(this=exp.paren(seconds), expression=exp.cast(exp.Literal.string("1 second"), "INTERVAL"))
    part = exp.Mul(this=rest.copy(), expression=exp.cast(exp.Literal.string(unit), "INTERVAL"))
    return exp.Add(this=exp.Add(this=epoch, expression=whole), expression=part)
