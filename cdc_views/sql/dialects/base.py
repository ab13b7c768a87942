"""The base of dialects: facts as class attributes, and the rendering of expressions.

A subclass overrides a fact, or one short method. Anything that a dialect cannot express raises `UnsupportedError` with a remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar, NoReturn

import sqlglot
from sqlglot import exp

from cdc_views.errors import UnsupportedError
from cdc_views.model.naming import held_name, physical_name
from cdc_views.model.types import ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf, is_reshaped
from cdc_views.plan import expr as e
from cdc_views.plan.nodes import Node, OneValue, Scan
from cdc_views.plan.order import covered_if
from cdc_views.sql.dialects.lineage import Built, Origins, without_values
from cdc_views.sql.dialects.macros import MacroDialect
from cdc_views.sql.dialects.traits import ComparingDialect, NamingDialect
from cdc_views.sql.dialects.writing import Sql, descending, function, identifier, is_present, lambda_of, number, only_if, text
from cdc_views.sql.layout import printed

_BINARY: dict[e.Op, type[exp.Binary]] = {
    e.Op.EQ: exp.EQ,
    e.Op.LT: exp.LT,
    e.Op.LE: exp.LTE,
    e.Op.GT: exp.GT,
    e.Op.GE: exp.GTE,
    e.Op.ADD: exp.Add,
    e.Op.MUL: exp.Mul,
    e.Op.DIV: exp.IntDiv,
}

_ORDERED = (("written", "rank"), ("written", "rank", "value"))
_FOLDS = {e.Fold.MAX: "MAX", e.Fold.MIN: "MIN", e.Fold.ANY: "ANY_VALUE", e.Fold.TOTAL: "SUM", e.Fold.COUNT: "COUNT"}
_CANNOT = {
    "keep": "filter an array",
    "each": "transform an array",
    "array_max": "take the largest element of an array",
    "array_size": "count the elements of an array",
    "array_join": "join the texts of an array",
    "collect": "collect an array",
    "explode": "unnest an array",
}


def first_field(struct: e.Expr) -> e.Expr:
    """Return the sort key of an array of such structs: the first field, or a deletion's write time."""
    return struct.parts[0][1] if isinstance(struct, e.Struct) else e.Field(struct, "written")


def stored_cell(value: e.Expr) -> e.Expr | None:
    """Return the cell that compares like a struct of its fields, because it has the fields in the order of rule C2, or None."""
    if not isinstance(value, e.Struct) or not value.is_alike:
        return None
    return value.stored if tuple(name for name, _ in value.parts) in _ORDERED else None


class Dialect(NamingDialect, ComparingDialect, MacroDialect):
    """A dialect of SQL. One instance renders the expressions of one plan (`nodes`); `node` is the node being rendered.

    Attributes:
        engine_name: The engine that runs the dialect; empty: the engine with the dialect's name.
        has_filter: Aggregates take `FILTER (WHERE …)`.
        joins_fully: A full join with a small side is as cheap as any other, because no rows move for it.
        clock: SQL that replaces the engine's clock, in seconds since the epoch; empty for the engine's clock.
    """

    name: ClassVar[str]
    sqlglot_name: ClassVar[str]
    engine_name: ClassVar[str] = ""
    has_filter: ClassVar[bool] = True
    joins_fully: ClassVar[bool] = False
    _functions: ClassVar[Mapping[str, str]] = {}
    """The engine's functions for `keep` and `each` (with a lambda), `array_max`, `array_size`, `map_from`, `collect` (with an
    order), and `explode` (in the SELECT list)."""
    clock: str = ""

    nodes: list[Node]
    node: Node
    subquery: Callable[[Node], Sql]
    """Returns the scalar subquery of a node; the renderer of the plan sets it."""

    def begin(self, nodes: list[Node]) -> None:
        """Prepare to render a plan; raise `UnsupportedError` if the dialect cannot."""
        self.nodes = nodes
        for name in sorted({name for node in nodes for name in node.output()}):
            self.check_length(name)

    @cached_property
    def lineage(self) -> Origins:
        """The origins of the plan's values."""
        return Origins(self.nodes)

    def finished(self, query: exp.Select) -> exp.Select:
        """Return the whole query with the dialect's additions."""
        return query

    def printed(self, query: exp.Query, *, is_pretty: bool = True) -> str:
        """Return a query's text, aligned and with comments, or on one line; the query is not to be used after."""
        if is_pretty:
            return printed(query, self.sqlglot_name)
        return query.sql(dialect=self.sqlglot_name, copy=False, comments=False)

    def beside(self, scan: Scan) -> Sql | None:
        """Return a table of one row to cross-join with a scan; None if the engine reads the scan correctly without it."""
        return None

    def bare_null(self, like: e.Expr) -> Sql:
        """Return the null of a column in a UNION whose other rows have values like `like`; see `types_bare_nulls`."""
        return exp.Null()

    def distinguishing(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the keys that distinguish a step's rows, for partitions and joins."""
        return without_values(keys) if self.compares_comparables_alone else keys

    def same(self, left: Sql, right: Sql) -> Sql:
        """Return whether two keys are equal; null matches null."""
        return exp.NullSafeEQ(this=left, expression=right)

    def plain(self, expression: e.Expr, item: Sql | None = None) -> Sql:
        visit: Callable[..., Sql] | None = getattr(self, f"visit_{type(expression).__name__.lower()}", None)
        if visit is None:
            raise UnsupportedError(
                f"dialect {self.name} has no way to write {type(expression).__name__}",
                remedy="choose another dialect or strategy (cdc-views generate --help lists them)",
            )
        return visit(expression, item)

    def visit_col(self, node: e.Col, item: Sql | None) -> Sql:
        """Return a quoted column with its side of the join."""
        return exp.Column(this=identifier(node.name), table=identifier(node.of) if node.of else None)

    def visit_item(self, node: e.Item, item: Sql | None) -> Sql:
        """Return the element of the enclosing array expression."""
        assert item is not None, "Item() outside Keep or Each"
        return item.copy()

    def visit_field(self, node: e.Field, item: Sql | None) -> Sql:
        """Return a struct's field."""
        base = self.render(node.base, item)
        is_name = isinstance(base, exp.Column | exp.Dot | exp.Identifier)
        return exp.Dot(this=base if is_name else exp.paren(base, copy=False), expression=identifier(node.name))

    def visit_lit(self, node: e.Lit, item: Sql | None) -> Sql:
        """Return a constant."""
        match node.value:
            case None:
                return exp.Null()
            case bool():
                return exp.Boolean(this=node.value)
            case int():
                return number(node.value)
        return text(node.value)

    def visit_call(self, node: e.Call, item: Sql | None) -> Sql:
        """Return an operator over its arguments."""
        if node.op is e.Op.NOT and isinstance(node.args[0], e.Call) and node.args[0].op is e.Op.IS_NULL:
            return is_present(_wrapped(self.render(node.args[0].args[0], item)))
        if node.op is e.Op.EQ and not self.compares_structs and isinstance(self.lineage.of(node.args[0], self.node), Built):
            return self._same_fields(node.args[0], node.args[1])
        args = [self.render(arg, item) for arg in node.args]
        if node.op is e.Op.ADD and isinstance(args[1], exp.Neg):
            return exp.Sub(this=args[0], expression=args[1].this)
        if node.op in _BINARY:
            return _BINARY[node.op](this=_wrapped(args[0]), expression=_wrapped(args[1]))
        write = self._operators().get(node.op)
        if write is None:
            raise UnsupportedError(f"dialect {self.name} has no operator {node.op.value!r}", remedy="choose another dialect")
        return write(args)

    def _operators(self) -> dict[e.Op, Callable[[list[Sql]], Sql]]:
        return {
            e.Op.AND: lambda args: exp.and_(*args, copy=False),
            e.Op.OR: lambda args: exp.or_(*args, copy=False),
            e.Op.NOT: lambda args: _negated(args[0]),
            e.Op.IS_NULL: lambda args: exp.Is(this=_wrapped(args[0]), expression=exp.Null()),
            e.Op.BETWEEN: lambda args: exp.Between(this=args[0], low=args[1], high=args[2]),
            e.Op.IN: lambda args: exp.In(this=args[0], expressions=args[1:]),
            e.Op.LIKE: lambda args: exp.Like(this=args[0], expression=args[1]),
            e.Op.CONCAT: lambda args: function("CONCAT", *args),
            e.Op.COALESCE: lambda args: function("COALESCE", *args),
            e.Op.GREATEST: self.greatest,
            e.Op.POSITION: lambda args: args[0],
            e.Op.NOW: lambda args: exp.Var(this=self.clock) if self.clock else self.now(),
            e.Op.SAME: lambda args: self.same(args[0], args[1]),
        }

    def _same_fields(self, left: e.Expr, right: e.Expr) -> Sql:
        """Whether two structs that the plan built are equal field by field; null equals null."""
        names = sorted(self.lineage.fields(self.lineage.of(left, self.node)))
        equal = [exp.NullSafeEQ(this=self.render(left[name]), expression=self.render(right[name])) for name in names]
        return exp.and_(*equal, copy=False)

    def visit_case(self, node: e.Case, item: Sql | None) -> Sql:
        """Return CASE WHEN."""
        branches = [exp.If(this=self.render(c, item), true=self.render(v, item)) for c, v in node.branches]
        shown: Sql = branches[0].args["true"]
        inner_case = shown.this if isinstance(shown, exp.Cast) else shown
        if isinstance(inner_case, exp.Case) and (covered := covered_if(node)) is not None:
            inner_case.args["ifs"].insert(0, exp.If(this=self.render(covered, item), true=exp.Null()))
            return shown
        is_null = isinstance(node.otherwise, e.Lit) and node.otherwise.value is None
        if is_null and len(branches) == 1 and (inner := _only_branch(branches[0].args["true"])) is not None:
            outer = branches[0].this
            both = exp.And(this=exp.paren(outer, copy=False) if isinstance(outer, exp.Or) else outer, expression=inner.this)
            return only_if(both, inner.args["true"])
        return exp.Case(ifs=branches, default=None if is_null else self.render(node.otherwise, item))

    def visit_agg(self, node: e.Agg, item: Sql | None) -> Sql:
        """Return a filtered aggregate."""
        if node.fold is e.Fold.COLLECT:
            return self.collect(node)
        value, name = self.render(node.value), _FOLDS[node.fold]
        if node.where is None or (node.fold is e.Fold.MAX and stored_cell(node.value) is not None):
            return function(name, value)  # an absent cell is null, which no MAX counts
        if self.has_filter:
            return self.filtered(function(name, value), node)
        return function(name, only_if(self.render(node.where), value))

    def visit_newest(self, node: e.Newest, item: Sql | None) -> Sql:
        """Return MAX_BY, which also gives nulls, as not every engine's does."""
        return self.filtered(function("MAX_BY", self.render(node.value), self.render(node.by)), node)

    def filtered(self, call: Sql, node: e.Agg | e.Newest) -> Sql:
        """Return the aggregate over the rows that fulfil its condition, by FILTER."""
        return call if node.where is None else exp.Filter(this=call, expression=exp.Where(this=self.render(node.where)))

    def visit_onevalue(self, node: OneValue, item: Sql | None) -> Sql:
        """Return a scalar subquery."""
        return self.subquery(node.node)

    def visit_rownumber(self, node: e.RowNumber, item: Sql | None) -> Sql:
        """Return ROW_NUMBER over the key, latest first."""
        order = [descending(self.render(part)) for part in node.order]
        keys = self.distinguishing(tuple(key.name for key in node.partition if isinstance(key, e.Col)))
        others = (key for key in node.partition if not isinstance(key, e.Col))
        by = [self.render(key) for key in (*map(e.Col, keys), *others)]
        return exp.Window(this=function("ROW_NUMBER"), partition_by=by, order=exp.Order(expressions=order))

    def visit_anyover(self, node: e.AnyOver, item: Sql | None) -> Sql:
        """Return MAX of 0 and 1 over the partition."""
        flag = only_if(self.render(node.value), number(1), number(0))
        keys = [self.render(key) for key in node.partition]
        return exp.EQ(this=exp.Window(this=function("MAX", flag), partition_by=keys), expression=number(1))

    def visit_usersql(self, node: e.UserSql, item: Sql | None) -> Sql:
        """Return the user's expression, which the printer translates."""
        return exp.paren(node.tree.copy(), copy=False)

    def visit_friendly(self, node: e.Friendly, item: Sql | None) -> Sql:
        """Return a stored value in its friendly type."""
        return self.friendly(self.render(node.base, item), node.kind)

    def friendly(self, base: Sql, kind: LogicalType) -> Sql:
        """Return `base` in its friendly type; nested values part by part if a part changes."""
        if not is_changed(kind):
            return base
        match kind:
            case Scalar():
                return self.shown_leaf(base, kind)
            case ListOf() | SetOf() | VectorOf():
                return self.each(base, lambda item: self.friendly(item, kind.element))
            case MapOf():
                entry = [("key", "key", kind.key), ("value", "value", kind.value)]
                return self.each(base, lambda item: self._friendly_struct(item, entry))
            case TupleOf():
                return self._friendly_struct(base, [(f"f{i}", f"f{i}", field) for i, field in enumerate(kind.fields)])
            case Udt():
                fields = [(name if self.holds_any_field else held_name(name), physical_name(name), f) for name, f in kind.fields]
                return self._friendly_struct(base, fields)
        raise TypeError(kind)

    def _friendly_struct(self, base: Sql, parts: list[tuple[str, str, LogicalType]]) -> Sql:
        places = [(shown, exp.Dot(this=base.copy(), expression=identifier(stored)), kind) for shown, stored, kind in parts]
        present = exp.not_(exp.Is(this=base.copy(), expression=exp.Null()))
        return only_if(present, self.struct([(shown, self.friendly(place, kind)) for shown, place, kind in places]))

    def visit_struct(self, node: e.Struct, item: Sql | None) -> Sql:
        """Return a struct of named fields."""
        stored = stored_cell(node)
        if stored is not None:
            return self.render(stored, item)
        return self.struct([(name, self.render(part, item)) for name, part in node.parts])

    def visit_keep(self, node: e.Keep, item: Sql | None) -> Sql:
        """Return the elements that satisfy a condition."""
        return self.keep(self.render(node.array, item), lambda element: self.render(node.where, element))

    def visit_each(self, node: e.Each, item: Sql | None) -> Sql:
        """Return the array of a value of each element."""
        return self.each(self.render(node.array, item), lambda element: self.render(node.value, element))

    def visit_greatest(self, node: e.Greatest, item: Sql | None) -> Sql:
        """Return the largest element of an array."""
        return self.array_max(self.render(node.array, item))

    def visit_isempty(self, node: e.IsEmpty, item: Sql | None) -> Sql:
        """Return whether an array is null or empty."""
        size = self._own("array_size", self.render(node.array, item))
        return exp.EQ(this=function("COALESCE", size, number(0)), expression=number(0))

    def visit_mapfrom(self, node: e.MapFrom, item: Sql | None) -> Sql:
        """Return a map, or the array of entries if the engine has no maps."""
        entries = self.render(node.entries, item)
        return self._own("map_from", entries) if "map_from" in self._functions else entries

    def greatest(self, args: list[Sql]) -> Sql:
        """Return the largest argument that is not null."""
        if self.greatest_skips_null:
            return function("GREATEST", *args)
        if len(args) == 2 and all(isinstance(arg, exp.Column) for arg in args):  # else it is long to write an argument twice
            return function("COALESCE", function("GREATEST", *args), *(arg.copy() for arg in args))
        return self.array_max(exp.Array(expressions=args))

    def now(self) -> Sql:
        """Return whole UTC seconds since the epoch."""
        self.cannot("read the clock in whole seconds")

    def struct(self, parts: list[tuple[str, Sql]]) -> Sql:
        """Return a struct of named fields."""
        self.cannot("build a struct")

    def keep(self, array: Sql, where: Callable[[Sql], Sql]) -> Sql:
        """Return the array's elements for which `where` is true."""
        return self._over("keep", array, where)

    def each(self, array: Sql, value: Callable[[Sql], Sql]) -> Sql:
        """Return the array of `value` of each element."""
        return self._over("each", array, value)

    def _over(self, what: str, array: Sql, body: Callable[[Sql], Sql]) -> Sql:
        return self._own(what, array, lambda_of(body))

    def _own(self, what: str, *args: Sql) -> Sql:
        return function(self._functions[what], *args) if what in self._functions else self.cannot(_CANNOT[what])

    def array_max(self, array: Sql) -> Sql:
        """Return the largest element; null for an empty array."""
        return self._own("array_max", array)

    def collect(self, node: e.Agg) -> Sql:
        """Return the array of the group's structs, sorted by their first field."""
        order = [exp.Ordered(this=self.render(first_field(node.value)), nulls_first=True)]
        return self.filtered(self._own("collect", exp.Order(this=self.render(node.value), expressions=order)), node)

    def explode(self, array: Sql, *, alias: str) -> tuple[Sql | None, Sql | None]:
        """Return (select expression, lateral source) for one row per element, in column `alias`."""
        return exp.alias_(self._own("explode", array), identifier(alias)), None

    def table(self, reference: str) -> Sql:
        """Return the raw table in a FROM clause; `reference` is its text in this dialect."""
        if not reference.startswith("("):
            return exp.to_table(reference, dialect=self.sqlglot_name)
        query = sqlglot.parse_one(f"SELECT 1 FROM {reference}", read=self.sqlglot_name)
        found: Sql = query.args["from_"].this
        return found

    def cannot(self, what: str) -> NoReturn:
        """Raise `UnsupportedError`: this dialect cannot do `what`."""
        raise UnsupportedError(
            f"dialect {self.name} cannot {what} as this table needs it",
            remedy="run the view on duckdb or spark, or materialize there and query the plain serving table",
        )


def _negated(value: Sql) -> Sql:
    return exp.NEQ(**value.args) if type(value) is exp.EQ else exp.not_(value, copy=False)


def _only_branch(value: Sql) -> exp.If | None:
    """The branch of a CASE that has no other and no ELSE, or None."""
    if not isinstance(value, exp.Case) or value.args.get("default") or len(value.args["ifs"]) != 1:
        return None
    branch: exp.If = value.args["ifs"][0]
    return branch


def _wrapped(value: Sql) -> Sql:
    return exp.paren(value, copy=False) if isinstance(value, exp.Binary | exp.Not) and not isinstance(value, exp.Dot) else value


def is_changed(kind: LogicalType) -> bool:
    """Return whether the friendly form of `kind` differs from the stored one; a user type may differ in its names alone."""
    match kind:
        case Scalar():
            return is_reshaped(kind)
        case ListOf() | SetOf() | VectorOf():
            return is_changed(kind.element)
        case MapOf():
            return is_changed(kind.key) or is_changed(kind.value)
        case TupleOf():
            return any(is_changed(field) for field in kind.fields)
        case Udt():
            return any(name != physical_name(name) or is_changed(field) for name, field in kind.fields)
    return False
