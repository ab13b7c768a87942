"""BigQuery's SQL of states, in which deletions are kept whole.

A view compares deletions by their write time alone; a state keeps the server's time with it, and GoogleSQL has no MAX
of a STRUCT. Everything was run in GoogleSQL's reference implementation (tests/properties/test_bigquery_scripts.py).
"""

from __future__ import annotations

from sqlglot import exp

from cdc_views.model.schema import TableSchema
from cdc_views.plan import expr as e
from cdc_views.plan import names
from cdc_views.plan.nodes import Node
from cdc_views.sql.dialects.base import Sql, function, identifier, number
from cdc_views.sql.dialects.bigquery import BigQuery
from cdc_views.sql.dialects.lineage import Raw

_DELETIONS = ("_deleted", "deletion")
"""The last steps of the paths of the raw layout's deletions: struct(written, at)."""
_HEX_DIGITS = 8


class BigQueryState(BigQuery):
    """Renders the plans of a state: `plan.compact`, `plan.purge`, `plan.late` and `plan.serving`."""

    def __init__(self, schema: TableSchema, *, clock: str = "") -> None:
        """`schema` is the table's; `clock`: see `Dialect.clock`."""
        self.clock = clock
        self._keys = {names.identity(column) for column in schema.partition}

    def begin(self, nodes: list[Node]) -> None:
        """See `Dialect.begin`; a partition's keys are never null, a clustering key of 0 bytes is.

        A view's plan tells them by its plain joins with partitions; a state's may have none.
        """
        super().begin(nodes)
        self._never_null = self._keys

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        """The largest deletion: by its write time, then by the server's time, as a struct's fields compare."""
        if node.fold is e.Fold.MAX and self._is_deletion(node.value):
            order = [e.Field(node.value, "written"), e.Field(node.value, "at")]
            return self._first(node, [_descending(self.render(part)) for part in order])
        return super().visit_agg(node, item)

    def visit_call(self, node: e.Call, item: Sql | None) -> Sql:
        """The largest of deletions, null where all are."""
        if node.op is e.Op.GREATEST and any(self._is_deletion(arg) for arg in node.args):
            return _largest(exp.Array(expressions=[self.render(arg, item) for arg in node.args]))
        return super().visit_call(node, item)

    def visit_greatest(self, node: e.Greatest, item: Sql | None) -> Sql:
        """The largest element of an array, which may be deletions."""
        rendered = self.render(node.array, item)
        return _largest(rendered) if self._is_deletion(node.array) else self.array_max(rendered)

    def collect(self, node: e.Agg) -> Sql:
        """Range tombstones in the order of their deletions; other structs in that of their first field."""
        if isinstance(node.value, e.Struct) or not self._is_deletion(e.Field(node.value, "written")):
            return super().collect(node)
        deletion = e.Field(node.value, "written")
        order = [_descending(self.render(e.Field(deletion, part))) for part in ("written", "at")]
        listed = exp.Order(this=self._counted(node), expressions=order)
        return exp.IgnoreNulls(this=exp.ArrayAgg(this=listed))

    def visit_bucket(self, node: e.Bucket, item: Sql | None) -> Sql:
        """Nothing: where a fact goes in BigQuery is computed from its digest, see `bucket_of`."""
        return number(0)

    def _is_deletion(self, value: e.Expr) -> bool:
        origin = self.origin(value)
        return isinstance(origin, Raw) and origin.path[-1] in _DELETIONS


def bucket_of(digest: Sql, buckets: int) -> Sql:
    """Return the bucket of a 16-byte digest: a number from 0, its first 32 bits modulo `buckets`."""
    if buckets == 1:
        return number(0)
    digits = function("SUBSTR", function("TO_HEX", digest), number(1), number(_HEX_DIGITS))
    hexadecimal = function("CONCAT", exp.Literal.string("0x"), digits)
    return function("MOD", exp.cast(hexadecimal, "bigint"), number(buckets))


def _largest(array: Sql) -> Sql:
    """`(SELECT _item FROM UNNEST(array) AS _item WHERE … ORDER BY … LIMIT 1)`: no row gives null."""
    written, at = (exp.Dot(this=exp.column(identifier("_item")), expression=identifier(n)) for n in ("written", "at"))
    source = exp.Unnest(expressions=[array], alias=exp.TableAlias(columns=[identifier("_item")]))
    query = exp.select(exp.column(identifier("_item"))).from_(source)
    query = query.where(exp.Is(this=written.copy(), expression=exp.Not(this=exp.Null())))
    return exp.paren(query.order_by(_descending(written), _descending(at)).limit(number(1)))


def _descending(value: Sql) -> exp.Ordered:
    return exp.Ordered(this=value, desc=True, nulls_first=False)
