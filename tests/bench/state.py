"""`make bench-state`: what a state costs to keep and to read, in ratios within one run; writes a JSON and a plot.

A raw table of two facts a key, then tails whose keys are uniform, one materialization each, merges included. Beside
them: a plain scan of the same values, a full rebuild, a state of a tenth of the keys fed the same tails, a point lookup,
Delta's own MERGE per batch, with and without deletion vectors, and a rebuild by self-joins. Options: `--keys N`,
`--tails N`, `--engine duckdb|spark`, `--no-others`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from generate import NOW
from spent import Spent, spent
from state_data import Reader, Source, Watched, open_engine, small_results, timed
from state_others import raced
from subjects import peak_mib

from cdc_views.engines.base import Engine, Read
from cdc_views.quality.counting import counts
from cdc_views.quality.sampling import recomputed
from cdc_views.quality.validating import SAMPLED
from cdc_views.state import materialize, sources_of

OUT = Path(__file__).parent / "out"
os.environ.setdefault("RUST_LOG", "error")  # deltalake warns of each column that it keeps no statistics of
RUNS = 5
WARM_UPS = 5
"""Reads before those that count: a JVM compiles what it has run often, and what it has not takes up to twice as long."""
READ_LAST = 8
"""Tails after which the state is read: more than from one base to the next, for right after one it costs least."""
SMALLER_TAILS = 10


def tell(text: str) -> None:
    """Say it now."""
    print(f"  {text}", flush=True)


@dataclass(frozen=True)
class Pair:
    """Medians of a full read of the view and of a scan of a plain table, taken in turns: what slows one slows both.

    `planned` is the read by Spark's own plan, where `auto` takes the kernel.
    """

    read: Spent
    scan: Spent
    planned: Spent | None = None

    @property
    def ratio(self) -> float:
        """The read, in plain scans."""
        return self.read.wall / self.scan.wall

    @property
    def cpu_ratio(self) -> float:
        """The same of CPU; NaN of a scan below the clock's 10 ms."""
        return self.read.cpu / self.scan.cpu if self.scan.cpu else math.nan

    def __str__(self) -> str:
        told = f"{self.read}, scan {self.scan}: {self.ratio:.2f} x ({self.cpu_ratio:.2f} x CPU)"
        return told if self.planned is None else f"{told}; by Spark's plan {Pair(self.planned, self.scan)}"


def paired(reader: Reader, plain: str, *, by_plan: bool) -> Pair:
    """Time both; `by_plan`: on Spark, its own plan too."""
    ways: list[Callable[[], object]] = [reader.view, lambda: reader.plain(plain)]
    if by_plan and reader.engine.name == "spark":
        ways.append(reader.planned)
    rounds = [[spent(way)[0] for way in ways] for _ in range(WARM_UPS + RUNS)]
    return Pair(*(Spent.median(list(each)) for each in zip(*rounds[WARM_UPS:], strict=True)))


@dataclass
class Tails:
    """Tails that were landed and materialized: seconds of each, what it merged, and a read after it."""

    each: list[Spent] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    reads: list[Pair] = field(default_factory=list)

    @property
    def mean(self) -> Spent:
        """Seconds a tail, merges included."""
        return Spent(statistics.mean(one.wall for one in self.each), statistics.mean(one.cpu for one in self.each))

    @property
    def dearest(self) -> Spent:
        """Seconds of the dearest."""
        return Spent(max(one.wall for one in self.each), max(one.cpu for one in self.each))

    def add(self, took: Spent, *, merged: str, keys: int) -> None:
        """Note one."""
        self.each.append(took)
        self.merges.append(merged)
        tell(f"  tail {len(self.each)} of {keys:,} keys: {took} {merged}")

    def told(self) -> dict[str, Any]:
        """All of it, for JSON."""
        spent = {"each": [asdict(one) for one in self.each], "mean": asdict(self.mean), "dearest": asdict(self.dearest)}
        return {"tails": spent, "merges": self.merges}


def tails(reader: Reader, source: Source, *, count: int, facts: int, found: Tails, beside: Smaller) -> None:
    """Land and materialize so many tails, read after each of the last few, and take in some of the smaller state's between."""
    for number in range(count):
        tail(reader, source, facts=facts, found=found)
        if number >= count - READ_LAST:
            found.reads.append(read_now(reader, by_plan=number == count - 1))
        if number % max(1, count // SMALLER_TAILS) == 0:
            beside.tail(facts)


def tail(reader: Reader, source: Source, *, facts: int, found: Tails) -> None:
    """Land one and materialize it."""
    source.land(facts)
    took, done = spent(lambda: materialize(reader.engine, source.raw, reader.state))
    found.add(took, merged=done.merged, keys=source.keys)


class Smaller:
    """The same tails into a state of a tenth of the keys, between those of the large one: what slows one slows both."""

    def __init__(self, engine: Engine, folder: Path, *, keys: int) -> None:
        self._source = Source(folder / "tenth", keys=keys)
        self._reader = Reader(engine, self._source.raw, str(folder / "tenth" / "state"))
        materialize(engine, self._source.raw, self._reader.state, full=True)
        self._found = Tails()

    def tail(self, facts: int) -> None:
        """Take in one more."""
        tail(self._reader, self._source, facts=facts, found=self._found)

    def measured(self) -> dict[str, Any]:
        """What its tails took."""
        assert self._reader.view() == self._reader.raw_view(), "the smaller state does not show what raw shows"
        return {"keys": self._source.keys, **self._found.told()}


def read_now(reader: Reader, *, by_plan: bool = True) -> Pair:
    """A read beside a scan of the rows and values that there are by now."""
    plain = str(Path(reader.state).with_name("plain_now"))
    shutil.rmtree(plain, ignore_errors=True)
    reader.keep(plain)
    return paired(reader, plain, by_plan=by_plan)


def written(state: str, *, after: int) -> tuple[int, int]:
    """Files and bytes that the commits after a version of the state added."""
    files = size = 0
    for number in range(after + 1, DeltaTable(state).version() + 1):
        for line in (Path(state) / "_delta_log" / f"{number:020d}.json").read_text().splitlines():
            added = json.loads(line).get("add")
            if added:
                files, size = files + 1, size + added["size"]
    return files, size


def lookup(reader: Reader, source: Source) -> dict[str, Any]:
    """A point lookup of a key that is there: bytes of the files it may touch against all files of state and tail."""
    where = " AND ".join(f"{name} = {value}" for name, value in source.a_key().items())
    everything, some = sources_of(source.raw, reader.state), sources_of(source.raw, reader.state, where=where)
    assert everything is not None
    assert some is not None
    sizes = [sum(Path(file).stat().st_size for file in sources.paths()) for sources in (some, everything)]
    read = Read(source.raw, as_of=NOW, is_ordered=False, where=where, sources=some)
    seconds, rows = timed(lambda: reader.engine.read(read), runs=RUNS)
    of_raw = reader.engine.read(Read(source.raw, as_of=NOW, is_ordered=False, where=where))
    assert len(rows) == 1, f"{len(rows)} rows of one key"
    assert rows.to_pylist() == of_raw.to_pylist(), "lookup differs"
    return {"seconds": seconds, "share": sizes[0] / sizes[1], "files": len(everything.paths()), "touched": len(some.paths())}


def measure(engine: Engine, source: Source, folder: Path, *, count: int, beside: Smaller) -> dict[str, Any]:
    """Everything of one size: building, reading at rest, with a tail of each kind, after many tails."""
    reader, step = Reader(engine, source.raw, str(folder / "state")), source.facts // 100
    materialize(engine, source.raw, reader.state, full=True)
    source.land(step)
    newer = with_tail(reader, kind="newer than the state")
    full, _ = spent(lambda: materialize(engine, source.raw, reader.state, full=True))
    built = DeltaTable(reader.state).version()
    rest = read_now(reader)
    tell(f"{source.keys:,} keys: rebuild {full}; view at rest {rest}")
    validated = validation(reader, rest.scan.wall)
    source.land_again(step)
    overlapping = with_tail(reader, kind="that overlaps")
    found = Tails()
    took, done = spent(lambda: materialize(engine, source.raw, reader.state))
    found.add(took, merged=done.merged, keys=source.keys)
    tails(reader, source, count=count - 1, facts=step, found=found, beside=beside)
    assert reader.view() == reader.raw_view(), "state does not show what raw shows"
    reads = found.reads or [read_now(reader)]
    tell(f"mean of {count} tails {found.mean} = {found.mean.of(full)} of a rebuild; the dearest {found.dearest.of(full)}")
    after, after_cpu = [pair.ratio for pair in reads], [pair.cpu_ratio for pair in reads]
    tell(f"reads after the last {len(reads)}: {statistics.mean(after):.2f} x, at most {max(after):.2f} x")
    tell(f"  of CPU {statistics.mean(after_cpu):.2f} x, at most {max(after_cpu):.2f} x; the last {reads[-1]}")
    files, size = written(reader.state, after=built)
    return {
        "keys": source.keys, "facts_a_tail": step, "full": asdict(full), "at_rest": asdict(rest),
        "newer": asdict(newer), "overlapping": asdict(overlapping), "validated": validated,
        **found.told(), "lookup": lookup(reader, source), "reads_after": [asdict(pair) for pair in reads],
        "ratios": [1, rest.ratio, newer.ratio, overlapping.ratio, statistics.mean(after)],
        "files": len(DeltaTable(reader.state).file_uris()), "files_written": files, "bytes_written": size,
        "bytes": sum(Path(uri).stat().st_size for uri in DeltaTable(reader.state).file_uris()),
    }  # fmt: skip


def with_tail(reader: Reader, *, kind: str) -> Pair:
    """A read of the state and the tail that has landed."""
    assert reader.view() == reader.raw_view(), "state and tail do not show what raw shows"
    found = read_now(reader)
    tell(f"view with a tail of 1 % {kind} {found}")
    return found


def validation(reader: Reader, scan: float) -> dict[str, float]:
    """What `validate` reads of a state at rest: its counts, one query, and its sample of partitions. In scans of the state."""
    sources = sources_of(reader.raw, reader.state)
    assert sources is not None
    engine = Watched(reader.engine)

    def counted() -> None:
        found = counts(engine, sources, as_of=NOW, wanted={})  # type: ignore[arg-type]
        assert not any(check.broken for check in found), [check.line() for check in found]

    def both() -> None:
        with ThreadPoolExecutor(1) as beside:  # as `validate` does
            drawn = beside.submit(recomputed, sources, size=SAMPLED, seed=1, as_of=NOW)
            counted()
        broken = drawn.result().against(engine)  # type: ignore[arg-type]
        assert not broken, f"{len(broken)} sampled rows and cells differ"

    reader.stored()
    with small_results(reader.engine):
        counting, _ = timed(counted, runs=RUNS)
        took, _ = timed(both, runs=RUNS)
    stored, _ = timed(reader.stored, runs=RUNS)
    tell(f"validate: counts {counting:.2f} s, with a sample of {SAMPLED} partitions {took:.2f} s")
    tell(f"validate is {took / stored:.2f} plain scans of the state ({stored:.2f} s), {took / scan:.2f} of the values shown")
    tell(f"rows that left the engine: {engine.rows_out[0]} of counts, {engine.rows_out[-1]:,} of a sample")
    return {"counts": counting, "validate": took, "stored": stored, "rows_out": max(engine.rows_out)}


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw each tail's cost for both sizes of state."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for part, style in (("large", "o-"), ("small", "s--")):
        mine = result[part]
        walls = [one["wall"] for one in mine["tails"]["each"]]
        left.plot(range(1, len(walls) + 1), walls, style, label=f"{mine['keys']:,} keys in the state")
    left.set_xlabel("tail")
    left.set_ylabel("seconds to materialize it, merges included")
    left.set_ylim(bottom=0)
    left.legend()
    large = result["large"]
    tails = f"after {len(large['merges'])} tails"
    names = ["plain scan", "state at rest", "with a tail of 1 %", "with one that overlaps", tails]
    bars = right.barh(names, large["ratios"], color="#3b6ea5")
    right.bar_label(bars, fmt="%.2f", padding=3)
    right.margins(x=0.1)
    right.invert_yaxis()
    right.set_xlabel("full read, in plain scans of the same values")
    figure.savefig(path, dpi=120)


def main() -> int:
    """Run and write a JSON and a plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=3_000_000)
    parser.add_argument("--tails", type=int, default=50)
    parser.add_argument("--engine", default="spark")
    parser.add_argument("--no-others", action="store_true")
    options = parser.parse_args()
    folder = OUT / "state_run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if find_spec("matplotlib") is None:
        sys.exit("its plot needs matplotlib: pip install -r requirements/bench.txt, or `make bench-state`")
    engine = open_engine(options.engine, folder)
    print(f"{options.engine}, 2 cores")
    source = Source(folder, keys=options.keys)
    small = Smaller(engine, folder, keys=options.keys // 10)
    large = measure(engine, source, folder, count=options.tails, beside=small)
    result: dict[str, Any] = {"engine": options.engine, "large": large, "small": small.measured()}
    means = [Spent(**result[size]["tails"]["mean"]) for size in ("large", "small")]
    tell(f"the same tails into a tenth of the keys: {means[1]}; ten times the state is {means[0].wall / means[1].wall:.2f} x")
    found = result["large"]["lookup"]
    tell(f"a lookup touches {found['touched']} of {found['files']} files, {found['share']:.1%} of the bytes")
    result["peak_mib"] = peak_mib()
    tell(f"peak memory {result['peak_mib']} MiB")
    name = f"state_{options.engine}_{options.keys}"
    (OUT / f"{name}.json").write_text(json.dumps(result, indent=1))
    plot(result, OUT / f"{name}.png")
    if options.engine == "spark" and not options.no_others:
        result["others"] = raced(engine, source, folder)
        (OUT / f"{name}.json").write_text(json.dumps(result, indent=1))
    print(f"written: {OUT / name}.json, .png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
