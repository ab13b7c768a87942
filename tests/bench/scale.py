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

GB, TB = 10**9, 10**12


def plan(table: Table, where: str | None) -> str:
    """Return the SQL of a read of state and tail."""
    sources = sources_of(table.raw, table.state_location, where=where)
    return DuckDbEngine().sql(Read(table.raw, as_of=1, where=where, sources=sources))


def land(table: Table) -> Any:
    """Land 100 events of a stream."""
    lander = table.stream("agent-1")
    begin = lander.position() or Position(0)
    events = [StreamEvent(Position(begin.at + 1 + n), event(n).encode()) for n in range(100)]
    return lander.land(events, through=events[-1].position, now=datetime.now(timezone.utc))


STEPS: dict[str, Callable[[Table], Any]] = {
    "open raw": lambda table: len(TableLog.open(table.raw.location).added),
    "open state": lambda table: open_state(table.state_location, table.raw.relation, raw=TableLog.open(table.raw.location)),
    "plan a lookup": lambda table: plan(table, "id = 7"),
    "plan a full read": lambda table: plan(table, None),
    "land": land,
    "materialize a tail": lambda table: table.materialize(),
    "materialize nothing": lambda table: table.materialize(),
    "checkpoint of raw": lambda table: opened(table.raw.location).create_checkpoint(),
    "checkpoint of state": lambda table: opened(table.state_location).create_checkpoint(),
}


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
            for step in STEPS:
                repeats = 1 if step == "materialize a tail" else rounds
                costs = [measured(step, disk) for _ in range(repeats)]
                with server.counting() as asked:
                    measured(step, store)
                wall, cpu = (statistics.median(cost[kind] for cost in costs) for kind in ("wall", "cpu"))
                methods = dict(Counter(request.split()[0] for request in asked.elements()))
                most = max(cost["memory"] for cost in costs)
                say(f"  {step:20} {wall:6.2f} s  {cpu:6.2f} CPU s  {most:5.0f} MiB  {methods}")


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
