"""What a history's plan needs beside a view's, in the dialects of the engines that compute one: DuckDB, Spark (run)."""

from __future__ import annotations

from sqlglot import exp

from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import Sql, function
from cdc_views.sql.dialects.buckets import BucketDialect

_FUNCTIONS = {
    e.Window.LARGEST: "MAX",
    e.Window.SMALLEST: "MIN",
    e.Window.TOTAL: "SUM",
    e.Window.BEFORE: "LAG",
    e.Window.AFTER: "LEAD",
}


class WindowDialect(BucketDialect):
    """An engine whose windows with an order reach, without a frame, up to the row and its peers, as the standard says."""

    def visit_over(self, node: e.Over, item: Sql | None) -> Sql:
        """A window function."""
        order = [exp.Ordered(this=self.render(part), desc=False, nulls_first=True) for part in node.order]
        return exp.Window(
            this=function(_FUNCTIONS[node.what], self.render(node.value)),
            partition_by=[self.render(part) for part in node.partition],
            order=exp.Order(expressions=order) if order else None,
        )

    def visit_gathered(self, node: e.Gathered, item: Sql | None) -> Sql:
        """An array of distinct values."""
        return self.gathered([self.render(v, item) for v in node.values], [self.render(a, item) for a in node.arrays])

    def gathered(self, values: list[Sql], arrays: list[Sql]) -> Sql:
        """See `Gathered`."""
        self.cannot("gather values in an array")
