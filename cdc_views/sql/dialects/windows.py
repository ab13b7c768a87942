"""SQL that only histories, states and their comparisons need, for the engines that run them: DuckDB and Spark (run)."""

from __future__ import annotations

from sqlglot import exp

from cdc_views.plan import expr as e
from cdc_views.plan import sums
from cdc_views.sql.dialects.base import Dialect
from cdc_views.sql.dialects.writing import Sql, function, number, text

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

    def visit_spelled(self, node: sums.Spelled, item: Sql | None) -> Sql:
        """Return the text of a value."""
        value = self.render(node.value, item)
        match node.form:
            case sums.Form.TEXT:
                # counted in characters by every engine
                parts = [exp.cast(function("length", value), "text"), text(":"), value.copy()]
            case sums.Form.BYTES:
                parts = [function("hex", value), text(";")]
            case sums.Form.WORD:
                parts = [exp.cast(value, "text"), text(";")]
        return function("coalesce", piped(parts), text("~"))

    def visit_joined(self, node: sums.Joined, item: Sql | None) -> Sql:
        """Return texts one after the other."""
        return function("concat", *(self.render(part, item) for part in node.texts))

    def visit_joinedelements(self, node: sums.JoinedElements, item: Sql | None) -> Sql:
        """Return the texts of an array one after the other."""
        return self._own("array_join", self.render(node.array, item), text(""))

    def visit_md5(self, node: sums.Md5, item: Sql | None) -> Sql:
        """Return the hex digits of an MD5."""
        return function("md5", self.render(node.text, item))

    def visit_piece(self, node: sums.Piece, item: Sql | None) -> Sql:
        """Return eight hex digits as a number."""
        return self.whole(function("substring", self.render(node.digest, item), number(8 * node.number + 1), number(8)))

    def whole(self, digits: Sql) -> Sql:
        """Return the BIGINT that hex digits mean."""
        self.cannot("read hex digits")


def piped(parts: list[Sql]) -> Sql:
    """Return texts one after the other; null if one is."""
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part, safe=False)
    return joined
