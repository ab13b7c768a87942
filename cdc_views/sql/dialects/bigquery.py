"""BigQuery (GoogleSQL).

The raw table has the columns of `storage.relation` in BigQuery's types: INT64, STRING, BYTES, BOOL, FLOAT64, STRUCT, ARRAY, and
BIGNUMERIC for write times that are log positions. Facts marked *reference* were checked in GoogleSQL's reference implementation
(PyPI `zetasql` 0.1.5, tests/unit/test_dialect_bigquery.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.plan import expr as e
from cdc_views.plan import names
from cdc_views.plan.nodes import Join, Node
from cdc_views.plan.order import VALUE
from cdc_views.sql.dialects.base import first_field
from cdc_views.sql.dialects.documents import BigQueryDocuments
from cdc_views.sql.dialects.lineage import Built, Raw
from cdc_views.sql.dialects.macros import TEXT, WHOLE, WHOLE_DAYS, MacroForm
from cdc_views.sql.dialects.structs import StructDialect, ordered
from cdc_views.sql.dialects.times import time_text
from cdc_views.sql.dialects.writing import EACH, Sql, descending, each_element, function, identifier, is_present, number, text

_DELETIONS = ("_deleted", "deletion")
"""The last names in the paths of the raw layout's deletions: struct(written, at)."""
_HEX_DIGITS = 8


class BigQuery(BigQueryDocuments, StructDialect):
    """Winners by `ARRAY_AGG(… ORDER BY … LIMIT 1)`: `MAX` takes no STRUCT, and `ANY_VALUE(x HAVING MAX k)` only one key."""

    name = "bigquery"
    sqlglot_name = "bigquery"
    macro_form = MacroForm(
        "CREATE OR REPLACE FUNCTION", " AS (\n", "\n)", types={WHOLE: "INT64", WHOLE_DAYS: "INT64", TEXT: "STRING"}
    )
    """Source: GoogleSQL, Data definition language, CREATE FUNCTION statement."""
    compares_structs = False
    """`=` of STRUCTs gives null if a field is null, like a tombstone's value (reference)."""
    has_filter = False
    """A fold skips rows by IF and IGNORE NULLS. Source: GoogleSQL, Aggregate function calls."""
    greatest_skips_null = False
    """GREATEST gives null if any argument is null (reference); MAX over an array skips nulls."""
    types_bare_nulls = True
    """`NULL AS x` in a WITH step is an INT64, and UNION ALL then refuses a STRING beside it (reference)."""
    compares_comparables_alone = True
    """No FLOAT64, STRUCT or ARRAY in PARTITION BY; NaN = NaN is false (reference). Source: GoogleSQL, Window function calls."""

    max_name_bytes = 300
    """Source: BigQuery, Specify a schema, Column names (300 characters)."""
    column_name = re.compile(
        r"(?!(?i:_TABLE_|_FILE_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER|_CHANGE_))[\w&%=+:'<>#| -]+\Z"
    )
    """Letters, digits and a few signs, without reserved prefixes. Source: BigQuery, Specify a schema, Flexible column names."""

    relation_name = re.compile(r"[\w .:-]*\Z")
    """Letters, digits, `_`, `-` and spaces; dots and colons separate a project from its dataset. Source: BigQuery, Naming."""

    _functions: ClassVar = {"array_size": "ARRAY_LENGTH"}

    def begin(self, nodes: list[Node]) -> None:
        super().begin(nodes)
        # keys that any step joins without null safety are never null
        plain = [join for join in nodes if isinstance(join, Join) and not join.is_null_safe]
        self._never_null = {key for join in plain for key in join.on}

    def same(self, left: Sql, right: Sql) -> Sql:
        """Return plain equality if it is enough: an outer join needs one equality to hash on.

        If no step joins without null safety, all keys are paths of elements or partition keys, which are never null.
        Source: BigQuery refuses a LEFT JOIN "without a condition that is an equality of fields from both sides".
        """
        if left.name in self._never_null or (not self._never_null and left.name != names.PATH_KEY):
            return exp.EQ(this=left, expression=right)
        return exp.NullSafeEQ(this=left, expression=right)

    def now(self) -> Sql:
        # `UNIX_SECONDS` rounds down; the clock is constant during a query
        return function("UNIX_SECONDS", function("CURRENT_TIMESTAMP"))

    def visit_usersql(self, node: e.UserSql, item: Sql | None) -> Sql:
        # BigQuery's analysis refuses what it cannot evaluate before it reads a row
        return exp.paren(node.tree.copy(), copy=False)

    def struct(self, parts: list[tuple[str, Sql]]) -> Sql:
        return function("STRUCT", *(exp.alias_(part, identifier(name)) for name, part in parts))

    def array_max(self, array: Sql) -> Sql:
        return exp.paren(exp.select(function("MAX", each_element())).from_(_unnest(array)))

    def keep(self, array: Sql, where: Callable[[Sql], Sql]) -> Sql:
        # a null array gives an empty one, which shows the same
        return _array(array, each_element(), where(each_element()))

    def each(self, array: Sql, value: Callable[[Sql], Sql]) -> Sql:
        return _array(array, value(each_element()))

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        # the latest struct, and any filtered one, by `ARRAY_AGG`: ANY_VALUE has skipped nulls only since 2024
        origin = self.origin(node.value)
        if node.fold is e.Fold.MAX and isinstance(origin, Built):
            return self._first(node, [descending(self.render(part)) for part in origin.order(node.value)])
        if node.fold is e.Fold.ANY and node.where is not None:
            return self._first(node, [])
        if node.fold is e.Fold.MIN and not isinstance(self.lineage.kind(origin), Scalar):
            return self._least(node.value)
        return super().visit_agg(node, item)

    def visit_newest(self, node: e.Newest, item: Sql | None) -> Sql:
        # MAX_BY skips nulls, so the value is inside a struct
        said = e.Agg(e.Fold.ANY, e.Struct(((VALUE, node.value),)), node.where)
        return exp.Dot(this=self._first(said, [descending(self.render(node.by))]), expression=identifier(VALUE))

    def _first(self, node: e.Agg, order: list[exp.Ordered]) -> Sql:
        """The first value of the group by `order`; skips nulls, which mark rows that do not count."""
        listed = exp.Limit(this=ordered(self._counted(node), order), expression=number(1))
        first = exp.IgnoreNulls(this=exp.ArrayAgg(this=listed))
        return exp.Bracket(this=first, expressions=[number(0)], offset=0, safe=True)

    def _least(self, value: e.Expr) -> Sql:
        """MIN of a possible ARRAY or STRUCT, by its JSON text, inside a struct because ARRAY_AGG takes no arrays."""
        boxed = e.Agg(e.Fold.MIN, e.Struct((("boxed", value),)), e.not_null(value))
        by_text = exp.Ordered(this=function("TO_JSON_STRING", self.render(value)), nulls_first=True)
        return exp.Dot(this=self._first(boxed, [by_text]), expression=identifier("boxed"))

    def _counted(self, node: e.Agg) -> Sql:
        if isinstance(node.value, e.Struct) and node.value.stored is not None and node.fold is e.Fold.MAX:
            return self.render(node.value.stored)  # an absent cell is null
        value = self.render(node.value)
        return function("IF", self.render(node.where), value, exp.Null()) if node.where is not None else value

    def collect(self, node: e.Agg) -> Sql:
        order = [exp.Ordered(this=self.render(first_field(node.value)), nulls_first=True)]
        return exp.IgnoreNulls(this=exp.ArrayAgg(this=ordered(self._counted(node), order)))

    def explode(self, array: Sql, *, alias: str) -> tuple[Sql | None, Sql | None]:
        return exp.column(identifier(alias)), _unnest(array, alias)

    def decimal_type(self, precision: int, scale: int) -> exp.DataType:
        # a view's column has a type without parameters
        return exp.DataType.build(decimal_name(precision, scale), dialect="bigquery")

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Times are text (TIME has µs); null outside years 1 to 9999. Source: BigQuery, Data types, Timestamp type, Date type."""
        match kind:
            case Kind.TIMESTAMP:
                return function("SAFE.TIMESTAMP_MILLIS", base)
            case Kind.DATETIME:
                return function("DATETIME", function("SAFE.TIMESTAMP_MICROS", base))
            case Kind.INSTANT:
                return function("SAFE.TIMESTAMP_MICROS", base)
            case Kind.DATE:
                return function("SAFE.DATE_FROM_UNIX_DATE", base)
            case Kind.TIME:
                return time_text(base, "FORMAT")
        return base


class BigQueryState(BigQuery):
    """Renders the plans of a state: `plan.compact`, `plan.purge` and `plan.serving`.

    A state, unlike a view, keeps the server's time of deletions, and GoogleSQL has no MAX of a STRUCT. All of it ran in
    GoogleSQL's reference implementation (tests/properties/test_bigquery_scripts.py).
    """

    def __init__(self, schema: TableSchema, *, clock: str = "") -> None:
        self.clock = clock
        self._keys = {names.identity(column) for column in schema.partition}

    def begin(self, nodes: list[Node]) -> None:
        super().begin(nodes)
        # a clustering key of 0 bytes is null, a partition key never; a state's plan may lack the joins that show this
        self._never_null = self._keys

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        # the largest deletion: by write time, then by server time
        if node.fold is e.Fold.MAX and self._is_deletion(node.value):
            return self._first(node, self._newest_first(node.value))
        return super().visit_agg(node, item)

    def visit_call(self, node: e.Call, item: Sql | None) -> Sql:
        if node.op is e.Op.GREATEST and any(self._is_deletion(arg) for arg in node.args):
            return _largest(exp.Array(expressions=[self.render(arg, item) for arg in node.args]))
        return super().visit_call(node, item)

    def visit_greatest(self, node: e.Greatest, item: Sql | None) -> Sql:
        rendered = self.render(node.array, item)
        return _largest(rendered) if self._is_deletion(node.array) else self.array_max(rendered)

    def collect(self, node: e.Agg) -> Sql:
        # range tombstones are ordered by their deletions
        if isinstance(node.value, e.Struct) or not self._is_deletion(e.Field(node.value, "written")):
            return super().collect(node)
        listed = ordered(self._counted(node), self._newest_first(e.Field(node.value, "written")))
        return exp.IgnoreNulls(this=exp.ArrayAgg(this=listed))

    def _newest_first(self, deletion: e.Expr) -> list[exp.Ordered]:
        return [descending(self.render(deletion[part])) for part in ("written", "at")]

    def visit_bucket(self, node: e.Bucket, item: Sql | None) -> Sql:
        """Return an unused number: a fact's place in BigQuery depends on its digest, see `bucket_of`."""
        return number(0)

    def _is_deletion(self, value: e.Expr) -> bool:
        origin = self.origin(value)
        return isinstance(origin, Raw) and origin.path[-1] in _DELETIONS


def decimal_name(precision: int, scale: int) -> str:
    """Return the type that holds DECIMAL(precision, scale). Source: BigQuery, Data types, Decimal types.

    >>> decimal_name(12, 2), decimal_name(38, 9), decimal_name(38, 10), decimal_name(38, 0)
    ('NUMERIC', 'NUMERIC', 'BIGNUMERIC', 'BIGNUMERIC')
    """
    return "NUMERIC" if precision - scale <= 29 and scale <= 9 else "BIGNUMERIC"


def _unnest(array: Sql, alias: str = EACH) -> Sql:
    return exp.Unnest(expressions=[array], alias=exp.TableAlias(columns=[identifier(alias)]))


def _array(array: Sql, value: Sql, where: Sql | None = None) -> Sql:
    """A subquery over an array; only ORDER BY guarantees the order."""
    source = exp.Unnest(expressions=[array], alias=exp.TableAlias(columns=[identifier(EACH)]), offset=identifier("_offset"))
    query = exp.select(value).from_(source)
    query = query.where(where) if where is not None else query
    query = query.order_by(exp.Ordered(this=exp.column(identifier("_offset")), nulls_first=True))
    return exp.Array(expressions=[query], struct_name_inheritance=True)


def bucket_of(digest: Sql, buckets: int) -> Sql:
    """Return the bucket of a 16-byte digest: its first 32 bits modulo `buckets`."""
    if buckets == 1:
        return number(0)
    digits = function("SUBSTR", function("TO_HEX", digest), number(1), number(_HEX_DIGITS))
    hexadecimal = function("CONCAT", text("0x"), digits)
    return function("MOD", exp.cast(hexadecimal, "bigint"), number(buckets))


def _largest(array: Sql) -> Sql:
    """The largest deletion of an array by a scalar subquery; null without one."""
    written, at = (exp.Dot(this=each_element(), expression=identifier(n)) for n in ("written", "at"))
    query = exp.select(each_element()).from_(_unnest(array)).where(is_present(written.copy()))
    return exp.paren(query.order_by(descending(written), descending(at)).limit(number(1)))
