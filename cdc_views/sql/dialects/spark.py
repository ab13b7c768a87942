"""Spark SQL 4.x, ANSI mode on, and Databricks."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from cdc_views.model.types import Kind
from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import Sql, function, identifier, lambda_of
from cdc_views.sql.dialects.decimals import exact_unless_null
from cdc_views.sql.dialects.times import MICROS_LIMIT, in_range, time_text
from cdc_views.sql.dialects.windows import WindowDialect

_MICROS_FORMAT = "yyyy-MM-dd HH:mm:ss.SSSSSS"


class Spark(WindowDialect):
    """`max` of a struct compares field by field, nulls first; `max_by` is not used: its ties depend on input order."""

    name = "spark"
    sqlglot_name = "spark"
    column_name = re.compile(r"(?s)(?!.*\$\{).+\Z")
    """Spark replaces `${…}` anywhere in SQL text before it parses it. Source: Spark 4.2, `spark.sql.variable.substitute`."""

    def now(self) -> Sql:
        """`unix_timestamp()` is whole seconds, fixed for a query."""
        return function("unix_timestamp")

    def struct(self, parts: list[tuple[str, Sql]]) -> Sql:
        """`named_struct('name', value, …)`."""
        return function("named_struct", *(arg for name, part in parts for arg in (exp.Literal.string(name), part)))

    def keep(self, array: Sql, where: Callable[[Sql], Sql]) -> Sql:
        """`filter` with a lambda."""
        return function("filter", array, lambda_of(where))

    def each(self, array: Sql, value: Callable[[Sql], Sql]) -> Sql:
        """`transform` with a lambda."""
        return function("transform", array, lambda_of(value))

    def array_max(self, array: Sql) -> Sql:
        """`array_max`."""
        return function("array_max", array)

    def array_size(self, array: Sql) -> Sql:
        """`array_size` gives null for null, whatever the session's settings; `size` may give -1."""
        return function("array_size", array)

    def collect(self, node: e.Agg) -> Sql:
        """`array_sort(collect_list(struct))`: structs compare by their first field first."""
        value = self.render(node.value)
        listed: Sql = function("collect_list", value)
        if node.where is not None:
            listed = exp.Filter(this=listed, expression=exp.Where(this=self.render(node.where)))
        if isinstance(node.value, e.Struct):
            return function("array_sort", listed)
        return listed

    def gathered(self, values: list[Sql], arrays: list[Sql]) -> Sql:
        """`array_distinct` of what is not null; `concat` of a null array would be null."""
        parts = [function("array", *values), *(function("coalesce", part, function("array")) for part in arrays)]
        return function("array_distinct", function("array_compact", function("concat", *parts)))

    def map_from(self, entries: Sql) -> Sql:
        """`map_from_entries`."""
        return function("map_from_entries", entries)

    def explode(self, array: Sql, *, alias: str) -> tuple[Sql | None, Sql | None]:
        """`explode` in the select list."""
        return exp.alias_(function("explode", array), identifier(alias)), None

    def exact_decimal(self, text: Sql, *, precision: int, scale: int) -> Sql:
        """See `DecimalDialect.exact_decimal`. Without ANSI mode a cast that fails gives null."""
        return exact_unless_null(text, self.decimal_type(precision, scale), precision=precision, scale=scale)

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Instants as TIMESTAMP, others as TIMESTAMP_NTZ, days as DATE, times as text (there is no TIME of ns)."""
        match kind:
            case Kind.TIMESTAMP:
                return in_range(base, MICROS_LIMIT // 1000, function("timestamp_millis", base))
            case Kind.DATETIME:
                text = function("date_format", function("timestamp_micros", base), exp.Literal.string(_MICROS_FORMAT))
                return in_range(base, MICROS_LIMIT, function("to_timestamp_ntz", text))
            case Kind.INSTANT:
                return in_range(base, MICROS_LIMIT, function("timestamp_micros", base))
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
