"""What a table costs by the number of its files: time, memory, requests to a store, and their price.

    python tests/bench/scale.py [--files 0 10000 30000 100000] [--rounds 3]

Raw and state have so many files of 100 MB in their logs; the files are not there, since no step below reads one. Each step is a
process of its own: seconds and CPU seconds of the step are medians, memory is the greatest of the process. Requests are those of
one process to moto's server, counted once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.tiny_project import event
from scale_logs import FILE_BYTES, NAME, project_with
from services import s3
from spent import spent
from watching import memory_mib

from cdc_views import Project
from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.landing import Position, StreamEvent
from cdc_views.state import sources_of
from cdc_views.state.state_table import open_state
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.table_log import TableLog
from cdc_views.table import Table

TB, MONTH = 10**12, 30 * 86_400
DOLLARS = {"PUT": 5e-6, "LIST": 5e-6, "POST": 5e-6, "GET": 4e-7, "HEAD": 4e-7, "DELETE": 0.0}
"""The price of a request, by the list of S3 Standard in us-east-1; Azure's and Google's lists have the same order."""
DOLLARS_A_GB = 0.023
"""A month of storage."""


def plan(table: Table, where: str | None) -> str:
    """Return the SQL of a read of state and tail."""
    sources = sources_of(table.raw, table.state_location, where=where)
    return DuckDbEngine().sql(Read(table.raw, as_of=1, where=where, sources=sources))


def land(table: Table, *, times: int = 1) -> None:
    """Land 100 events of a stream, as often as `times`."""
    lander = table.stream("agent-1")
    begin = lander.position() or Position(0)
    for number in range(times):
        events = [StreamEvent(Position(begin.at + 1 + 100 * number + n), event(n).encode()) for n in range(100)]
        lander.land(events, through=events[-1].position, now=datetime.now(timezone.utc))


def materialize(table: Table, *, times: int = 1) -> None:
    """Land 100 events and materialize them, as often as `times`, as one process that goes on."""
    for _ in range(times):
        land(table)
        table.materialize()


STEPS: dict[str, Callable[[Table], Any]] = {
    "open raw": lambda table: len(TableLog.open(table.raw.location).added),
    "open state": lambda table: open_state(table.state_location, table.raw.relation, raw=TableLog.open(table.raw.location)),
    "plan a lookup": lambda table: plan(table, "id = 7"),
    "plan a full read": lambda table: plan(table, None),
    "land": land,
    "materialize a tail": lambda table: table.materialize(),
    "materialize nothing": lambda table: table.materialize(),
    "land three times": lambda table: land(table, times=3),
    "land and materialize": materialize,
    "the same three times": lambda table: materialize(table, times=3),
    "checkpoint of raw": lambda table: opened(table.raw.location).create_checkpoint(),
    "checkpoint of state": lambda table: opened(table.state_location).create_checkpoint(),
}
_REPEATED = ("open raw", "open state", "plan a lookup", "plan a full read", "land", "materialize nothing")


def one(step: str, folder: Path) -> None:
    """Run a step in this process, and print what it cost."""
    table = Project.load(folder / "cdc_views.yml").table(NAME)
    before = memory_mib("self", "VmRSS")
    cost, _ = spent(lambda: STEPS[step](table))
    print(json.dumps({"wall": cost.wall, "cpu": cost.cpu, "memory": memory_mib("self", "VmHWM") - before}))


def measured(step: str, folder: Path) -> dict[str, float]:
    """Run a step in a process of its own; return what it cost."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))


def run(files: Sequence[int], rounds: int, say: Callable[[str], None] = print) -> None:
    """Measure each step for each number of files, and print a line for both."""
    with tempfile.TemporaryDirectory() as name, s3.running(Path(name)) as server:
        for number in files:
            disk, store = Path(name) / f"disk{number}", Path(name) / f"store{number}"
            disk.mkdir(), store.mkdir()
            project_with(disk, str(disk / "warehouse"), {}, number)
            table = project_with(store, f"{server.url()}/{number}", server.options(), number)
            say(f"{number:,} files of {FILE_BYTES // 10**6} MB each in raw and in state, {number * FILE_BYTES / TB:,.1f} TB each")
            for what, location in (("raw", table.raw.location), ("state", table.state_location)):
                log = TableLog.open(location)
                size = sum(place.stat().st_size for place in log.folder.rglob("*.checkpoint.parquet"))
                say(f"  checkpoint of {what}: {size / 10**6:.1f} MB")
            seen = dict[str, Counter[str]]()
            for step in STEPS:
                repeats = rounds if step in _REPEATED else 1
                costs = [measured(step, disk) for _ in range(repeats)]
                with server.counting() as asked:
                    measured(step, store)
                wall, cpu = (statistics.median(cost[kind] for cost in costs) for kind in ("wall", "cpu"))
                seen[step] = Counter(map(_kind, asked.elements()))
                most = max(cost["memory"] for cost in costs)
                say(f"  {step:20} {wall:6.2f} s  {cpu:6.2f} CPU s  {most:5.0f} MiB  {dict(seen[step])}")
            priced(number * FILE_BYTES, seen, say)


def _kind(request: str) -> str:
    method = request.split()[0]
    return "LIST" if method == "GET" and "list-type=" in request else method


def priced(size: int, seen: dict[str, Counter[str]], say: Callable[[str], None]) -> None:
    """Say what a month costs: of requests that a process makes each time it goes on, and of what is stored."""

    def dollars(asked: Counter[str]) -> float:
        return sum(DOLLARS[kind] * number for kind, number in asked.items())

    landing = (dollars(seen["land three times"]) - dollars(seen["land"])) / 2
    both = (dollars(seen["the same three times"]) - dollars(seen["land and materialize"])) / 2
    say(f"  a month of storage, raw alone: ${size / 1e9 * DOLLARS_A_GB:,.0f}")
    for what, each, every in (
        ("commits of landers, one a second", landing, 1),
        ("commits of landers, one a minute", landing, 60),
        ("a tail materialized every 5 minutes", both - landing, 300),
        ("`query` of a key every minute, each a new process", dollars(seen["plan a lookup"]), 60),
    ):
        say(f"  a month of requests, {what}: ${each * MONTH / every:,.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[0, 10_000, 30_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.step:
        one(given.step, given.folder)
    else:
        run(given.files, given.rounds)
