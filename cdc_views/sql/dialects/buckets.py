"""`Bucket` in the dialects of the engines that keep a state."""

from __future__ import annotations

from sqlglot import exp

from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import Dialect, Sql, function, number


class BucketDialect(Dialect):
    """An engine whose `md5` gives lower-case hex digits and whose `hex` gives upper-case ones: DuckDB, Spark (run)."""

    def visit_bucket(self, node: e.Bucket, item: Sql | None) -> Sql:
        """See `Bucket`."""
        prefix = self.render(node.prefix, item)
        if not node.digits:
            return prefix
        texts: list[Sql] = []
        for value, is_bytes in node.keys:
            rendered = self.render(value, item)
            text = function("hex", rendered) if is_bytes else exp.cast(rendered, "text")
            texts += [exp.Literal.string("|")] * bool(texts) + [function("coalesce", text, exp.Literal.string(""))]
        digest = function("md5", function("concat", *texts, exp.Literal.string("")))
        digits = function("substring", digest, number(1), number(node.digits))
        bits = function("translate", digits, exp.Literal.string("0123456789abcdef"), exp.Literal.string("01" * 8))
        return function("concat", prefix, bits)
