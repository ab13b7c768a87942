"""DuckDB 2.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp

from cdc_views.model.types import Kind
from cdc_views.plan import expr as e
from cdc_views.plan.nodes import Aggregate, Node, Ordered, Scan, Select, UnionAll
from cdc_views.plan.walk import has_window
from cdc_views.sql.dialects.documents import DuckDbDocuments
from cdc_views.sql.dialects.macros import MacroForm
from cdc_views.sql.dialects.times import DAYS_LIMIT, YEARS, in_range, time_text, within
from cdc_views.sql.dialects.windows import WindowDialect
from cdc_views.sql.dialects.writing import Sql, function, identifier, number, only_if, text

MOST_FILTERS = 60
"""Aggregates of a step that may have a FILTER each."""
_OF_FILES = ("read_parquet(", "(SELECT * FROM read_parquet(")


class DuckDb(DuckDbDocuments, WindowDialect):
    """Winners by `max` of structs, which compare field by field; `arg_max` would skip nulls (rule C5)."""

    name = "duckdb"
    sqlglot_name = "duckdb"
    macro_form = MacroForm("CREATE OR REPLACE MACRO", " AS\n", aggregates=True)
    joins_fully = True
    _functions: ClassVar = {
        "keep": "list_filter",
        "each": "list_transform",
        "array_max": "list_max",
        "array_size": "len",
        "array_join": "array_to_string",
        "map_from": "map_from_entries",
        "collect": "LIST",
        "explode": "UNNEST",
    }

    def begin(self, nodes: list[Node]) -> None:
        super().begin(nodes)
        self._uncut = _uncut(nodes[-1])

    def filtered(self, call: Sql, node: e.Agg | e.Newest) -> Sql:
        """Return the aggregate with FILTER; where a step has many, with CASE.

        Each filter takes a copy of the columns of all: 960 filters took 8 times the CPU and 15 times the memory of 960 CASEs.
        Source: duckdb 2.0.0, grouped aggregates; as cheap up to 60, 1.3 times at 120, 3.5 times at 480.
        """
        if isinstance(node, e.Agg) and node.fold is not e.Fold.COLLECT and node.where is not None and self._is_crowded:
            return function(call.name, only_if(self.render(node.where), call.expressions[0]))
        return super().filtered(call, node)

    @property
    def _is_crowded(self) -> bool:
        return isinstance(self.node, Aggregate) and len(self.node.folds) > MOST_FILTERS

    def visit_newest(self, node: e.Newest, item: Sql | None) -> Sql:
        """Return ARG_MAX_NULL, which also gives nulls, and skips events without a position."""
        value, by = self.render(node.value), self.render(node.by)
        if node.where is not None and self._is_crowded:
            return function("ARG_MAX_NULL", value, only_if(self.render(node.where), by))
        return self.filtered(function("ARG_MAX_NULL", value, by), node)

    def _operators(self) -> dict[e.Op, Callable[[list[Sql]], Sql]]:
        # ARG_MAX has code of its own for a HUGEINT, and orders a DECIMAL in twice the time
        return super()._operators() | {e.Op.POSITION: lambda args: exp.cast(args[0], "HUGEINT")}

    def beside(self, scan: Scan) -> Sql | None:
        """Cross-join one row to a scan that a LIMIT can reach.

        DuckDB reads such a scan twice: first the columns that decide which rows stay, then the other columns of those rows. With
        fields of structs and a pushed-down condition, it confuses columns: an internal error, or another column's value. The join
        prevents only that: conditions and the choice of fields still reach the files.
        Source: duckdb 2.0.0, `late_materialization`; tests/properties/test_limited_queries.py runs it.
        """
        if id(scan) not in self._uncut:
            return None
        one_row = exp.select(exp.alias_(number(1), identifier("_one"))).subquery(identifier("_one_row"), copy=False)
        one_row.add_comments([" keeps a LIMIT of the reader from DuckDB's late materialization, which fails on structs"])
        return one_row

    def table(self, reference: str) -> Sql:
        # a list of hundreds of files is slow to parse
        return exp.Var(this=reference) if reference.startswith(_OF_FILES) else super().table(reference)

    def now(self) -> Sql:
        # `epoch(now())` has fractions; a cast would round them up
        return exp.cast(function("floor", function("epoch", function("now"))), "BIGINT")

    def struct(self, parts: list[tuple[str, Sql]]) -> Sql:
        return function("STRUCT_PACK", *(exp.PropertyEQ(this=identifier(name), expression=part) for name, part in parts))

    def gathered(self, values: list[Sql], arrays: list[Sql]) -> Sql:
        # `list_distinct` leaves out nulls, `list_concat` skips null lists
        return function("list_distinct", function("list_concat", exp.Array(expressions=values), *arrays))

    def whole(self, digits: Sql) -> Sql:
        return exp.cast(function("concat", text("0x"), digits), "bigint")

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Times become text, because TIME has µs."""
        match kind:
            case Kind.TIMESTAMP:
                micros = exp.Mul(this=base, expression=number(1000))
                return within(base, YEARS, function("make_timestamptz", micros), scale=1000)
            case Kind.DATETIME:
                return within(base, YEARS, function("make_timestamp", base), scale=10**6)
            case Kind.INSTANT:
                return within(base, YEARS, function("make_timestamptz", base), scale=10**6)
            case Kind.DATE:
                epoch = exp.cast(text("1970-01-01"), "DATE")
                return in_range(base, DAYS_LIMIT, exp.Add(this=epoch, expression=base))
            case Kind.TIME:
                return time_text(base, "printf")
        return base


def _uncut(root: Node) -> set[int]:
    """The ids of the scans whose rows reach the result one by one: no step before it gathers them."""
    if isinstance(root, Scan):
        return set() if any(has_window(value) for _, value in root.columns) else {id(root)}
    passes = isinstance(root, Select | Ordered | UnionAll)
    return {scan for source in root.sources() for scan in _uncut(source)} if passes else set()
