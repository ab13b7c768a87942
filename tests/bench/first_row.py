"""The first rows of a wide table on Spark: CPU and wall seconds of the first reads of a JVM, before and now.

    python tests/bench/first_row.py [--rounds 1]

The table is captured from Cassandra: `hid211.orders`, 15 columns, 4,107 facts. Each way has a JVM of its own. `before` is a plan
of `aggregate` over Delta's own scan and with Spark's usual code cache, `plan` the same strategy now, `auto` what a user gets.
CPU is of the JVM and of Spark's Python workers. Prints one line a read, and how many times less CPU `auto` takes than `before`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cdc_views_spark.compile import Compiler
from cdc_views_spark.engine import SparkEngine
from cdc_views_spark.reading import in_layout
from cdc_views_spark.session import open_session
from deltalake import write_deltalake
from spent import spent

from cdc_views.engines.base import Read, ask_of
from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.model.strategy import Strategy
from cdc_views.plan.build import build
from cdc_views.plan.parts import Source
from cdc_views.plan.rewrites import lowered
from cdc_views.schemas import read_schema
from cdc_views.storage.relation import RawTable, Relation

CASES = Path(__file__).parents[1] / "data" / "cassandra_cases.tar.xz"
WAYS = ("before", "plan", "auto")
READS = 3


def land(folder: Path) -> tuple[str, int]:
    """Land the table; return its location, and when Cassandra was asked."""
    relation = relation_in(folder)
    lines = [line for n in (1, 2, 3) for line in (folder / "wide3" / f"node{n}.jsonl").read_text("utf-8").splitlines()]
    facts = [fact for line in lines for fact in CassandraMutation().decode(SourceLine(line), relation.schema)]
    write_deltalake(str(folder / "raw"), relation.rows(facts, landed_at=0))
    answer = json.loads((folder / "wide3" / "expected_late.json").read_text("utf-8"))
    return str(folder / "raw"), answer["as_of"]


def relation_in(folder: Path) -> Relation:
    """The table's relation."""
    return Relation(read_schema(folder / "wide3" / "schema.cql", table="hid211.orders"))


def read_before(engine: SparkEngine, read: Read) -> Any:
    """The plan over Delta's scan of the newest version."""

    def raw() -> Any:
        return in_layout(engine.session.read.format("delta").load(read.raw.location), read.raw.relation)

    return Compiler({Source.ALL: raw}).dataframe(lowered(build(ask_of(read)))).toArrow()


def measure(way: str, folder: Path, as_of: int) -> None:
    """Read several times in a new JVM; print a line of JSON for each."""
    options = {"spark.sql.codegen.cache.maxEntries": "100"} if way == "before" else {}
    with SparkEngine(open_session(warehouse=folder / f"warehouse-{way}", options=options)) as engine:
        strategy = Strategy.AUTO if way == "auto" else Strategy.AGGREGATE
        read = Read(RawTable(str(folder / "raw"), relation_in(folder)), as_of, strategy=strategy)
        for number in range(READS):
            took, rows = spent(lambda: read_before(engine, read) if way == "before" else engine.read(read))
            print(json.dumps({"way": way, "read": number + 1, "rows": rows.num_rows, **asdict(took)}), flush=True)


def main() -> None:
    """Measure every way, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--as-of", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        return measure(asked.way, asked.folder, asked.as_of)
    with tempfile.TemporaryDirectory(prefix="cdc-views-first-row-") as name:
        with tarfile.open(CASES) as archive:
            archive.extractall(name, filter="data")
        _, as_of = land(Path(name))
        cpu: dict[tuple[str, int], float] = {}
        for way in WAYS * asked.rounds:
            command = [sys.executable, __file__, "--way", way, "--folder", name, "--as-of", str(as_of)]
            for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
                one = json.loads(line)
                key = way, one["read"]
                cpu[key] = min(cpu.get(key, one["cpu"]), one["cpu"])
                print(
                    f"{way:7} read {one['read']}: {one['cpu']:6.2f} CPU s, {one['wall']:6.2f} s, {one['rows']} rows", flush=True
                )
        for number in range(1, READS + 1):
            print(f"read {number}: auto takes 1/{cpu['before', number] / cpu['auto', number]:.1f} of the CPU of before")
    return None


if __name__ == "__main__":
    main()
