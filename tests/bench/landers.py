"""Many landers and two materializers on one raw table of a store, for some minutes: what is lost, doubled, late, and asked.

    python tests/bench/landers.py [--landers 100] [--minutes 10] [--every 1.0] [--rate 5]

Each lander is a producer's stream of its own: every second it lands what has come since its last commit, `--rate` events a
second, as agents do. Landers are threads of a few processes; the store is moto's server on the loopback. Prints commits, lost
commits, the lag from an event to its commit, requests, and whether every event is there once in raw and in the view.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.tiny_project import event, project_at
from services import s3

from cdc_views import Project
from cdc_views.errors import TransientError
from cdc_views.landing import Position, StreamEvent, StreamLander, appending
from cdc_views.storage.table_log import TableLog

NAME = "shop.orders"
PROCESSES = 4
_LANDER = 1_000_000
"""The numbers of a lander's events begin at a multiple of it."""


class Lander:
    """A producer: events come at a steady rate, and wait until it commits."""

    def __init__(self, file: Path, number: int, *, rate: float, every: float) -> None:
        self.table, self.number, self.rate, self.every = Project.load(file).table(NAME), number, rate, every
        self.landed, self.lags, self.failures, self.commits = 0, list[float](), Counter[str](), 0

    def run(self, until: float) -> None:
        """Land until `until`, then what is left."""
        lander = StreamLander(self.table.raw, self.table.format, f"agent-{self.number}")
        begun, pause = time.time(), self.every
        while True:
            now = time.time()
            came = int((min(now, until) - begun) * self.rate)
            if came > self.landed:
                pause = self._land(lander, came, begun)
            if now >= until and self.landed >= came:
                return
            time.sleep(min(pause, max(0.1, until - time.time())) if now < until else 0.1)

    def _land(self, lander: StreamLander, came: int, begun: float) -> float:
        numbers = range(self.landed, came)
        events = [StreamEvent(Position(n), event(self.number * _LANDER + n).encode()) for n in numbers]
        try:
            report = lander.land(events, through=events[-1].position, now=datetime.now(timezone.utc))
        except TransientError as error:
            self.failures[str(error).split(": ", 1)[-1][:80]] += 1
            return self.every
        done = time.time()
        self.lags += [done - (begun + (n + 1) / self.rate) for n in numbers]
        self.landed, self.commits = came, self.commits + 1
        return max(self.every, report.pause)


def landers(file: str, numbers: list[int], rate: float, every: float, until: float, told: Any) -> None:
    """Run some landers as threads of this process, and tell what they did."""
    lost, real = Counter[str](), appending.Commit.write

    def counted(self: Any, folder: Any, *, after: int) -> bytes:
        try:
            return real(self, folder, after=after)
        except Exception as error:
            lost[type(error).__name__] += 1
            raise

    appending.Commit.write = counted  # type: ignore[method-assign]
    mine = [Lander(Path(file), number, rate=rate, every=every) for number in numbers]
    threads = [threading.Thread(target=lander.run, args=(until,)) for lander in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put(
        {
            "landed": {lander.number: lander.landed for lander in mine},
            "lags": [lag for lander in mine for lag in lander.lags],
            "commits": sum(lander.commits for lander in mine),
            "failures": sum((lander.failures for lander in mine), Counter[str]()),
            "lost": lost,
        }
    )


def materializer(file: str, until: float, told: Any) -> None:
    """Materialize until `until`, and tell how often and how long it took."""
    table, spent, failures = Project.load(file).table(NAME), list[float](), Counter[str]()
    while time.time() < until:
        begun = time.time()
        try:
            table.materialize()
            spent.append(time.time() - begun)
        except TransientError as error:
            failures[str(error).split(": ", 1)[-1][:80]] += 1
        time.sleep(1)
    told.put({"spent": spent, "failures": failures})


def run(count: int, minutes: float, every: float, rate: float, say: Callable[[str], None] = print) -> bool:
    """Simulate, print, and return whether every event is there once."""
    with tempfile.TemporaryDirectory() as name, s3.running(Path(name)) as server:
        file, spawn = project_at(Path(name), f"{server.url()}/lake", server.options()), mp.get_context("spawn")
        first = StreamLander(Project.load(file).table(NAME).raw, Project.load(file).table(NAME).format, "first")
        first.land([StreamEvent(Position(0), event(0).encode())], through=Position(0), now=datetime.now(timezone.utc))
        told, kept, until = spawn.Queue(), spawn.Queue(), time.time() + 60 * minutes
        shares = [[*range(1 + part, count + 1, PROCESSES)] for part in range(PROCESSES)]
        jobs = [spawn.Process(target=landers, args=(str(file), share, rate, every, until, told)) for share in shares if share]
        keepers = [spawn.Process(target=materializer, args=(str(file), until, kept)) for _ in range(2)]
        with server.counting() as asked:
            for job in (*jobs, *keepers):
                job.start()
            found, runs = [told.get() for _ in jobs], [kept.get() for _ in keepers]
            for job in (*jobs, *keepers):
                job.join()
        return _told(Project.load(file), found, runs, asked, say, minutes=minutes)


def _told(
    opened: Project, found: list[Any], runs: list[Any], asked: Counter[str], say: Callable[[str], None], *, minutes: float
) -> bool:
    table, log = opened.table(NAME), TableLog.open(opened.table(NAME).raw.location)
    wanted = {0} | {lander * _LANDER + n for one in found for lander, landed in one["landed"].items() for n in range(landed)}
    table.materialize()
    raw, view = ({*table.query(raw_only=only).to_arrow()["id"].to_pylist()} for only in (True, False))
    facts = sum(file.rows for file in log.added.values())
    commits, lost = sum(one["commits"] for one in found), sum((one["lost"] for one in found), Counter[str]())
    failed, gave_up = (dict(sum((one["failures"] for one in some), Counter[str]())) for some in (found, runs))
    lags, spent = (sorted(value for one in some for value in one[name]) for some, name in ((found, "lags"), (runs, "spent")))
    methods = dict(Counter(request.split()[0] for request in asked.elements()))
    say(f"events {len(wanted):,}: missing {len(wanted - raw):,}, doubled {facts - len(wanted):,}")
    say(f"view: {len(raw ^ view):,} rows other than raw's")
    say(f"commits {commits:,}, {commits / minutes / 60:.1f} a second; lost to another's {dict(lost)}; given up {failed}")
    say(f"lag: median {statistics.median(lags):.1f} s, 99 % within {lags[int(len(lags) * 0.99)]:.1f} s, most {lags[-1]:.1f} s")
    say(f"materialize {len(spent)} times, median {statistics.median(spent):.1f} s, most {spent[-1]:.1f} s; given up {gave_up}")
    say(f"requests {asked.total():,} {methods}, {asked.total() / max(1, commits):.0f} a commit; raw version {log.version:,}")
    return wanted == raw == view and facts == len(wanted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--landers", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=5.0)
    given = parser.parse_args()
    raise SystemExit(0 if run(given.landers, given.minutes, given.every, given.rate) else 1)
