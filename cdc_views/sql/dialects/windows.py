"""SQL that only histories and states need, for the engines that run them: DuckDB and Spark (run)."""

from __future__ import annotations

from sqlglot import exp

from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import Dialect, Sql, function, number, text

_FUNCTIONS = {
    e.Window.LARGEST: "MAX",
    e.Window.SMALLEST: "MIN",
    e.Window.TOTAL: "SUM",
    e.Window.BEFORE: "LAG",
    e.Window.AFTER: "LEAD",
}


class WindowDialect(Dialect):
    """An engine whose ordered windows end at the row and its peers; `md5` gives lower-case hex digits, and `hex` upper-case."""

    def visit_bucket(self, node: e.Bucket, item: Sql | None) -> Sql:
        """Return the text of a `Bucket`."""
        prefix = self.render(node.prefix, item)
        if not node.digits:
            return prefix
        texts: list[Sql] = []
        for value, is_bytes in node.keys:
            rendered = self.render(value, item)
            written = function("hex", rendered) if is_bytes else exp.cast(rendered, "text")
            texts += [text("|")] * bool(texts) + [function("coalesce", written, text(""))]
        digest = function("md5", function("concat", *texts, text("")))
        digits = function("substring", digest, number(1), number(node.digits))
        bits = function("translate", digits, text("0123456789abcdef"), text("01" * 8))
        return function("concat", prefix, bits)

    def visit_over(self, node: e.Over, item: Sql | None) -> Sql:
        """Return a window function."""
        order = [exp.Ordered(this=self.render(part), desc=False, nulls_first=True) for part in node.order]
        return exp.Window(
            this=function(_FUNCTIONS[node.what], self.render(node.value)),
            partition_by=[self.render(part) for part in node.partition],
            order=exp.Order(expressions=order) if order else None,
        )

    def visit_gathered(self, node: e.Gathered, item: Sql | None) -> Sql:
        """Return an array of distinct values."""
        return self.gathered([self.render(v, item) for v in node.values], [self.render(a, item) for a in node.arrays])

    def gathered(self, values: list[Sql], arrays: list[Sql]) -> Sql:
        """Return the array of a `Gathered`."""
        self.cannot("gather values in an array")
