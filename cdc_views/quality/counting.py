"""The invariants that counts alone decide: one aggregate of the view and one of the facts, in one query that returns one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cdc_views.engines.base import Engine, Sources
from cdc_views.errors import EngineError
from cdc_views.formats.base import WriteOrder
from cdc_views.landing.denylist import AHEAD
from cdc_views.landing.redaction import without_values
from cdc_views.model.naming import physical_name
from cdc_views.model.severity import Severity
from cdc_views.plan import names
from cdc_views.plan.build import Ask, Tells, build
from cdc_views.plan.cell_filter import EVERYTHING, greatest
from cdc_views.plan.expr import FALSE, Agg, Call, Expr, Field, Fold, Lit, Named, Op, UserSql, both, col, either, is_null, not_null
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, Node, Scan, Select
from cdc_views.plan.order import RANK, WRITTEN, has_expiry, is_tombstone
from cdc_views.plan.parts import Parts, Source
from cdc_views.plan.walk import columns_used
from cdc_views.quality.breaking import keys_of_facts, keys_of_rows
from cdc_views.quality.checks import MOST_PLACES, Check
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

_SOUND = ("facts_are_known", "cells_have_write_times")
"""Without these checks the facts cannot be read one by one."""

Wanted = tuple[UserSql, Severity]
_Counted = dict[Check, Expr]
"""Checks, and the conditions that break them, on rows of the view or on facts."""


def counts(engine: Engine, sources: Sources, *, as_of: int, wanted: Mapping[str, Wanted]) -> list[Check]:
    """Return the checks that counts decide, on facts of state and tail, or of raw; `as_of` is the clock of rule C4. `wanted`:
    name of a user's test → a condition that must not be false for any row of the view, and the test's severity.
    """
    relation = sources.raw.relation
    of_rows = _row_checks(relation) | _wanted(wanted)
    places = _places(sources, as_of=as_of)
    split = sources.split()
    parts = [_rows(relation, split, of_rows, as_of=as_of), *(_facts(checks, source) for source, checks in places.items())]
    found = engine.rows(_beside(parts), sources).to_pylist()[0]
    rule, rows = "each key has one row (rule K1)", int(found["rows"] or 0)
    first = Check("one_row_per_key", rule, broken=int(found["duplicates"] or 0), note=f"{rows:,} rows")
    shown = [replace(check, broken=int(found[_column(check)] or 0)) for check in of_rows]
    stored = Counter[Check]()
    for source, checks in places.items():
        stored.update({check: int(found[_column(check, source)] or 0) for check in checks})
    counted = [first, *shown, *(replace(check, broken=broken) for check, broken in stored.items())]
    if why_unreadable(counted):
        return counted
    failed = [check.name for check in shown if check.broken and check.name in wanted]
    where = {name: keys_of_rows(engine, sources, wanted[name][0], as_of=as_of) for name in failed}
    for source, checks in places.items():
        for check, broken in checks.items():
            if found[_column(check, source)]:
                where.setdefault(check.name, []).extend(keys_of_facts(engine, sources, source, broken))
    return [replace(check, where=tuple(where.get(check.name, ())[:MOST_PLACES])) for check in counted]


def counts_apart(engine: Engine, sources: Sources, *, as_of: int, wanted: Mapping[str, Wanted]) -> list[Check]:
    """Return `counts`; if the engine cannot evaluate a condition of `wanted`, only that test is in error. Raises `EngineError` if
    the engine also fails without them.
    """
    try:
        return counts(engine, sources, as_of=as_of, wanted=wanted)
    except EngineError:
        if not wanted:
            raise
    checks, relation = counts(engine, sources, as_of=as_of, wanted={}), sources.raw.relation
    split = sources.split()
    for check, broken in _wanted(wanted).items():
        try:
            found = engine.rows(_rows(relation, split, {check: broken}, as_of=as_of), sources).to_pylist()[0]
            checks.append(replace(check, broken=int(found[_column(check)] or 0)))
        except EngineError as error:
            used = {column.name for column in columns_used(broken)}
            read = [c.name for c in relation.schema.columns if (names.view_key(c) if c.is_key else physical_name(c.name)) in used]
            # results are read, kept and copied by more people than rows: an engine's message has the value that it failed at
            checks.append(check.errored(f"{', '.join(read)}: {without_values(str(error), relation.schema)}"))
    return checks


def why_unreadable(counted: Iterable[Check]) -> str:
    """Return why facts may not be readable one by one, according to their counts; empty if they are."""
    broken = [check.name for check in counted if check.broken and check.name in _SOUND]
    return f"{', '.join(broken)} must hold first" if broken else ""


def _places(sources: Sources, *, as_of: int) -> dict[Source, _Counted]:
    """Return the checks for the facts in each place; each file is in one place, so that it is read once."""
    relation = sources.raw.relation
    of_facts = _fact_checks(relation, as_of)
    if not sources.parts.has(Source.BASE):
        return {Source.ALL: of_facts}
    of_base = of_facts | _base_checks(relation)
    found = {Source.PLAIN: of_base | _plain_checks(relation), Source.JUDGED: of_base, Source.FRESH: of_facts}
    return {source: checks for source, checks in found.items() if sources.parts.has(source)}


def _column(check: Check, source: Source | None = None) -> str:
    return f"{source.label if source else 'n'}_{check.name}"


def _count(condition: Expr | None = None) -> Expr:
    """Return a count of rows; a sum of whole numbers for each of many keys would be wide and slow."""
    return Agg(Fold.COUNT, Lit(1), condition)


def _rows(relation: Relation, split: Parts | None, checks: _Counted, *, as_of: int) -> Node:
    """Return one row: the rows of the view, the rows in excess of keys, and the rows that break each check."""
    ask = Ask(relation, as_of=as_of, split=split, tells=Tells.IDENTITY)
    # a static row and a row of its partition may have equal keys: null, and a clustering value of 0 bytes
    row_kind = [names.IS_ROW] if relation.schema.statics else []
    keys = tuple(dict.fromkeys([names.identity(column) for column in relation.schema.row_key] + row_kind))
    folds: Named = (("n", _count()), *((_column(check), _count(broken)) for check, broken in checks.items()))
    per_key = Aggregate("rows_per_key", "key", build(ask), keys, folds)
    more = Call(Op.ADD, (col("n"), Lit(-1)))
    of_all: Named = (("rows", Agg(Fold.TOTAL, col("n"))), ("duplicates", Agg(Fold.TOTAL, more)))
    sums: Named = tuple((name, Agg(Fold.TOTAL, col(name))) for name in map(_column, checks))
    return Aggregate("rows_counted", "table", per_key, (), (*of_all, *sums))


def _facts(checks: _Counted, source: Source) -> Node:
    flags: Named = tuple((_column(check, source), broken) for check, broken in checks.items())
    scan = Scan(f"{source.label}_facts", "fact", flags, None, source)
    counted = tuple((name, _count(col(name))) for name, _ in flags)
    return Aggregate(f"{source.label}_counted", "table", scan, (), counted)


def _beside(parts: list[Node]) -> Node:
    joined = parts[0]
    for number, part in enumerate(parts[1:]):
        columns = tuple((n, col(n, "l")) for n in joined.output()) + tuple((n, col(n, "r")) for n in part.output())
        joined = Join(f"counted_{number}", "table", joined, part, JoinKind.CROSS, (), columns)
    return Select("counts", "table", joined, tuple((n, col(n)) for n in joined.output()))


def _row_checks(relation: Relation) -> _Counted:
    keys = [is_null(col(names.identity(column))) for column in relation.schema.partition]
    is_row = col(names.IS_ROW)
    for column in relation.schema.clustering:
        if str(column.type) in {"text", "ascii", "blob", "varchar"}:  # in other types null may be the value of 0 bytes
            keys.append(_and(is_row, is_null(col(names.identity(column)))))
    return {Check("key_not_null", "no part of a shown row's key is null"): either(*keys)}


def of_condition(name: str, severity: Severity) -> Check:
    """Return the check of a condition of the project file."""
    return Check(name, "the condition of the project file holds for each row", severity)


def _wanted(wanted: Mapping[str, Wanted]) -> _Counted:
    return {of_condition(name, severity): Call(Op.NOT, (test,)) for name, (test, severity) in wanted.items()}


def _cells(relation: Relation) -> list[Expr]:
    columns = relation.schema.regulars + relation.schema.statics
    return [col(names.LIVE), *(col(physical_name(c.name)) for c in columns if not c.type.is_multicell)]


def _fact_checks(relation: Relation, as_of: int) -> _Counted:
    kinds = tuple(Lit(kind.value) for kind in FactKind)
    kind = col(names.KIND)
    strange = either(is_null(kind), Call(Op.NOT, (Call(Op.IN, (kind, *kinds)),)))
    is_keyed = Call(Op.NOT, (Call(Op.EQ, (kind, Lit(FactKind.TABLE.value))),))
    keyless = _and(is_keyed, either(*(is_null(col(names.identity(c))) for c in relation.schema.partition)))
    timeless = either(*(_and(not_null(Field(cell, RANK)), is_null(Field(cell, WRITTEN))) for cell in _cells(relation)))
    found = {
        Check("facts_are_known", "each fact has a kind and a partition key", unit="facts"): either(strange, keyless),
        Check("cells_have_write_times", "each cell has a write time (rule C1)", unit="facts"): timeless,
    }
    if relation.order is WriteOrder.MICROS:
        limit = Lit(as_of * 1_000_000 + AHEAD)
        columns = relation.schema.regulars + relation.schema.statics
        have = (names.LIVE, names.DELETED, *(physical_name(column.name) for column in columns))
        last = greatest(have, columns, EVERYTHING)
        rule = "no write time is more than a day ahead of the clock: such cells and deletions would win until then"
        found[Check("not_from_the_future", rule, Severity.WARNING, unit="facts")] = _known(Call(Op.GT, (last, limit)))
    return found


def _base_checks(relation: Relation) -> _Counted:
    """Return the checks of the state's base, whose rows contain the largest deletion that covers them."""
    deletion = Field(col(names.DELETED), WRITTEN)
    covered = either(*(Call(Op.LE, (Field(cell, WRITTEN), deletion)) for cell in _cells(relation)))
    rule = "the state holds no cell that a deletion covers (rules D1, D2)"
    return {Check("nothing_deleted_is_kept", rule, unit="facts"): _known(_and(not_null(deletion), covered))}


def _plain_checks(relation: Relation) -> _Counted:
    """Return the checks of base rows that reads show without looking at the clock."""
    singles = [Field(col(physical_name(c.name)), RANK) for c in relation.schema.regulars if not c.type.is_multicell]
    if not singles:
        return {}
    mortal = _known(either(*(_and(has_expiry(rank), Call(Op.NOT, (is_tombstone(rank),))) for rank in singles)))
    rule = "rows that are read without a clock hold no cell that expires (rule C4)"
    return {Check("plain_rows_never_expire", rule, unit="facts"): mortal}


def _known(condition: Expr) -> Expr:
    """Return the condition with false for null, the result of comparing with null."""
    return Call(Op.COALESCE, (condition, FALSE))


def _and(*conditions: Expr) -> Expr:
    found = both(*conditions)
    assert found is not None
    return found
