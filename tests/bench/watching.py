"""What a producer's process costs while it lands: events a second, CPU, memory at each tenth, and its lag at a pace.

Where the machine does other work too, seconds of CPU tell more than seconds; ratios are of figures of one run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATHS = [str(ROOT), str(ROOT / "producers"), str(ROOT / "spark"), str(ROOT / "tests")]
MANY = 1_000_000
"""Events from which on memory is asked to stay flat."""
_FLAT = 1.25
_LOAD_SECONDS, _TICKS, _SETTLED_AFTER = 20, 10, 3.0

Figures = dict[str, Any]


def rates(events: int, seconds: float, cpu: float | None, **more: Any) -> Figures:
    """Return what is told of every subject; `cpu` None: not known."""
    found = {"events": events, "seconds": round(seconds, 2), "events_a_second": round(events / max(seconds, 0.001)), **more}
    if cpu is not None:
        found |= {"cpu_seconds": round(cpu, 2), "events_a_cpu_second": round(events / max(cpu, 0.001))}
    return found


def memory_mib(process: int, name: str) -> int:
    """A figure of /proc: VmHWM, the peak, or VmRSS; 0 where the process is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith(f"{name}:")), 0)


def cpu_seconds(process: int) -> float:
    """Seconds of CPU that a process has used, all its threads."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def thread_seconds(process: int) -> dict[int, float]:
    """Seconds of CPU by thread."""
    found = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        found[int(task.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def environment_of(server: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that talks to a server of the tests."""
    return {**os.environ, **server, "PYTHONPATH": os.pathsep.join(PATHS)}


def timed(command: Sequence[str], environment: Mapping[str, str], *, events: int) -> Figures:
    """Run a raw client's loop in a process of its own; its start is part of the time."""
    begun, peak, cpu = time.monotonic(), 0, 0.0
    process = subprocess.Popen(command, env=environment)
    while process.poll() is None:
        peak, cpu = max(peak, memory_mib(process.pid, "VmHWM")), max(cpu, cpu_seconds(process.pid))
        time.sleep(0.05)
    assert process.returncode == 0, process.returncode
    return rates(events, time.monotonic() - begun, cpu, peak_mib=peak)


def read_bare(arguments: Sequence[str], environment: Mapping[str, str], *, events: int, folder: Path) -> Figures:
    """Run the producer's own reader, which writes lines to nowhere; from the first event on."""
    command = [sys.executable, str(HERE / "bare_reader.py"), str(events), "produce", *arguments, "--listen", "none"]
    with (folder / "reader.log").open("wb") as log:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, timeout=1800)
    assert done.returncode == 0, (folder / "reader.log").read_text()[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return rates(found["events"], found["seconds"], found["cpu_seconds"])


@dataclass
class Watched:
    """A producer at work: `sample` it until all has landed, then ask for its `figures`."""

    process: int
    events: int
    _begun: float = field(init=False)
    _used: float = field(init=False)
    _threads: dict[int, float] = field(init=False)
    _seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun, self._used = time.monotonic(), cpu_seconds(self.process)
        self._threads = thread_seconds(self.process)

    def sample(self, landed: int) -> None:
        """Look at its memory, if another tenth has landed."""
        while len(self._seen) < min(10, 10 * landed // self.events):
            self._seen.append(memory_mib(self.process, "VmRSS"))

    def figures(self, reader: Figures) -> Figures:
        """What it cost, beside its reader alone; call it when all has landed."""
        self.sample(self.events)
        found = rates(self.events, time.monotonic() - self._begun, cpu_seconds(self.process) - self._used)
        found |= {"peak_mib": memory_mib(self.process, "VmHWM"), "mib_at_each_tenth": self._seen}
        found["of_reader"] = ratio(found, reader)
        spent = [used - self._threads.get(one, 0.0) for one, used in thread_seconds(self.process).items()]
        found["cpu_of_the_busiest_threads"] = [round(seconds, 1) for seconds in sorted(spent)[:-4:-1]]
        if self.events >= MANY:
            found["memory_is_flat"] = self._seen[-1] <= _FLAT * self._seen[2]
        return found


def watched(process: subprocess.Popen[bytes], events: int, address: str) -> Watched:
    """Wait until everything has landed; the clock begins when the first event has been read, as the reader's does.

    With the first commit would be too late: the queue is full by then, of events that were read at no cost.
    """
    found: Watched | None = None
    while True:
        time.sleep(0.02 if found is None else 0.5)  # each answer is work for the producer
        assert process.poll() is None, "the producer ended"
        try:
            landed = int(metric(address, "events_total"))
            if found is None and landed + metric(address, "queue_rows"):
                found = Watched(process.pid, events)
        except OSError:
            continue  # it does not listen yet
        if found is not None:
            found.sample(landed)
            if landed >= events:
                return found


def ratio(one: Figures, other: Figures) -> float:
    """Events a second of the one, in those of the other."""
    return round(one["events_a_second"] / other["events_a_second"], 3)


def lag_at(per_second: int, write: Callable[[int], object], address: str) -> Figures:
    """Write at a pace for a while, `write` so many events at a time, and ask the producer's metrics for its lag.

    Beside the lag that it tells, which is as exact as the source's clock, how long the oldest write that has not landed waits.
    """
    told, waits, writes = list[float](), list[float](), list[float]()
    before, begun, each = metric(address, "events_total"), time.monotonic(), max(1, per_second // _TICKS)
    for tick in range(_LOAD_SECONDS * _TICKS):
        write(each)
        writes.append(time.monotonic())
        if tick % 5 == 4 and tick > _SETTLED_AFTER * _TICKS:
            told.append(metric(address, "lag_seconds"))
            whole = int(metric(address, "events_total") - before) // each
            waits.append(time.monotonic() - writes[whole] if whole < len(writes) else 0.0)
        time.sleep(max(0.0, begun + (tick + 1) / _TICKS - time.monotonic()))
    written = each * _LOAD_SECONDS * _TICKS / (time.monotonic() - begun)
    return {
        "load_a_second": round(written),
        "lag_median_s": round(statistics.median(told), 2),
        "lag_max_s": round(max(told), 2),
        "oldest_median_s": round(statistics.median(waits), 2),
        "oldest_max_s": round(max(waits), 2),
    }


def metric(address: str, name: str) -> float:
    """A metric of a producer, summed over its tables; `address` is of its `--listen`."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"cdc_views_{name}{{"))


def told(found: Mapping[str, Figures], file: Path) -> None:
    """Print and write the figures of all subjects; ends the process with 1 where memory grew."""
    for who, figures in found.items():
        print(f"{who}: {json.dumps(figures)}", flush=True)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n")
    if any(figures.get("memory_is_flat") is False for figures in found.values()):
        sys.exit("memory grew by more than a quarter after the third tenth of the events")
