"""Corruptors: each replaces one function of `cdc_views.plan`, and thereby breaks one rule."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import pytest
from sqlglot import exp

from cdc_views.engines.base import Strategy
from cdc_views.model.schema import Role, TableSchema
from cdc_views.model.types import Udt, carries_order_bytes
from cdc_views.plan import build, names, order, reduce, show
from cdc_views.plan.expr import Call, Case, Col, Expr, Field, Lit, Op, Struct, UserSql, col, either, not_null, when
from cdc_views.plan.nodes import Ordered, Select
from cdc_views.plan.order import BYTES, RANK, VALUE, WRITTEN
from cdc_views.rules.cells import RANK_FLOOR
from cdc_views.sql.dialects import dialect
from helpers.histories import NOW
from helpers.schemas import KEYS, LOGGED, NARROW, PLAIN, READDED, WIDE, Subject

Patch = pytest.MonkeyPatch
Parts = tuple[tuple[str, Expr], ...]


def instead_of(patch: Patch, original: Callable[..., Any], corrupted: Callable[..., Any]) -> None:
    """Replace a function in every module of `cdc_views.plan` that knows it."""
    known = [m for name, m in sys.modules.items() if name.startswith("cdc_views.plan") and isinstance(m, ModuleType)]
    holders = [m for m in known if getattr(m, original.__name__, None) is original]
    assert holders, original.__name__
    for module in holders:
        patch.setattr(module, original.__name__, corrupted)


def rewritten(value: Any, change: Callable[[Expr], Expr]) -> Any:
    """Return an expression with `change` applied to every part, inner ones first."""
    if isinstance(value, tuple):
        return tuple(rewritten(item, change) for item in value)
    if isinstance(value, Expr) and is_dataclass(value):
        return change(replace(value, **{f.name: rewritten(getattr(value, f.name), change) for f in fields(value)}))
    return value


# the order of two cells


def reordering(change: Callable[[Parts, Any], Parts], *, of_markers: bool = False) -> Callable[[Patch], None]:
    """Change the parts that cells compare by; those of cells without values (markers, elements of sets) if `of_markers`."""

    def apply(patch: Patch) -> None:
        original = order.precedence_parts

        def corrupted(cell: Expr, kind: Any) -> Parts:
            parts = original(cell, kind)
            return change(parts, kind) if (kind is None) == of_markers else parts

        instead_of(patch, original, corrupted)

    return apply


def by_rank(change: Callable[[Expr], Expr], *, of_markers: bool = False) -> Callable[[Patch], None]:
    """Compare a function of the rank instead of it."""

    def parts_of(parts: Parts, kind: Any) -> Parts:
        written, rank, *tie = parts
        return (written, ("_order", change(rank[1])), *tie, rank)

    return reordering(parts_of, of_markers=of_markers)


def oldest_first(parts: Parts, kind: Any) -> Parts:
    return (("_order", Call(Op.MUL, (parts[0][1], Lit(-1)))), *parts)


def rank_before_time(parts: Parts, kind: Any) -> Parts:
    written, rank, *tie = parts
    return (rank, written, *tie)


def without_tie(parts: Parts, kind: Any) -> Parts:
    return parts[:2]


def signed(parts: Parts, kind: Any) -> Parts:
    return tuple(part for part in parts if part[0] != "negative")


def by_value(parts: Parts, kind: Any) -> Parts:
    """Bytes stand for a value; take the value after all."""
    if not carries_order_bytes(kind):
        return parts
    *others, (_, stored) = parts
    assert isinstance(stored, Field)
    return (*others, (VALUE, Field(stored.base, VALUE)), (BYTES, stored))


IS_LIVE_FOREVER = RANK_FLOOR + 2


def eternal_first(rank: Expr) -> Expr:
    return Case(((Call(Op.LT, (rank, Lit(IS_LIVE_FOREVER))), Lit(-1)),), rank)


def tombstone_last(rank: Expr) -> Expr:
    return Case(((Call(Op.GE, (rank, Lit(0))), Lit(RANK_FLOOR)),), rank)


def form_alone(rank: Expr) -> Expr:
    """2 for a tombstone, 0 for a live cell, 1 for an expiring one."""
    return Case(((Call(Op.GE, (rank, Lit(0))), Lit(2)), (Call(Op.LT, (rank, Lit(IS_LIVE_FOREVER))), Lit(0))), Lit(1))


def without_ttl(rank: Expr) -> Expr:
    """The rank of an expiring cell without its lower 31 bits."""
    divided = exp.IntDiv(this=dialect("duckdb").render(rank), expression=exp.Literal.number(1 << 31))
    is_expiring = Call(Op.AND, (Call(Op.LT, (rank, Lit(0))), Call(Op.GE, (rank, Lit(IS_LIVE_FOREVER)))))
    return Case(((is_expiring, UserSql(divided)), (Call(Op.LT, (rank, Lit(0))), Lit(RANK_FLOOR))), rank)


# which cells count, and when they show


def counting(condition: Callable[[Expr], Expr]) -> Callable[[Patch], None]:
    """Drop simple columns' cells before the winner is picked."""

    def apply(patch: Patch) -> None:
        original = reduce.Reduction.cell

        def corrupted(self: Any, column: Any, value: Expr) -> Expr:
            counted = original(self, column, value)
            # elements are filtered elsewhere; only what is a column or a field of one is a cell here
            return when(condition(Field(counted, RANK)), counted) if isinstance(value, Col | Field) else counted

        patch.setattr(reduce.Reduction, "cell", corrupted)

    return apply


def clock_off_by(seconds: int) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        original = order.now_rank
        instead_of(patch, original, lambda now: original(Lit(now.value + seconds)))

    return apply


def cell_wins_tie(patch: Patch) -> None:
    def corrupted(written: Expr, deletion: Expr) -> Expr:
        return either(Call(Op.IS_NULL, (deletion,)), Call(Op.GE, (written, deletion)))

    instead_of(patch, order.survives, corrupted)


# deletions


def without_input(name: str) -> Callable[[Patch], None]:
    """Read a computed column of the scans as null."""

    def apply(patch: Patch) -> None:
        original = reduce.Reduction.facts

        def corrupted(self: Any, *args: Any, **asked: Any) -> Any:
            scan = original(self, *args, **asked)
            return replace(scan, columns=tuple((n, when(Lit(False), v) if n == name else v) for n, v in scan.columns))

        patch.setattr(reduce.Reduction, "facts", corrupted)

    return apply


def bounds(change: Callable[[Expr], Expr]) -> Callable[[Patch], None]:
    """Rewrite the condition of lying inside a bound."""

    def apply(patch: Patch) -> None:
        original = show._within
        instead_of(patch, original, lambda *args, **asked: rewritten(original(*args, **asked), change))

    return apply


def inclusive_flipped(part: Expr) -> Expr:
    return Call(Op.NOT, (part,)) if isinstance(part, Field) and part.name == "inclusive" else part


def always_inclusive(part: Expr) -> Expr:
    return Lit(True) if isinstance(part, Field) and part.name == "inclusive" else part


def prefix_as_whole_key(part: Expr) -> Expr:
    return Lit(99) if isinstance(part, Field) and part.name == "size" else part


def prefix_as_open(part: Expr) -> Expr:
    return Lit(0) if isinstance(part, Field) and part.name == "size" else part


def descending_ignored(patch: Patch) -> None:
    original = show._within

    def corrupted(schema: TableSchema, bound: Expr, **asked: Any) -> Expr:
        columns = tuple(replace(column, descending=False) for column in schema.columns)
        return original(replace(schema, columns=columns), bound, **asked)

    instead_of(patch, original, corrupted)


def returning(original: Callable[..., Any], value: Callable[..., Any]) -> Callable[[Patch], None]:
    """Let a function return what `value` makes of its arguments."""
    return lambda patch: instead_of(patch, original, value)


# rows


def static_rows_beside_rows(patch: Patch) -> None:
    original = show._with_static_only

    def corrupted(*args: Any, **asked: Any) -> Any:
        found = original(*args, **asked)
        assert isinstance(found, Select)
        return replace(found, where=None)

    instead_of(patch, original, corrupted)


def empty_collections_shown(patch: Patch) -> None:
    original = show._any_shows

    def corrupted(column: Any) -> Expr:
        if column.type.is_multicell and not isinstance(column.type, Udt):
            return not_null(col(names.cells_of(column.name)))
        return original(column)

    instead_of(patch, original, corrupted)


def elements_by_write_time(patch: Patch) -> None:
    original = reduce.collected

    def first(part: Expr) -> Expr:
        if not isinstance(part, Struct):
            return part
        return Struct(tuple(sorted(part.parts, key=lambda entry: entry[0] != WRITTEN)))

    instead_of(patch, original, lambda *args, **asked: rewritten(original(*args, **asked), first))


# keys


def partitions_by_value(patch: Patch) -> None:
    """Tell partitions apart by their keys' stored values."""
    original = names.identity
    instead_of(patch, original, lambda c: names.physical_name(c.name) if c.role is Role.PARTITION else original(c))


def clustering_by_bytes(patch: Patch) -> None:
    """Group rows by their clustering keys' stored values too."""
    original = names.grouping

    def corrupted(column: Any) -> tuple[str, ...]:
        value, key = names.physical_name(column.name), names.identity(column)
        return (value, key) if column.role is Role.CLUSTERING and value != key else original(column)

    instead_of(patch, original, corrupted)


def paths_by_value(patch: Patch) -> None:
    """Tell paths apart by their stored values; they still show as they would."""
    shown = reduce._shown_paths

    def kept(column: Any) -> tuple[str, ...]:
        with pytest.MonkeyPatch.context() as honest:
            honest.setattr(reduce, "path_key", original)
            return shown(column)

    original = reduce.path_key
    instead_of(patch, reduce.path_key, lambda _: "path")
    instead_of(patch, shown, kept)


def rows_by_stored_value(patch: Patch) -> None:
    """Order the rows that were found rightly by their keys' stored values."""
    original = build._finished

    def corrupted(ask: build.Ask, *args: Any, **asked: Any) -> Any:
        ordered = original(ask, *args, **asked)
        stored = {f"_order_{i}": col(names.physical_name(c.name)) for i, c in enumerate(ask.relation.schema.row_key)}
        assert isinstance(ordered, Ordered)
        assert isinstance(ordered.source, Select)
        columns = tuple((name, stored.get(name, value)) for name, value in ordered.source.columns)
        return replace(ordered, source=replace(ordered.source, columns=columns))

    instead_of(patch, original, corrupted)


@dataclass(frozen=True)
class Corruptor:
    """One broken rule, and the schemas whose histories must show it."""

    rule: str
    what: str
    apply: Callable[[Patch], None]
    subjects: tuple[Subject, ...]
    strategy: Strategy = Strategy.AGGREGATE


STATIC_SCOPE = show._static_scope
CELLS = (NARROW, PLAIN)
CLUSTERED = (NARROW, WIDE, KEYS)
CORRUPTORS = [
    Corruptor("C2.1", "the older write wins", reordering(oldest_first), (READDED,)),
    Corruptor("C2.1", "expiry before write time", reordering(rank_before_time), CELLS),
    Corruptor("C2.2", "a live cell beats an expiring one", by_rank(eternal_first), CELLS),
    Corruptor("C2.3", "a tombstone loses ties", by_rank(tombstone_last), CELLS),
    Corruptor("C2.4", "the later expiry does not count", by_rank(form_alone), CELLS),
    Corruptor("C2.5", "the ttl does not count", by_rank(without_ttl), CELLS),
    Corruptor("C2.6", "no tie-break", reordering(without_tie), (NARROW,), Strategy.WINDOW),
    Corruptor("C3", "integers compared signed", reordering(signed), CELLS),
    Corruptor("C3", "values compared instead of bytes", reordering(by_value), CELLS),
    Corruptor("C4", "live at its expiry", clock_off_by(-1), CELLS),
    Corruptor("C4", "expired a second early", clock_off_by(1), CELLS),
    Corruptor("C4", "expired cells fall back to older", counting(lambda rank: order.is_live(rank, Lit(NOW))), CELLS),
    Corruptor("C5", "null cells skipped", counting(lambda rank: Call(Op.LT, (rank, Lit(0)))), CELLS),
    Corruptor("D1", "a cell wins ties with a deletion", cell_wins_tie, CELLS),
    Corruptor("D2", "row deletions ignored", without_input(names.DELETED), CELLS),
    Corruptor("D2", "partition deletions ignored", without_input(names.PARTITION_DELETED), CLUSTERED),
    Corruptor("D2", "range deletions ignored", without_input(names.RANGES), CLUSTERED),
    Corruptor("D2", "inclusive bounds exclusive and back", bounds(inclusive_flipped), CLUSTERED),
    Corruptor("D2", "every bound inclusive", bounds(always_inclusive), CLUSTERED),
    Corruptor("D2", "prefix bounds match nothing", bounds(prefix_as_whole_key), (WIDE, KEYS)),
    Corruptor("D2", "prefix bounds are open", bounds(prefix_as_open), CLUSTERED),
    Corruptor("D2", "bounds of descending columns as if ascending", descending_ignored, (WIDE, KEYS)),
    Corruptor("D2", "row and range deletions cover statics", returning(STATIC_SCOPE, lambda _: col(names.SCOPE)), CLUSTERED),
    Corruptor("D2", "partition deletions leave statics", returning(STATIC_SCOPE, lambda _: Lit(None)), CLUSTERED),
    Corruptor("D3", "complex deletions ignored", returning(show._complex_scope, lambda _, deletion: deletion), (NARROW, WIDE)),
    Corruptor("W1", "expiry of a marker before its write time", reordering(rank_before_time, of_markers=True), CELLS),
    Corruptor("W1", "an eternal marker beats an expiring one", by_rank(eternal_first, of_markers=True), CELLS),
    Corruptor("W2", "row markers ignored", without_input(names.LIVE), (NARROW,)),
    Corruptor("W2", "row markers ignored", without_input(names.LIVE), (LOGGED,)),
    Corruptor(
        "W2",
        "cells do not keep a row alive",
        returning(show._row_exists, lambda r: order.shows(col(names.LIVE), deletion=col(names.SCOPE), now=r.now)),
        CELLS,
    ),
    Corruptor("W2", "every row exists", returning(show._row_exists, lambda _: Lit(True)), CELLS),
    Corruptor("W3", "no row for live statics alone", returning(show._with_static_only, lambda _, rows, **__: rows), CLUSTERED),
    Corruptor("W3", "a row of statics beside other rows", static_rows_beside_rows, CLUSTERED),
    Corruptor("W4", "elements in the order they were written", elements_by_write_time, (NARROW, WIDE)),
    Corruptor("W4", "empty collections shown", empty_collections_shown, (NARROW, WIDE)),
    Corruptor("W4", "paths told apart by their stored value", paths_by_value, (WIDE, KEYS)),
    Corruptor("W6", "drop times ignored", lambda patch: patch.setattr(TableSchema, "drop_time", lambda *_: None), (READDED,)),
    Corruptor("K1", "partition keys compared by SQL", partitions_by_value, (WIDE,)),
    Corruptor("K1", "clustering keys compared by their bytes", clustering_by_bytes, (WIDE, KEYS)),
    Corruptor("K2", "rows in SQL's order of their keys", rows_by_stored_value, (WIDE, KEYS)),
    Corruptor("S6", "truncates ignored", without_input(names.TABLE_DELETED), (LOGGED,)),
]
