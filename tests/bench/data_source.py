"""`format("cdc_views")` against `Table.dataframe` on Spark: wall and CPU seconds, in turns, in one run.

    python tests/bench/data_source.py [--keys 1000000] [--turns 3]

The table has a state and a tail of 1 %. CPU is of this process, the JVM and Spark's Python workers. Prints the medians after a
first turn that only warms up; answers must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from cdc_views_spark import data_source
from cdc_views_spark.session import open_session
from deltalake import DeltaTable, write_deltalake
from generate import NOW, SCHEMA
from pyspark.sql import functions as F
from spent import Spent, spent
from state_data import Source

from cdc_views import Project
from cdc_views.landing import create_raw
from cdc_views.table import Table

KEY = "account = 7"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cdc-views-bench-") as folder:
        os.chdir(folder)
        table = built(asked.keys)
        session = open_session(warehouse=Path("spark"))
        data_source.register(session)
        try:
            measure(reads(session, table), turns=asked.turns)
        finally:
            session.stop()


def built(keys: int) -> Table:
    """A project of the benchmark's table, with a state and a tail."""
    columns = ", ".join(f"{column.name} {column.type.kind.value}" for column in SCHEMA.columns)  # type: ignore[union-attr]
    Path("schema.cql").write_text(f"CREATE TABLE bench.events ({columns}, PRIMARY KEY (account, item));")
    entry = {"name": "bench.events", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    Path("cdc_views.yml").write_text(json.dumps({"name": "bench", "engine": "duckdb", "tables": [entry]}))
    table = Project.load().table("bench.events")
    assert table.schema.columns == SCHEMA.columns
    create_raw(table.raw, format_name=table.format.name)
    Path("source").mkdir()
    source = Source(Path("source").resolve(), keys=keys)
    known = append(table, source, known=set())
    table.materialize()
    source.land(keys // 100)
    append(table, source, known=known)
    return table


def append(table: Table, source: Source, *, known: set[str]) -> set[str]:
    """Append what has landed in the benchmark's table since to the project's; returns its files."""
    files = set(DeltaTable(source.raw.location).file_uris())
    for file in files - known:
        rows = pq.read_table(file).cast(table.raw.relation.arrow_schema())
        write_deltalake(table.raw.location, rows, mode="append")
    return files


def reads(session: Any, table: Table) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """What is read, by `Table.dataframe` and by the format; each makes its frame anew."""

    def frame(**asked: Any) -> Any:
        return table.dataframe(session, as_of=NOW, **asked)

    def source(**options: str) -> Any:
        return session.read.format(data_source.NAME).options(as_of=str(NOW), **options).load(table.name)

    yield "all rows, hashed", lambda: hashed(frame()), lambda: hashed(source())
    yield "count", lambda: frame().count(), lambda: source().count()
    yield "one column", lambda: hashed(frame().select("c7")), lambda: hashed(source().select("c7"))
    yield "one key, in `where`", lambda: hashed(frame(where=KEY)), lambda: hashed(source(where=KEY))


def hashed(frame: Any) -> Any:
    """The number of rows, and a sum of the hashes of all."""
    return frame.select(F.count("*"), F.sum(F.xxhash64(*frame.columns) % 1_000_003)).collect()


def measure(all_reads: Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]], *, turns: int) -> None:
    """Print the medians of each read, by both ways in turns."""
    for what, by_frame, by_source in all_reads:
        each: list[tuple[Spent, Spent]] = []
        for turn in range(turns + 1):
            (ours, expected), (theirs, found) = spent(by_frame), spent(by_source)
            assert found == expected, (what, expected, found)
            each += [(ours, theirs)] if turn else []
        ours, theirs = (Spent.median([one[side] for one in each]) for side in (0, 1))
        print(f"{what:20} Table.dataframe {ours}, format {theirs}", flush=True)


if __name__ == "__main__":
    main()
