"""Facts into a raw Delta table, an engine's rows out of it, and how rows are compared."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from cdc_views.engines.base import Engine, RawTable, Read, Strategy, ask_of
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.duckdb.tables import from_clause
from cdc_views.engines.exact import rows_of
from cdc_views.engines.snapshot import snapshot_of
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import one_spelling
from cdc_views.sql import query_sql
from cdc_views.storage.relation import Relation
from helpers.histories import LATE_LANDING, Histories
from helpers.telling import fact_text

STRATEGIES = (Strategy.AGGREGATE, Strategy.WINDOW, Strategy.SELF_JOIN)
"""All that `auto` may choose from."""
CASES = int(os.environ.get("CDC_VIEWS_HISTORIES", "200"))
SEED = int(os.environ.get("CDC_VIEWS_SEED", "1"))
_REPORTED_CASES = 2
_THE_TABLE = "the_raw_table"

Row = dict[str, Any]


def land(folder: Path, relation: Relation, *batches: Iterable[Fact], name: str = "raw") -> RawTable:
    """Write each batch of facts as one commit of a new raw table; the n-th lands at n seconds past 1970."""
    location = str(folder / name)
    for n, facts in enumerate(batches):
        write_deltalake(location, relation.rows(facts, landed_at=n * LATE_LANDING), mode="append")
    return RawTable(location, relation)


def read_rows(engine: Engine, raw: RawTable, **asked: Any) -> list[Row]:
    """Return an engine's rows as native values; `asked` are the fields of `Read`."""
    read = Read(raw, **asked)
    return list(rows_of(raw.relation, read.columns, engine.read(read)))


def shown_by(
    engine: DuckDbEngine, raw: RawTable, strategies: Iterable[Strategy], *, as_of: int
) -> Iterator[tuple[Strategy, list[Row]]]:
    """Yield what `read_rows` returns for each strategy, made cheap for thousands of tiny tables.

    One look at the raw table, a plan's text made once a run, and DuckDB binds it once (`sql` would bind it twice).
    """
    snapshot = snapshot_of(raw)
    table = from_clause(snapshot, raw)
    for strategy in strategies:
        sql = _sql_of(raw.relation, as_of, strategy).replace(_THE_TABLE, table)
        is_empty = snapshot.arrow is not None
        found = engine.run(sql, snapshot) if is_empty else engine.connection.execute(sql).to_arrow_table()
        yield strategy, list(rows_of(raw.relation, (), found))


@cache
def _sql_of(relation: Relation, as_of: int, strategy: Strategy) -> str:
    read = Read(RawTable("", relation), as_of=as_of)
    return query_sql(ask_of(read), dialect_name="duckdb", strategy=strategy.value, table=_THE_TABLE)


def canonical(value: Any) -> Any:
    """Return what is equal exactly where two values are the same: NaN is NaN, -0.0 is not 0.0, decimals go by their text."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    if isinstance(value, tuple):
        return tuple(map(canonical, value))
    return (type(value).__name__, str(value) if isinstance(value, Decimal) else value)


def canonical_row(row: Row) -> tuple[Any, ...]:
    """Return `canonical` of a row: its columns by name."""
    return tuple((name, canonical(value)) for name, value in sorted(row.items()))


def same_rows(expected: Sequence[Row], found: Sequence[Row]) -> bool:
    """Whether two answers have the same rows in the same order."""
    return [*map(canonical_row, expected)] == [*map(canonical_row, found)]


def one_spelled(schema: TableSchema, rows: Iterable[Row]) -> list[Row]:
    """Return rows whose equal keys are spelled alike: a state has the spellings of the facts that it kept (rule K1)."""
    return [{c.name: one_spelling(c, row[c.name]) for c in schema.columns} for row in rows]


def different_cases(expected: Sequence[Row], found: Sequence[Row]) -> list[Any]:
    """Return the cases whose rows differ, in order."""
    theirs, ours = _by_case(expected), _by_case(found)
    return [case for case in sorted(theirs.keys() | ours.keys()) if not same_rows(theirs.get(case, []), ours.get(case, []))]


def _by_case(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    cases: dict[Any, list[Row]] = {}
    for row in rows:
        cases.setdefault(row["case"], []).append(row)
    return cases


def assert_same(expected: Sequence[Row], found: Sequence[Row], *, of: Histories, how: str) -> None:
    """Fail with the first cases that differ: what was expected, what was found, and the facts."""
    if same_rows(expected, found):
        return
    cases = different_cases(expected, found)
    lines = [f"{of.subject.name}: {how}: {len(cases)} of the cases differ (seed {SEED}): {cases[:20]}"]
    if not cases:
        lines.append("the rows of each case are right, the order of the cases is not")
    for case in cases[:_REPORTED_CASES]:
        lines += _report(case, _by_case(expected).get(case, []), _by_case(found).get(case, []), of=of)
    pytest.fail("\n".join(lines), pytrace=False)


def _report(case: Any, expected: list[Row], found: list[Row], *, of: Histories) -> list[str]:
    lines = [f"case {case}: {len(expected)} rows expected, {len(found)} found"]
    for theirs, ours in zip_longest(expected, found):
        if theirs is None or ours is None:
            lines.append(f"  expected {theirs}\n  found    {ours}")
        elif canonical_row(theirs) != canonical_row(ours):
            wrong = [name for name in theirs if canonical(theirs[name]) != canonical(ours.get(name))]
            keys = {c.name: theirs[c.name] for c in of.subject.schema.row_key if c.name in theirs}
            lines.append(f"  row {keys}")
            lines += [f"    {name}: expected {theirs[name]!r}, found {ours.get(name)!r}" for name in wrong]
    return [*lines, *(f"  {fact_text(fact)}" for fact in of.of_case(case))]
