"""What a serving table holds and what the view over raw shows, both as texts, so that one can be told from the other."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.duckdb.types import quoted
from cdc_views.plan.build import Ask, build, output_names
from cdc_views.plan.expr import col
from cdc_views.plan.nodes import Select
from cdc_views.plan.parts import FileSet, Part, Parts
from cdc_views.plan.serving import serving_names
from cdc_views.state.serving import ServingTable, open_serving
from cdc_views.storage.relation import RawTable
from cdc_views.storage.shown_relation import casts_of

_ZERO = re.compile(r"-0\.0(?!\d)")
"""DuckDB's `max` of a struct forgets the sign of a zero, so its views show none; `query` reads the bytes."""
Texts = list[tuple[str | None, ...]]


def viewed(engine: DuckDbEngine, raw: RawTable, *, now: int, version: int | None = None, by: Engine | None = None) -> Texts:
    """Return the view's rows over raw at an instant, each column as text, sorted; of raw as of a version of it.

    `by` computes them, by default `engine`, which tells them: views of two engines differ at the ends of some types.
    """
    table = DeltaTable(raw.location, version=version)
    ask = Ask(raw.relation, as_of=now)
    names, outputs = serving_names(raw.relation.schema), output_names(ask)
    plan = Select("shown", "visible row", build(ask), tuple((names[name], col(output)) for name, output in outputs))
    rows = (by or engine).rows(plan, Sources(raw, table.version(), Parts({Part.TAIL: FileSet(tuple(table.file_uris()))})))
    casts = {names[name]: kind.sql(dialect="duckdb") for name, kind in casts_of(raw.relation).items()}
    shown = [f"CAST({quoted(n)} AS {casts[n]})" if n in casts else quoted(n) for n in rows.column_names]
    return _texts(engine, rows, shown)


def served(engine: DuckDbEngine, location: str, raw: RawTable) -> Texts:
    """Return the rows of a serving table, as `viewed` does."""
    files = DeltaTable(location).file_uris()
    if not files:
        return []
    names = serving_names(raw.relation.schema).values()
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    found = engine.connection.sql(f"SELECT * FROM read_parquet([{listed}])").to_arrow_table()
    return _texts(engine, found, [quoted(name) for name in names])


def _texts(engine: DuckDbEngine, rows: pa.Table, columns: Sequence[str]) -> Texts:
    engine.connection.register("rows_to_tell", rows)
    texts = ", ".join(f"CAST({column} AS VARCHAR)" for column in columns)
    found = engine.connection.sql(f"SELECT {texts} FROM rows_to_tell").fetchall()
    return sorted((tuple(text and _ZERO.sub("0.0", text) for text in row) for row in found), key=repr)


def opened(location: str, raw: RawTable) -> ServingTable:
    """Return the serving table as the next run finds it."""
    note = open_serving(location, raw.relation, state_id="").note
    return open_serving(location, raw.relation, state_id="" if note is None else note.state)


def assert_serves(
    engine: DuckDbEngine, location: str, raw: RawTable, *, now: int | None = None, how: str = "", by: Engine | None = None
) -> None:
    """Fail unless the table shows what raw shows at `now`; None: as of the version and the clock that it says it shows."""
    table = opened(location, raw)
    assert table.note is not None, "a serving table that was never written shows nothing"
    if now is None:
        expected = viewed(engine, raw, now=table.note.clock, version=table.raw_version)
    else:
        expected = viewed(engine, raw, now=now, by=by)
    found = served(engine, location, raw)
    missing, extra = [row for row in expected if row not in found], [row for row in found if row not in expected]
    told = f"{raw.relation.schema.name} {how}: {len(expected)} rows expected, {len(found)} found"
    assert found == expected, f"{told}; missing {missing[:2]}; too many {extra[:2]}"
