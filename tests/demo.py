"""`make demo`: real events of three Cassandra replicas become the table that Cassandra itself answers.

The events and the answers were captured from a three-node Cassandra 5.0.9 cluster (tests/data/README.md).
"""

from __future__ import annotations

import itertools
import json
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cdc_views.api import Project
from cdc_views.engines.base import Engine, Read
from cdc_views.engines.plugin import open_engine
from cdc_views.errors import CheckFailedError
from cdc_views.operations.result import Result
from cdc_views.rules.codec.jsontext import quote
from cdc_views.table import Table

CASES = Path(__file__).parent / "data" / "cassandra_cases.tar.xz"
TABLES = (("wide3", "hid211.orders"), ("exotic3", "hid413.exotic"), ("names3", "hid311.OrderItems"), ("types3", "hid111.typed"))
SHOWN = "hid211.orders"
"""The table whose SQL and rows the demo prints."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured case: its folder, its table, and what `SELECT JSON` answered at an instant (epoch seconds)."""

    folder: Path
    table: str

    @property
    def events(self) -> list[Path]:
        """The commit logs of the three replicas, as JSON lines."""
        return sorted(self.folder.glob("node*.jsonl"))

    def expected(self, which: str) -> tuple[int, list[str]]:
        """Return (instant, rows as canonical text) of the early or late answer."""
        answer = json.loads((self.folder / f"expected_{which}.json").read_text())
        return answer["as_of"], [canonical(_plain(_exactly(row))) for row in answer["rows"]]


def _exactly(text: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return row


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """SELECT JSON keeps CQL's quotes in the name of a column that has capitals; we don't."""
    return {name[1:-1] if name[:1] == name[-1:] == '"' and name != name.lower() else name: v for name, v in row.items()}


def canonical(row: dict[str, Any]) -> str:
    """Return a row as text that is equal exactly for equal rows: members sorted, numbers by value and sign."""
    return json.dumps(row, sort_keys=True, default=lambda number: float(number) if isinstance(number, Decimal) else number)


def unpack(folder: Path) -> list[Captured]:
    """Unpack the captured cases into `folder`."""
    with tarfile.open(CASES) as archive:
        archive.extractall(folder, filter="data")
    return [Captured(next(folder.glob(f"**/{case}")), table) for case, table in TABLES]


def write_project(folder: Path, cases: list[Captured]) -> Project:
    """Write and load a project of all cases; what `cdc-views init` would write for each."""
    lines = ["name: demo", "engine: duckdb", "warehouse: ./warehouse", "tables:"]
    for case in cases:
        schema = (case.folder / "schema.cql").relative_to(folder)
        lines += [f"  - name: {case.table}", f"    schema: {schema}", "    raw: {format: cassandra-mutation}"]
    file = folder / "cdc_views.yml"
    file.write_text("\n".join(lines) + "\n")
    return Project.load(file)


def differences(project: Project, case: Captured, *, which: str, engine: Engine) -> tuple[int, int]:
    """Return (rows that Cassandra answered, rows that differ) for one case, instant and open engine."""
    now, expected = case.expected(which)
    table = project.table(case.table)
    read = engine.read(Read(table.raw, as_of=now))
    found = [canonical(_exactly(row)) for row in _json_lines(Result(table.relation, _columns(table), read, now))]
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return len(expected), max(sum(missing.values()), sum(extra.values()))


def _columns(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.schema.columns)


def _json_lines(result: Result) -> Iterator[str]:
    for row in result.json_rows():
        yield "{" + ", ".join(f"{quote(name)}: {text}" for name, text in row.items()) + "}"


def _say(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def _engines(project: Project) -> Iterator[list[Engine]]:
    duck = open_engine("duckdb", project.config, folder=project.warehouse)
    _say("\nstarting Spark (the first time fetches Java and the Delta jars if the machine has none) ...")
    start = time.perf_counter()
    spark = open_engine("spark", project.config, folder=project.warehouse)
    _say(f"  Spark is up after {time.perf_counter() - start:.1f} s")
    try:
        yield [duck, spark]
    finally:
        duck.close()
        spark.close()


def _land(project: Project, cases: list[Captured]) -> None:
    _say("1. landing what each replica's commit log held (append-only Delta tables, no JVM)")
    for case in cases:
        table = project.table(case.table)
        start = time.perf_counter()
        report = table.land(*case.events)
        seconds = time.perf_counter() - start
        distinct = len({_without_origin(line) for file in case.events for line in file.read_text().splitlines()})
        _say(f"   {case.table:20} {report.events:5} raw events, {distinct:4} distinct mutations   {seconds:.2f} s")


def _without_origin(line: str) -> str:
    event = json.loads(line)
    return json.dumps({name: value for name, value in event.items() if name not in ("node", "segment", "position")})


def _compare(project: Project, cases: list[Captured]) -> int:
    total = 0
    with _engines(project) as engines:
        _say("\n3. the merged tables, compared with what SELECT JSON answered (early, and late: after TTLs ran out)")
        for case, engine, which in itertools.product(cases, engines, ("early", "late")):
            start = time.perf_counter()
            rows, wrong = differences(project, case, which=which, engine=engine)
            seconds = time.perf_counter() - start
            total += wrong
            equal = f"{rows - wrong} of {rows} rows equal Cassandra's"
            _say(f"   {case.table:20} {engine.name:7} {which:6} {equal:38} {seconds:6.2f} s")
    return total


def main() -> int:
    """Run the demo; 0 when every row equals Cassandra's, else 1."""
    with tempfile.TemporaryDirectory(prefix="cdc-views-demo-") as name:
        folder = Path(name)
        cases = unpack(folder)
        project = write_project(folder, cases)
        _land(project, cases)
        _say(f"\n2. the generated view of {SHOWN} (DuckDB; all of it: cdc-views generate)\n")
        sql = project.table(SHOWN).sql("duckdb").splitlines()
        _say("\n".join(["   " + line for line in sql[:18]] + [f"   ... {len(sql) - 18} more lines"]))
        wrong = _compare(project, cases)
        _say("\n4. five of its rows, as `cdc-views query hid211.orders --limit 5 --format jsonl` prints them")
        now, _ = cases[0].expected("early")
        for line in _json_lines(project.table(SHOWN).query(as_of=now, limit=5)):
            _say("   " + line)
        _say("\nall rows equal Cassandra's" if not wrong else f"\n{wrong} rows differ from Cassandra's")
    return 0 if not wrong else CheckFailedError.exit_code


if __name__ == "__main__":
    sys.exit(main())
