"""`make bench-state`: what a state costs to keep and to read, in ratios within one run.

A raw table of FACTS facts about KEYS keys; then tails of 1 % new facts whose keys are uniform, one materialization
each, compactions included. Beside them a full rebuild, a plain scan of the same values, a point lookup, and on the same
data Delta's own MERGE per batch. Options: `--keys N`, `--tails N`, `--engine duckdb|spark`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from generate import CELLS, MACRO, NOW, SCHEMA, cells_sql

from cdc_views.engines.base import Engine, Read
from cdc_views.materialize import materialize, sources_of
from cdc_views.relation import RawTable, Relation

OUT = Path(__file__).parent / "out"
NAMES = [f"c{i}" for i in range(CELLS)]


def facts_sql(first: int, count: int, *, keys: int) -> str:
    """Facts `first` to `first + count`: each about one key in KEYS, uniform, later ones written later."""
    events = (
        f"SELECT i, hash(i * 7 + 1) % {keys} AS k, 'row' AS kind, 1700000000000000 + i AS w "
        f"FROM range({first}, {first + count}) AS t(i)"
    )
    return f"WITH events AS ({events}) {cells_sql(0)}"


def append(raw: RawTable, connection: duckdb.DuckDBPyConnection, first: int, count: int, *, keys: int) -> None:
    """Land facts in one commit."""
    rows = connection.sql(facts_sql(first, count, keys=keys)).to_arrow_table()
    write_deltalake(raw.location, rows.cast(raw.relation.arrow_schema()), mode="append")


def build(folder: Path, connection: duckdb.DuckDBPyConnection, *, facts: int, keys: int) -> RawTable:
    """Return a raw table of so many facts."""
    raw = RawTable(str(folder / "raw"), Relation(SCHEMA))
    Path(raw.location).mkdir(parents=True)
    connection.execute(f"COPY ({facts_sql(0, facts, keys=keys)}) TO '{raw.location}/0.parquet' (FORMAT parquet)")
    convert_to_deltalake(raw.location)
    return raw


def timed(action: Callable[[], Any], *, runs: int = 1) -> tuple[float, Any]:
    """Return the median seconds, and the last result."""
    seconds, result = [], None
    for _ in range(runs):
        start = time.perf_counter()
        result = action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


class Reader:
    """Full reads by one engine: of the hybrid view and of plain values, consumed by a hash of every column."""

    def __init__(self, engine: Engine, raw: RawTable, state: str) -> None:
        self.engine, self.raw, self.state = engine, raw, state

    def read(self, **options: Any) -> Read:
        """The read of the hybrid view."""
        return Read(self.raw, as_of=NOW, is_ordered=False, sources=sources_of(self.raw, self.state), **options)

    def view(self, *, raw_only: bool = False) -> tuple[Any, ...]:
        """The view's output, consumed."""
        read = Read(self.raw, as_of=NOW, is_ordered=False) if raw_only else self.read()
        return self._consumed(read)

    def _consumed(self, read: Read) -> tuple[Any, ...]:
        if self.engine.name == "spark":
            frame = self.engine.dataframe(read)  # type: ignore[attr-defined]
            sums = [f"sum(shiftright(xxhash64(`{c}`), 24))" for c in frame.columns]
            return tuple(frame.selectExpr("count(*)", *sums).collect()[0])
        sql = f"SELECT count(*), sum(hash(COLUMNS(*)) >> 24) FROM ({self.engine.sql(read)})"
        return tuple(self.engine.connection.execute(sql).fetchall()[0])  # type: ignore[attr-defined]

    def plain(self, location: str) -> tuple[Any, ...]:
        """A plain table of the same values, consumed the same way."""
        if self.engine.name == "spark":
            frame = self.engine.session.read.format("delta").load(location)  # type: ignore[attr-defined]
            sums = [f"sum(shiftright(xxhash64(`{c}`), 24))" for c in frame.columns]
            return tuple(frame.selectExpr("count(*)", *sums).collect()[0])
        files = ", ".join(f"'{uri}'" for uri in DeltaTable(location).file_uris())
        sql = f"SELECT count(*), sum(hash(COLUMNS(*)) >> 24) FROM read_parquet([{files}])"
        return tuple(self.engine.connection.execute(sql).fetchall()[0])  # type: ignore[attr-defined]


def open_engine(name: str, folder: Path) -> Engine:
    """Return an engine on two cores."""
    if name == "duckdb":
        from cdc_views.engines.duckdb import DuckDbEngine

        engine = DuckDbEngine()
        engine.connection.execute("SET threads = 2")
        return engine
    from cdc_views_spark.engine import SparkEngine
    from cdc_views_spark.session import open_session

    return SparkEngine(open_session(warehouse=folder / "warehouse", memory="6g"))


def run(engine_name: str, *, keys: int, tails: int, folder: Path) -> dict[str, Any]:
    """Measure one engine at one size."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    connection = duckdb.connect()
    connection.execute(MACRO)
    facts = 2 * keys
    raw = build(folder, connection, facts=facts, keys=keys)
    engine = open_engine(engine_name, folder)
    reader = Reader(engine, raw, str(folder / "state"))
    built, _ = timed(lambda: materialize(engine, raw, reader.state, full=True))
    full, _ = timed(lambda: materialize(engine, raw, reader.state, full=True))
    print(f"  {engine_name} {keys:,} keys: first build {built:.1f} s, full rebuild {full:.1f} s", flush=True)
    plain = str(folder / "plain")
    rows = engine.read(Read(raw, as_of=NOW, is_ordered=False, sources=sources_of(raw, reader.state)))
    write_deltalake(plain, rows)
    reader.plain(plain), reader.view()
    scan, _ = timed(lambda: reader.plain(plain), runs=5)
    compacted, _ = timed(reader.view, runs=5)
    print(f"  scan {scan:.2f} s, view of the state at rest {compacted:.2f} s = {compacted / scan:.2f} x", flush=True)
    step = facts // 100
    append(raw, connection, facts, step, keys=keys)
    tail, answer = timed(reader.view, runs=3)
    assert answer == reader.view(raw_only=True), "state and tail do not show what raw shows"
    print(f"  view with a 1 % tail {tail:.2f} s = {tail / scan:.2f} x", flush=True)
    seconds, merges = [], []
    for n in range(tails):
        if n:
            append(raw, connection, facts + n * step, step, keys=keys)
        took, done = timed(lambda: materialize(engine, raw, reader.state))
        seconds.append(took)
        merges.append(done.merged)
        print(f"    tail {n}: {took:.2f} s {done.merged}", flush=True)
    after, answer = timed(reader.view, runs=3)
    assert answer == reader.view(raw_only=True), "state does not show what raw shows"
    mean = statistics.mean(seconds)
    print(f"  mean of {tails} tails {mean:.2f} s = {mean / full:.1%} of a rebuild; read after {after / scan:.2f} x", flush=True)
    files = DeltaTable(reader.state).file_uris()
    return {
        "engine": engine_name, "keys": keys, "full": full, "scan": scan, "at_rest": compacted, "tail_1": tail,
        "tails": seconds, "merges": merges, "after": after, "files": len(files), "mean": mean,
    }  # fmt: skip


def main() -> int:
    """Run and write a JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=3_000_000)
    parser.add_argument("--tails", type=int, default=50)
    parser.add_argument("--engine", default="spark")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    result = run(options.engine, keys=options.keys, tails=options.tails, folder=OUT / "state_run")
    (OUT / f"state_{options.engine}_{options.keys}.json").write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
