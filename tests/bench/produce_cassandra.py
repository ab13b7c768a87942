"""`make bench-producers`, Cassandra: the agent's speed without a node. Copies of a captured segment are read and landed.

Beside it the bare Java reader, which writes lines of the wire format to nowhere, or the rows that the agent takes in
their place. The goal is half the pace of lines. A segment has 5,400 mutations of three tables; how many segments may be
given (60; 186 are a million mutations). CPU is told beside the clock: on a machine that does other things it says more.
Then segments come one by one at half of the agent's pace: a segment's lag is from when it is there until it has landed
and the agent has let go of it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "producers")]

from cdc_producers.cassandra.columns import ColumnPlan  # noqa: E402
from cdc_producers.cassandra.node_schema import schema_of_text  # noqa: E402
from cdc_producers.cassandra.options import CassandraOptions  # noqa: E402
from cdc_producers.cassandra.reader import CommitLogReader  # noqa: E402
from cdc_producers.cassandra.segments import WHOLE, segments_in  # noqa: E402
from cdc_producers.cassandra.source import CassandraSource  # noqa: E402
from cdc_producers.metrics import Health, Metrics  # noqa: E402
from cdc_producers.runtime import Runtime  # noqa: E402
from helpers.captured_cassandra import CAPTURED, copy, log_of, unpacked  # noqa: E402
from services.cassandra import jars  # noqa: E402
from watching import memory_mib  # noqa: E402

from cdc_views.cli.producing import targets_of  # noqa: E402
from cdc_views.landing.targets import ProducerOrder  # noqa: E402
from cdc_views.schemas.cql.reader import read_cql  # noqa: E402
from cdc_views.storage.relation import Relation  # noqa: E402

SEGMENT = 5400
"""Mutations of a captured segment."""
LOAD_SECONDS = 30
TABLES = ("shop.orders", "shop.typed", "shop.sales")
PROJECT = "name: bench\nengine: duckdb\nwarehouse: ./warehouse\ntables:\n" + "".join(
    f"  - {{name: {name}, schema: shop.cql, raw: {{format: cassandra-mutation}}}}\n" for name in TABLES
)


class Quiet:
    """A log that only shows warnings."""

    def info(self, message: str, **facts: Any) -> None:
        pass

    def warning(self, message: str, **facts: Any) -> None:
        print("warning:", message[:300])


def peak(pid: int | str = "self") -> float:
    """A process's most memory so far, MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def bare(folder: Path, work: Path, *, as_lines: bool) -> tuple[int, float, float, float]:
    """Mutations, seconds, Java's CPU seconds and its peak of reading all of it and throwing it away; one segment warms it up."""
    text = (folder / "schema.cql").read_text()
    schema = schema_of_text(text, "schema.cql")
    reader = CommitLogReader(CassandraOptions(cassandra_lib=jars(), work_folder=work), "10.0.0.1", Quiet())
    reader.start()
    ids = [table.id for name in TABLES if (table := schema.table(name)) is not None]
    reader.take(schema, ids, plans=[ColumnPlan(Relation(read_cql(text).table(name)), "10.0.0.1") for name in TABLES])
    count, begun, used = 0, 0.0, 0.0
    for place, segment in enumerate(segments_in(folder / "cdc_raw")):
        if place == 1:
            begun, used = time.perf_counter(), cpu(reader._process.pid)
        path = str(segment.log.resolve())
        reader._send(
            {
                "do": "read",
                "path": path,
                "segment": segment.id,
                "from": 0,
                "limit": WHOLE,
                "passes_over": False,
                "as_lines": as_lines,
            }
        )
        while reader._frame()[0] in b"EC":
            pass
        count += SEGMENT if place else 0
    took, used, memory = time.perf_counter() - begun, cpu(reader._process.pid) - used, peak(reader._process.pid)
    reader.close()
    return count, took, used, memory


def cpu(pid: int | str = "self") -> float:
    """CPU seconds of a process so far."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Watched:
    """What an agent did, from its first read to its last commit."""

    events: int = 0
    seconds: float = 0.0
    python_cpu: float = 0.0
    java_cpu: float = 0.0
    java_peak: float = 0.0
    memory: list[str] = field(default_factory=list)
    """MiB of Python and of Java each time another tenth has landed."""


def made(folder: Path, work: Path, stop: Event) -> tuple[CassandraSource, Runtime]:
    """The agent that lands the folder's segments until it is told to stop."""
    (folder / "shop.cql").write_text((folder / "schema.cql").read_text())
    (folder / "cdc_views.yml").write_text(PROJECT)
    log = Quiet()
    targets = targets_of(folder / "cdc_views.yml", (), format_name="cassandra-mutation", log=log)
    options = CassandraOptions(
        cassandra_lib=jars(), work_folder=work, schema_file=folder / "schema.cql", cdc_folder=folder / "cdc_raw"
    )
    source = CassandraSource({t.name: t for t in targets}, options, log, Health())
    return source, Runtime(source, ProducerOrder(targets, log, stop, listen=None), Metrics("cassandra"), health=source.health)


def agent(folder: Path, work: Path, *, expected: int) -> Watched:
    """Land all segments of the folder, which hold so many mutations."""
    stop, seen = Event(), Watched()
    source, runtime = made(folder, work, stop)

    def landed() -> int:
        return int(sum(runtime.metrics.events(name)._value.get() for name in TABLES))

    def watch() -> None:
        while source._work is None or not source._work.read_to:
            time.sleep(0.01)
        reader = source._work.reader._process.pid
        begun, python, java = time.perf_counter(), cpu(), cpu(reader)
        while any((folder / "cdc_raw").glob("*.log")):
            time.sleep(0.05)
            seen.java_peak = max(seen.java_peak, peak(reader))
            seen.java_cpu = cpu(reader) - java
            if landed() >= (len(seen.memory) + 1) * expected // 10:
                seen.memory.append(f"{memory_mib(os.getpid(), 'VmRSS')}+{memory_mib(reader, 'VmRSS')}")
        seen.events = landed()
        seen.seconds, seen.python_cpu = time.perf_counter() - begun, cpu() - python
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    runtime.run()
    return seen


def lags(folder: Path, work: Path, segment: Path, *, per_second: float) -> list[float]:
    """Seconds that each segment waits where they come at such a pace of mutations; the first few warm the agent up."""
    stop, there, found = Event(), {}, []
    runtime = made(folder, work, stop)[1]
    coming = folder / "cdc_raw"

    def look() -> None:
        for path in [path for path in there if not path.exists()]:
            found.append(time.perf_counter() - there.pop(path))

    def feed() -> None:
        begun = time.perf_counter()
        for number in range(int(LOAD_SECONDS * per_second / SEGMENT)):
            while time.perf_counter() < begun + number * SEGMENT / per_second:
                time.sleep(0.005)
                look()
            path = copy(segment, coming, 1_000_000 + number)
            there[path] = time.perf_counter()
        while there:
            time.sleep(0.005)
            look()
        stop.set()

    threading.Thread(target=feed, daemon=True).start()
    runtime.run()
    return found[len(found) // 5 :]


def main(segments: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-bench-"))
    try:
        capture = unpacked(folder)
        shutil.copy(capture / "schema.cql", folder)
        (folder / "cdc_raw").mkdir()
        for number in range(1, segments + 1):
            copy(log_of(capture, CAPTURED), folder / "cdc_raw", number)
        print(f"load before: {os.getloadavg()[0]:.1f}")
        paces = []
        for as_lines in (True, False):
            count, took, used, java = bare(folder, folder / "work", as_lines=as_lines)
            paces.append(count / took)
            what = "lines" if as_lines else "rows "
            print(
                f"bare reader, {what}: {count / took:9,.0f} /s, {count / used:9,.0f} a CPU second   Java {java:4.0f} MiB",
                flush=True,
            )
        seen = agent(folder, folder / "work", expected=count)
        used = seen.python_cpu + seen.java_cpu
        print(f"agent, landed      : {seen.events / seen.seconds:9,.0f} /s, {seen.events / used:9,.0f} a CPU second", end=" ")
        print(f"(Python {seen.python_cpu:.1f} s, Java {seen.java_cpu:.1f} s)", end="   ")
        print(f"Java {seen.java_peak:4.0f} MiB, Python {peak():4.0f} MiB")
        of_lines, of_rows = (seen.events / seen.seconds / pace for pace in paces)
        print(f"of the bare reader of lines {of_lines:.2f}, of rows {of_rows:.2f}", end="   ")
        print(f"MiB at each tenth: {', '.join(seen.memory)}", flush=True)
        half = seen.events / seen.seconds / 2
        waited = lags(folder, folder / "again", log_of(capture, CAPTURED), per_second=half)
        print(f"lag at {half:,.0f} /s: {statistics.median(waited):.2f} s, at most {max(waited):.2f} s, {len(waited)} segments")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
