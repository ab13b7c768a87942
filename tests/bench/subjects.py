"""What the benchmark runs: one subject a process. Prints one JSON line: seconds of each run, peak memory, checksum.

A full scan is the sum of a hash over every leaf column that the exact view reads. A view's output is consumed the
same way: the sum of a hash over each of its columns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from generate import CELLS, NOW, SCHEMA, build

from cdc_views.engines.duckdb.tables import from_clause
from cdc_views.engines.snapshot import snapshot_of
from cdc_views.plan.build import Ask
from cdc_views.sql import query_sql
from cdc_views.storage.relation import RawTable

CELL_NAMES = [f"c{i}" for i in range(CELLS)]
LEAVES = [
    *("_kind", "account", "item", "_live.written", "_live.rank", "_deleted.written"),
    *(f"{bound}.{part}" for bound in ("_from", "_to") for part in ("size", "inclusive", "item")),
    *(f"{cell}.{part}" for cell in CELL_NAMES for part in ("written", "rank", "value")),
]
OUTPUT = ["_view_account", "_view_item", *CELL_NAMES]
# equal on every engine for equal rows: no engine's own hash is in it, and no cast, whose type may refuse nulls (ClickHouse)
CHECKSUM = (
    "count(*), sum(_view_account), sum(_view_item), count(c0), sum(c0), count(c1), sum(c1 % 1000003), sum(length(c2)), "
    "count(c3), count(c4), sum(length(c5)), sum(c6), count(c7)"
)
Runner = Callable[[str], Any]


def view(raw: RawTable, *, dialect: str, strategy: str, table: str) -> str:
    """The exact view's query at a fixed instant."""
    return query_sql(Ask(raw.relation, as_of=NOW), dialect_name=dialect, strategy=strategy, table=table)


def latest_event(table: str, quote: str) -> str:
    """What dbt_utils.deduplicate would do: keep the latest *event* of each key. Fast to write, not the same rows."""
    cells = ", ".join(f"{c}.value AS {c}" for c in CELL_NAMES)
    newest = f"greatest({', '.join(f'coalesce({c}.written, 0)' for c in CELL_NAMES)}, coalesce(_live.written, 0))"
    latest = f"row_number() OVER (PARTITION BY account, item ORDER BY {newest} DESC) AS latest"
    ranked = f"SELECT *, {latest} FROM {table} WHERE _kind = 'row'"
    keys = f"account AS {quote}_view_account{quote}, item AS {quote}_view_item{quote}"
    return f"SELECT {keys}, {cells} FROM ({ranked}) WHERE latest = 1"


def arg_max(table: str) -> str:
    """What people write in ClickHouse. `argMax` skips nulls, so deleted values come back; deletions of rows and expiry miss."""
    cells = ", ".join(f"argMax(raw.{c}.value, raw.{c}.written) AS {c}" for c in CELL_NAMES)
    keys = 'raw.account AS "_view_account", raw.item AS "_view_item"'
    return f"SELECT {keys}, {cells} FROM {table} AS raw WHERE raw._kind = 'row' GROUP BY raw.account, raw.item"


def duckdb_runner(raw: RawTable) -> tuple[Runner, str, str]:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    return (lambda sql: connection.execute(sql).fetchall()), from_clause(snapshot_of(raw), raw), "hash"


def spark_runner(raw: RawTable) -> tuple[Runner, str, str]:
    from cdc_views_spark.session import open_session

    session = open_session(warehouse=Path(raw.location).parent / "warehouse", memory="6g")
    return (lambda sql: [tuple(r) for r in session.sql(sql).collect()]), f"delta.`{raw.location}`", "xxhash64"


def clickhouse_runner(raw: RawTable) -> tuple[Runner, str, str]:
    from chdb import session as chdb

    connection = chdb.Session()
    connection.query("SET max_threads = 2, max_memory_usage = 16000000000")
    files = "{" + ",".join(sorted(p.name for p in Path(raw.location).glob("*.parquet"))) + "}"
    table = f"file('{raw.location}/{files}', Parquet)"
    return (lambda sql: [tuple(json.loads(connection.query(sql, "JSONCompactEachRow").bytes().decode()))]), table, "cityHash64"


TOTALS = {"duckdb": "sum({} >> 24)", "spark": "sum(shiftright({}, 24))", "clickhouse": "sum(bitShiftRight({}, 24))"}
RUNNERS = {"duckdb": duckdb_runner, "spark": spark_runner, "clickhouse": clickhouse_runner}


def statements(engine: str, subject: str, raw: RawTable, table: str, hash_of: str) -> tuple[str, str | None]:
    """Return (timed statement, checksum statement)."""

    def consumed(columns: list[str]) -> str:
        # the upper bits of each hash: a sum of them fits 64 bits, and no wider type distorts the unit of comparison
        return ", ".join(TOTALS[engine].format(f"{hash_of}({column})") for column in columns)

    if subject == "scan":
        return f"SELECT {consumed(LEAVES)} FROM {table}", None
    if subject == "row_number":
        query = latest_event(table, "`" if engine == "spark" else '"')
    elif subject == "arg_max":
        query = arg_max(table)
    else:
        query = view(raw, dialect=engine, strategy=subject, table=table)
    return f"SELECT {consumed(OUTPUT)} FROM ({query}) AS merged", f"SELECT {CHECKSUM} FROM ({query}) AS merged"


def peak_mib() -> int:
    """Peak resident memory of this process (DuckDB and ClickHouse run in it) and, for Spark, of its JVM.

    VmHWM begins anew with a program; getrusage's ru_maxrss begins with what the parent had.
    """
    statuses = [_status(path) for path in Path("/proc").glob("[0-9]*/status")]
    own = str(os.getpid())
    mine = [s for s in statuses if s.get("Pid") == own or (s.get("Name") == "java" and s.get("PPid") == own)]
    return sum(int(status["VmHWM"].split()[0]) for status in mine) // 1024


def _status(path: Path) -> dict[str, str]:
    """The fields of a process; none of one that is gone."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def main(engine: str, subject: str, events: int, runs: int, folder: str) -> None:
    """Time one subject: the checksum is the warm-up, then `runs` runs."""
    raw = build(Path(folder), events=events)
    run, table, hash_of = RUNNERS[engine](raw)
    timed, checksum = statements(engine, subject, raw, table, hash_of)
    answer = [str(value) for value in run(checksum)[0]] if checksum else run(timed) and None
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        run(timed)
        seconds.append(round(time.perf_counter() - start, 3))
    peak = peak_mib()
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "checksum": answer, "table": SCHEMA.full_name}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
