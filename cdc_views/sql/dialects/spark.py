"""Spark SQL 4.x, ANSI mode on, and Databricks."""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import exp

from cdc_views.model.types import Kind
from cdc_views.plan import expr as e
from cdc_views.rules.codec.times import datetime_text
from cdc_views.sql.dialects.decimals import fits, refusal
from cdc_views.sql.dialects.documents import SparkDocuments
from cdc_views.sql.dialects.macros import TEXT, WHOLE, WHOLE_DAYS, MacroForm
from cdc_views.sql.dialects.times import YEARS, time_text, within
from cdc_views.sql.dialects.windows import WindowDialect
from cdc_views.sql.dialects.writing import Sql, function, number, text

_EPOCH = "TIMESTAMP_NTZ '1970-01-01'"


class Spark(SparkDocuments, WindowDialect):
    """Winners by `max` of structs, which compare field by field, nulls first; ties of `max_by` would depend on input order."""

    name = "spark"
    sqlglot_name = "spark"
    macro_form = MacroForm(
        "CREATE OR REPLACE FUNCTION",
        "\nRETURN\n",
        types={WHOLE: "BIGINT", WHOLE_DAYS: "INT", TEXT: "STRING"},
        within_lambdas=False,
    )
    """Source: Spark 4.2 refuses a SQL function inside a lambda, and an aggregate inside a SQL function."""
    column_name = re.compile(r"(?s)(?!.*\$\{).+\Z")
    """Spark replaces `${…}` anywhere in SQL text before it parses it. Source: Spark 4.2, `spark.sql.variable.substitute`."""

    _functions: ClassVar = {
        "keep": "filter",
        "each": "transform",
        "array_max": "array_max",
        "array_size": "array_size",
        "array_join": "array_join",
        "map_from": "map_from_entries",
        "explode": "explode",
    }
    """`array_size` gives null for null with any session settings; `size` may give -1."""

    def now(self) -> Sql:
        # whole seconds, constant during a query
        return function("unix_timestamp")

    def visit_moment(self, node: e.Moment, item: Sql | None) -> Sql:
        """Return a constant that Delta compares with the bounds in its log; its zone is its own, whatever the session's."""
        return exp.Var(this=f"TIMESTAMP '{datetime_text(node.micros)}Z'")

    def struct(self, parts: list[tuple[str, Sql]]) -> Sql:
        return function("named_struct", *(arg for name, part in parts for arg in (text(name), part)))

    def collect(self, node: e.Agg) -> Sql:
        # structs compare by their first field first
        listed = self.filtered(function("collect_list", self.render(node.value)), node)
        return function("array_sort", listed) if isinstance(node.value, e.Struct) else listed

    def gathered(self, values: list[Sql], arrays: list[Sql]) -> Sql:
        # `concat` with a null array would be null
        parts = [function("array", *values), *(function("coalesce", part, function("array")) for part in arrays)]
        return function("array_distinct", function("array_compact", function("concat", *parts)))

    def whole(self, digits: Sql) -> Sql:
        return exp.cast(function("conv", digits, number(16), number(10)), "bigint")

    def exact_decimal(self, text: Sql, *, precision: int, scale: int) -> Sql:
        # without ANSI mode a failed cast gives null, so raise an error
        cast = exp.Cast(this=text.copy(), to=self.decimal_type(precision, scale))
        raised = function("raise_error", refusal(text, precision=precision, scale=scale))
        present = exp.not_(exp.Is(this=text.copy(), expression=exp.Null()))
        fitting = exp.If(this=fits(text, precision=precision, scale=scale), true=cast)
        return exp.Case(ifs=[fitting, exp.If(this=present, true=raised)])

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Times become text, because there is no TIME of ns."""
        match kind:
            case Kind.TIMESTAMP:
                return within(base, YEARS, function("timestamp_millis", base), scale=1000)
            case Kind.DATETIME:
                # no timestamp with a zone stands between: its text, and its cast, would be of the session's zone
                seconds = exp.Mul(this=base, expression=exp.Literal.number("0.000001"))
                since = function("make_dt_interval", number(0), number(0), number(0), seconds)
                return within(base, YEARS, exp.Add(this=exp.Var(this=_EPOCH), expression=since), scale=10**6)
            case Kind.INSTANT:
                return within(base, YEARS, function("timestamp_micros", base), scale=10**6)
            case Kind.DATE:
                return function("date_from_unix_date", base)
            case Kind.TIME:
                return time_text(base, "format_string")
        return base


class Databricks(Spark):
    """Databricks SQL: Spark's."""

    name = "databricks"
    engine_name = "spark"
    sqlglot_name = "databricks"
