"""Checks of a serving table: its files alone, and its rows against what the state shows at its clock."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from random import Random

import duckdb
import pyarrow as pa

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.duckdb.connections import with_stores
from cdc_views.engines.duckdb.types import literal, quoted
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.plan.compact import PART
from cdc_views.plan.serving import CHANGES_AT, PREFIX, serving_names, serving_rows
from cdc_views.quality.checks import Check
from cdc_views.rules.oracle import compares_as_keys, may_be_spelled_otherwise
from cdc_views.state.serving import ServingTable, of_buckets
from cdc_views.storage.relation import Relation
from cdc_views.storage.shown_relation import casts_of

_KEYS = Check("one_row_per_key.serving", "each key has one row in the serving table (rule K1)")
_EXPIRED = Check("nothing_expired.serving", "no row shows what had expired when it was written (rule C4)")
_SAME = Check("serving_shows_the_state", "the serving table's rows are those that the state shows at its clock", unit="rows")
_ONE_SPELLING = "one_spelling"
_DECIMAL = re.compile(r"(?<![\w.+-])-?\d+(\.\d+)?(e[+-]?\d+)?(?![\w.])", re.IGNORECASE)


def counted(table: ServingTable, relation: Relation, *, tasks: Tasks = HERE) -> Iterator[Check]:
    """Yield the checks that the serving table's own files decide; a bucket has all rows of its keys."""
    buckets, sizes = defaultdict[str, list[str]](list), Counter[str]()
    for file in table.log.added.values():
        part = str(file.partition.get(PART))
        buckets[part].append(table.log.path(file.path))
        sizes[part] += file.size
    if not buckets:
        return
    keys = tuple(quoted(serving_names(relation.schema)[column.name]) for column in relation.schema.row_key)
    clock, location = table.note.clock if table.note is not None else 0, table.log.location
    counts = tasks.each(
        partial(_in_bucket, keys, clock), list(buckets.values()), sizes=[sizes[part] for part in buckets], sees=[location]
    )
    more, expired = map(sum, zip(*counts, strict=True))
    if compares_as_keys(relation.schema):
        yield replace(_KEYS, broken=more)
    else:
        yield _KEYS.skipped("0.0 and -0.0 are two keys, and one to SQL")
    yield replace(_EXPIRED, broken=expired)


def _in_bucket(keys: Sequence[str], clock: int, files: Sequence[str]) -> tuple[int, int]:
    """Return how many rows are in excess of keys, and how many had expired."""
    sql = (
        f"SELECT coalesce(sum(n) - count(*), 0), coalesce(sum(expired), 0) FROM (SELECT count(*) AS n, "
        f"count(*) FILTER (WHERE {quoted(CHANGES_AT)} <= {clock}) AS expired FROM {_reading(files)} GROUP BY {', '.join(keys)})"
    )
    with duckdb.connect() as connection:
        row = with_stores(connection, sql).execute(sql).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def compared(engine: Engine, table: ServingTable, sources: Sources, *, seed: int) -> Check:
    """Return whether the rows of one bucket, which `seed` draws, are the rows that the state shows at the table's clock. Compares
    texts in DuckDB; only the first differing keys leave it.
    """
    relation = sources.raw.relation
    if table.note is None:
        return _SAME.skipped("nobody knows as of when it is")
    if table.raw_version != sources.raw_version:
        return _SAME.skipped(f"it shows raw version {table.raw_version}, the state {sources.raw_version}")
    digits = table.note.digits
    part = PREFIX + "".join(Random(seed).choice("01") for _ in range(digits))
    some = of_buckets(sources, (part,))
    plan = serving_rows(relation, as_of=table.note.clock, digits=digits, parts=(part,), split=some.split())
    files = [table.log.path(name) for name in table.log.added if name.startswith(f"{PART}={part}/")]
    return replace(_compared(relation, engine.rows(plan, some), files), note=f"one of {1 << digits:,} buckets compared")


def _compared(relation: Relation, expected: pa.Table, files: Sequence[str]) -> Check:
    names = serving_names(relation.schema)
    casts = {names[name]: kind.sql(dialect="duckdb") for name, kind in casts_of(relation).items()}
    values = [(names[column.name], may_be_spelled_otherwise(column)) for column in relation.schema.columns]
    cast = {n: f"CAST({quoted(n)} AS {casts[n]})" if n in casts else quoted(n) for n, _ in values}
    mine, theirs = (
        ", ".join(f"{_text(value(n), has_spellings=many)} AS {quoted(n)}" for n, many in values)
        for value in (cast.__getitem__, quoted)
    )
    keys = " || ', ' || ".join(f"coalesce({quoted(names[c.name])}, 'null')" for c in relation.schema.row_key)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.create_function(_ONE_SPELLING, _spelled_alike, ["VARCHAR"], "VARCHAR")
        connection.register("expected", expected)
        found = f"SELECT {theirs} FROM {_reading(files)}" if files else f"SELECT {mine} FROM expected LIMIT 0"
        connection.execute(f"CREATE TEMP VIEW shown AS SELECT {mine} FROM expected")
        with_stores(connection, found).execute(f"CREATE TEMP VIEW stored AS {found}")
        sql = (
            f"SELECT {keys}, 'is missing or differs' FROM (FROM shown EXCEPT ALL FROM stored) UNION ALL "
            f"SELECT {keys}, 'is not expected or differs' FROM (FROM stored EXCEPT ALL FROM shown)"
        )
        rows = connection.execute(f"SELECT * FROM ({sql}) ORDER BY 1, 2").fetchall()
    return _SAME.found([f"key {key}: the row {what}" for key, what in rows])


def _text(value: str, *, has_spellings: bool) -> str:
    """Return SQL of a value as text, with -0.0 as 0.0, since DuckDB's views treat them as equal."""
    text = f"regexp_replace(CAST({value} AS VARCHAR), '-0\\.0([^0-9]|$)', '0.0\\1', 'g')"
    return f"{_ONE_SPELLING}({text})" if has_spellings else text


def _spelled_alike(text: str) -> str:
    """Write decimals without trailing zeros: 1.0 and 1.00 are one key, and a row may have either (rule K1). Treats values in a
    map that differ only in such zeros as equal, too.
    """

    def plain(found: re.Match[str]) -> str:
        sign, digits, exponent = Decimal(found[0]).as_tuple()
        counted = "".join(map(str, digits)).rstrip("0")
        return str(Decimal((sign, tuple(map(int, counted)), len(digits) - len(counted) + int(exponent)))) if counted else "0"

    return _DECIMAL.sub(plain, text)


def _reading(files: Sequence[str]) -> str:
    return f"read_parquet([{', '.join(map(literal, files))}], union_by_name = true)"
