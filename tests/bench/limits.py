"""Views of wide tables: the text that BigQuery takes, and what Spark needs to plan one.

    python tests/bench/limits.py [--columns 200 1000] [--trees NAME=CHECKOUT ...]

A table has a key and N columns of seven types in turn, from PostgreSQL (Debezium) or Cassandra. For each it prints the bytes of
the views' texts (BigQuery takes 1 MB of a query), what Spark's plan and answer cost, twice in one JVM, and the JVM's peak of
used heap. Other checkouts, each with its `.venv`, take turns in the same run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from spent import spent

TYPES = {
    "debezium": ("text", "numeric(12,2)", "integer", "timestamptz", "bigint", "boolean", "double precision"),
    "cassandra-mutation": ("text", "decimal", "int", "timestamp", "bigint", "boolean", "double"),
}
HERE = Path(__file__).resolve()


def written(folder: Path, *, format: str, columns: int) -> None:
    """Write a project of one wide table without a row."""
    kinds = TYPES[format]
    wide = ", ".join(f"c{n} {kinds[n % len(kinds)]}" for n in range(columns))
    (folder / "wide.sql").write_text(f"CREATE TABLE shop.wide (id bigint PRIMARY KEY, {wide});", "utf-8")
    tables = [{"name": "shop.wide", "schema": "wide.sql", "raw": {"format": format}}]
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}), "utf-8")


def planned(folder: Path) -> dict[str, Any]:
    """Return the texts' bytes, and what Spark needed; runs in a checkout's own Python."""
    from cdc_views_spark.session import open_session

    from cdc_views import Project
    from cdc_views.landing.raw_table import create_raw

    table = Project.load(str(folder / "cdc_views.yml")).table("shop.wide")
    context = getattr(table, "_context", table)
    create_raw(context.raw, format_name=context.format.name)
    texts = {name: table.sql(name) for name in ("duckdb", "spark", "bigquery")}
    found: dict[str, Any] = {f"{name} kB": round(len(text.encode()) / 1000, 1) for name, text in texts.items()}
    found["lines"] = len(texts["spark"].splitlines())
    query = texts["spark"].split(" AS\n", 1)[1]
    session = open_session(warehouse=folder / "spark")
    for turn in ("first", "second"):
        plan, frame = spent(lambda: _planned(session, query))
        answer, rows = spent(frame.collect)
        assert rows == []
        found[f"{turn} plan"], found[f"{turn} answer"] = str(plan), str(answer)
    found["heap MiB"] = _peak(session)
    session.stop()
    return found


def _planned(session: Any, query: str) -> Any:
    frame = session.sql(query)
    frame._jdf.queryExecution().executedPlan()
    return frame


def _peak(session: Any) -> int:
    pools = session._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return round(sum(pool.getPeakUsage().getUsed() for pool in pools if str(pool.getType()) == "Heap memory") / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--trees", nargs="*", default=[], metavar="NAME=CHECKOUT")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(planned(args.child)))
        return
    trees = {"now": sys.executable, **{name: f"{path}/.venv/bin/python" for name, path in (t.split("=", 1) for t in args.trees)}}
    for columns in args.columns:
        for format in TYPES:
            for name, python in trees.items():
                with tempfile.TemporaryDirectory() as folder:
                    written(Path(folder), format=format, columns=columns)
                    command = [python, str(HERE), "--child", folder]
                    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
                said = done.stdout.strip().splitlines()
                print(
                    f"{format}, {columns} columns, {name}: {said[-1] if said and not done.returncode else done.stderr[-600:]}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
