"""PostgreSQL 13 and newer. Facts marked *run* were checked in PostgreSQL 17 (tests/unit/test_dialect_postgres.py).

The raw table has the columns of `storage.relation`. Structs are values of composite types with the same field names
(`CREATE TYPE cell_text AS (written bigint, rank bigint, value text)`), and arrays are arrays of such types. Floats and blobs are
`real`, `double precision` and `bytea`; write times that are log positions are `numeric(38, 0)`.

A winner is the raw cell itself, so its type needs no name here. Structs that the plan builds (bounds of ranges, elements with
their paths, user types of several cells, entries of maps) are `json`, because a ROW() without a type has no field names, and
`jsonb` would lose -0.0. Frozen collections, tuples and user types show as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp

from cdc_views.model.types import Kind, LogicalType, Scalar, TupleOf, Udt, carries_comparable
from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import first_field
from cdc_views.sql.dialects.lineage import Built, Raw
from cdc_views.sql.dialects.structs import StructDialect, ordered
from cdc_views.sql.dialects.times import DAYS, YEARS, sign, within
from cdc_views.sql.dialects.writing import (
    EACH,
    Sql,
    descending,
    each_element,
    function,
    identifier,
    is_present,
    number,
    only_if,
    text,
)

_PLAN_FIELDS = {"written": "DECIMAL(38, 0)", "rank": "BIGINT", "size": "INT", "inclusive": "BOOLEAN", "bytes": "BYTEA"}
"""Types of the fields of every raw table; `numeric` holds both kinds of write times."""
_STORED = {
    Kind.TINYINT: "SMALLINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INT: "INT",
    Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "REAL",
    Kind.DOUBLE: "DOUBLE PRECISION",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.BLOB: "BYTEA",
    Kind.DATE: "INT",
    Kind.TIME: "BIGINT",
    Kind.TIMESTAMP: "BIGINT",
    Kind.DATETIME: "BIGINT",
    Kind.INSTANT: "BIGINT",
}
"""Stored types by kind; the others are TEXT."""
_COMPARISONS: dict[e.Op, type[exp.Binary]] = {e.Op.LT: exp.LT, e.Op.LE: exp.LTE, e.Op.GT: exp.GT, e.Op.GE: exp.GTE}


class Postgres(StructDialect):
    """Winners by `(array_agg(cell ORDER BY … DESC) FILTER (WHERE …))[1]`: `max` takes no composite type before 18."""

    name = "postgres"
    sqlglot_name = "postgres"
    ignores_case = False
    """Quoted names keep their case. Source: PostgreSQL, Lexical Structure, Identifiers."""
    compares_structs = False
    """Source: PostgreSQL 18 release notes, "Allow MIN() and MAX() to operate on … composite types"."""
    presence_by_written = True
    """`x IS NOT NULL` of a composite value is true only if every field is not null (run)."""
    types_bare_nulls = True
    """`NULL AS x` in a WITH step is text, and UNION ALL then refuses an integer beside it (run)."""
    compares_comparables_alone = True
    """Composites compare in the database's collation, comparables by bytes. Source: PostgreSQL, Row and Array Comparisons."""

    max_name_bytes = 63
    """Longer names are silently cut (run). Source: PostgreSQL, Lexical Structure, `NAMEDATALEN`."""
    _functions: ClassVar = {"array_size": "cardinality"}

    def now(self) -> Sql:
        # the clock of the transaction's start
        return exp.cast(function("floor", exp.Extract(this=exp.var("EPOCH"), expression=function("now"))), "BIGINT")

    def visit_field(self, node: e.Field, item: Sql | None) -> Sql:
        if node.name == "negative":  # part of a cell's order
            return exp.LT(this=self.visit_field(e.Field(node.base, "value"), item), expression=number(0))
        base = self.render(node.base, item)
        if not self._is_json(node.base):
            return exp.Dot(this=base if isinstance(base, exp.Dot) else exp.paren(base), expression=identifier(node.name))
        stored = None if self.lineage.fields(self.origin(node)) else self._stored(node)
        place = text(node.name)
        if stored is None:
            return exp.paren(exp.JSONExtract(this=base, expression=place, only_json_types=True))
        return exp.cast(exp.paren(exp.JSONExtractScalar(this=base, expression=place, only_json_types=True)), stored)

    def _is_json(self, value: e.Expr) -> bool:
        """Whether the plan built the struct, or a struct around it."""
        if isinstance(value, e.Field):
            return self._is_json(value.base)
        origin = self.origin(value)
        return isinstance(origin, Built) and _cell_of(origin.struct) is None

    def _stored(self, value: e.Expr) -> str | None:
        """The stored type of a scalar; None for a nested value. Raises `UnsupportedError` if the plan does not show the type."""
        if isinstance(value, e.Field) and value.name in _PLAN_FIELDS:
            return _PLAN_FIELDS[value.name]
        kind = self._kind(value)
        if kind is None:
            return str(self.cannot(f"tell the type of {value!r}"))
        if isinstance(value, e.Field) and value.name not in ("value", "path") and carries_comparable(kind):
            return "BYTEA"  # a bound holds the key's comparable
        return _STORED.get(kind.kind, "TEXT") if isinstance(kind, Scalar) else None

    def _kind(self, value: e.Expr) -> LogicalType | None:
        """The type of a key, a path or a value; a key's field of a bound has the type of the key column."""
        origin = self.origin(value)
        if isinstance(origin, Raw) and origin.path[0] in ("_from", "_to"):
            if origin.path[1] in _PLAN_FIELDS:
                return None
            origin = Raw((origin.path[1].removeprefix("_"), *origin.path[2:]))
        return self.lineage.kind(origin)

    def _by_bytes(self, value: e.Expr, item: Sql | None = None) -> Sql:
        """The value; text gets collation "C", because Cassandra compares bytes."""
        rendered = self.render(value, item)
        kind = self._kind(value)
        is_text = isinstance(kind, Scalar) and kind.kind not in _STORED
        return exp.Collate(this=exp.paren(rendered), expression=identifier("C")) if is_text else rendered

    def visit_call(self, node: e.Call, item: Sql | None) -> Sql:
        compare = _COMPARISONS.get(node.op)
        if compare is not None and isinstance(self._kind(node.args[0]), Scalar):
            return compare(this=self._by_bytes(node.args[0], item), expression=self.render(node.args[1], item))
        return super().visit_call(node, item)

    def visit_struct(self, node: e.Struct, item: Sql | None) -> Sql:
        cell = _cell_of(node)
        if cell is not None:
            return self.render(cell, item)
        pairs = [part for name, value in node.parts for part in (text(name), self.render(value, item))]
        return function("json_build_object", *pairs)

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        origin = self.origin(node.value)
        if node.fold is e.Fold.COLLECT:
            return self.collect(node)
        if isinstance(origin, Built):
            return _first(self._listed(node, origin.order(node.value) if node.fold is e.Fold.MAX else [], is_down=True))
        if node.fold is e.Fold.MIN and isinstance(self.lineage.kind(origin), TupleOf | Udt | None):
            # `min` takes arrays, and neither composite values nor bytea before 18 (run)
            return _first(self._listed(node, [node.value], is_down=False))
        name = "MIN" if node.fold is e.Fold.MIN else "MAX"  # MAX also for ANY: any_value is new in 16, and the values are equal
        return self.filtered(function(name, self._by_bytes(node.value)), node)

    def visit_newest(self, node: e.Newest, item: Sql | None) -> Sql:
        # the whole cell, and then its field: an array of arrays would have two dimensions
        field = node.value if isinstance(node.value, e.Field) else None
        value = self.render(node.value if field is None else field.base)
        listed = function("array_agg", ordered(value, [descending(self.render(node.by))]))
        first = _first(self.filtered(listed, node))
        return first if field is None else exp.Dot(this=exp.paren(first), expression=identifier(field.name))

    def collect(self, node: e.Agg) -> Sql:
        return self._listed(node, [first_field(node.value)], is_down=False)

    def _listed(self, node: e.Agg, order: list[e.Expr], *, is_down: bool) -> Sql:
        keys = [exp.Ordered(this=self._by_bytes(k), desc=is_down, nulls_first=not is_down) for k in order]
        return self.filtered(function("array_agg", ordered(self.render(node.value), keys)), node)

    def visit_rownumber(self, node: e.RowNumber, item: Sql | None) -> Sql:
        window = super().visit_rownumber(node, item)
        window.set("order", exp.Order(expressions=[descending(self._by_bytes(part)) for part in node.order]))
        return window

    def keep(self, array: Sql, where: Callable[[Sql], Sql]) -> Sql:
        return self._array(array, each_element(), where(each_element()))

    def each(self, array: Sql, value: Callable[[Sql], Sql]) -> Sql:
        return self._array(array, value(each_element()), None)

    def _array(self, array: Sql, value: Sql, where: Sql | None) -> Sql:
        """`ARRAY(SELECT …)`; no ORDINALITY for composite elements, because it would split them into their fields."""
        query = exp.select(value).from_(_unnest(array))
        if self._is_json(e.Item()):
            alias = exp.TableAlias(this=identifier("_elements"), columns=[identifier(EACH), identifier("_offset")])
            query = exp.select(value).from_(exp.Unnest(expressions=[array], alias=alias, offset=True))
            query = query.order_by(exp.Ordered(this=exp.column(identifier("_offset")), nulls_first=False))
        return function("ARRAY", query.where(where) if where is not None else query)

    def array_max(self, array: Sql) -> Sql:
        return exp.paren(exp.select(function("MAX", each_element())).from_(_unnest(array)))

    def explode(self, array: Sql, *, alias: str) -> tuple[Sql | None, Sql | None]:
        # the alias alone is the whole element
        return exp.column(identifier(alias)), _unnest(array, alias)

    def friendly(self, base: Sql, kind: LogicalType) -> Sql:
        return self.friendly_leaf(base, kind) if isinstance(kind, Scalar) else base

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Times become text, because TIME has µs; null outside the years 1 to 9999. Source: PostgreSQL, Date/Time Types."""
        match kind:
            case Kind.TIMESTAMP:
                return within(base, YEARS, _since("TIMESTAMPTZ", base, 1000, "1 millisecond"), scale=1000)
            case Kind.DATETIME:
                return within(base, YEARS, _since("TIMESTAMP", base, 10**6, "1 microsecond"), scale=10**6)
            case Kind.INSTANT:
                return within(base, YEARS, _since("TIMESTAMPTZ", base, 10**6, "1 microsecond"), scale=10**6)
            case Kind.DATE:
                epoch = exp.cast(text("1970-01-01"), "DATE")
                return within(base, DAYS, exp.Add(this=epoch, expression=base.copy()))
            case Kind.TIME:
                return _time_text(base)
        return base


def _cell_of(struct: e.Struct) -> e.Expr | None:
    """The cell from whose own fields a struct is built, or None."""
    parts = [(name, part) for name, part in struct.parts if name != "negative"]
    bases = {part.base if isinstance(part, e.Field) and part.name == name else None for name, part in parts}
    cell = bases.pop() if len(bases) == 1 else None
    return cell if struct.parts[0][0] in ("written", "rank") else None


def _unnest(array: Sql, alias: str = EACH) -> Sql:
    return exp.Unnest(expressions=[array], alias=exp.TableAlias(this=identifier(alias)))


def _first(array: Sql) -> Sql:
    return exp.Bracket(this=exp.paren(array), expressions=[number(1)], offset=1)


def _since(kind: str, base: Sql, scale: int, unit: str) -> Sql:
    """The epoch plus whole seconds plus the rest: a single product with an interval is a double, which rounds far dates."""

    def times(operator: type[exp.Binary], interval: str) -> Sql:
        count = function("div" if operator is exp.Div else "mod", base.copy(), number(scale))
        return exp.Mul(this=count, expression=exp.cast(text(interval), "INTERVAL"))

    epoch = exp.cast(text("1970-01-01 00:00:00" + ("+00" if kind == "TIMESTAMPTZ" else "")), kind)
    return exp.Add(this=exp.Add(this=epoch, expression=times(exp.Div, "1 second")), expression=times(exp.Mod, unit))


def _time_text(nanos: Sql) -> Sql:

    def part(size: int, modulus: int, shape: str) -> Sql:
        whole = function("div", function("abs", nanos.copy()), number(size))
        return function("to_char", function("mod", whole, number(modulus)) if modulus else whole, text(shape))

    clock = [part(3600 * 10**9, 0, "FM9900"), part(60 * 10**9, 60, "FM00"), part(10**9, 60, "FM00")]
    parts = [function("concat_ws", text(":"), *clock), part(1, 10**9, "FM000000000")]
    shown = function("concat", sign(nanos), function("concat_ws", text("."), *parts))
    return only_if(is_present(nanos.copy()), shown)
