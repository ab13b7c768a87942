"""`make bench`: exact views against a full scan of the same files, in one run; writes a JSON and a plot.

Every subject runs in a process of its own (peak memory is its own), the scan of each engine first. The JSON is written
after each engine. Options: `--events N`, `--quick` (300 k events, fewer runs), `--no-growth`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from generate import EVENTS, REPLICAS

HERE = Path(__file__).parent
OUT = HERE / "out"
SUBJECTS = {
    "duckdb": [("scan", 5), ("aggregate", 5), ("window", 1), ("self_join", 1), ("row_number", 3)],
    "spark": [("scan", 5), ("aggregate", 5), ("window", 1), ("self_join", 1), ("row_number", 3)],
    "clickhouse": [("scan", 3), ("aggregate", 3), ("arg_max", 3)],
}
GROWTH = (1 / 6, 10 / 6)
INEXACT = {"row_number", "arg_max"}
SECONDS = 1800


def measure(engine: str, subject: str, *, events: int, runs: int) -> dict[str, Any]:
    """Run one subject in a process of its own; an error is part of the result, not hidden."""
    command = [sys.executable, str(HERE / "subjects.py"), engine, subject, str(events), str(runs), str(OUT)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"engine": engine, "subject": subject, "error": f"took more than {SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"engine": engine, "subject": subject, "error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    result: dict[str, Any] = json.loads(lines[-1])
    return {"engine": engine, "subject": subject, "median": statistics.median(result["seconds"]), **result}


def make(events: int) -> None:
    """Make the raw table, if it is missing, in a process of its own: the peak of no subject has it."""
    subprocess.run([sys.executable, str(HERE / "generate.py"), str(OUT), str(events)], check=True, capture_output=True)


def compare(engine: str, events: int, *, runs: int | None) -> list[dict[str, Any]]:
    """Measure every subject of an engine; the scan's median is the unit."""
    results = []
    unit = None
    for subject, usual in SUBJECTS[engine]:
        result = measure(engine, subject, events=events, runs=runs or usual)
        if subject == "scan":
            unit = result.get("median")
        if unit and "median" in result:
            result["ratio"] = round(result["median"] / unit, 2)
        results.append(result)
        print(_line(result), flush=True)
    return results


def _line(result: dict[str, Any]) -> str:
    name = f"  {result['engine']:11}{result['subject']:12}"
    if "error" in result:
        return f"{name} failed: {result['error'][:100]}"
    ratio = f"{result['ratio']:6.2f} x" if "ratio" in result else ""
    return f"{name} {result['median']:7.2f} s {ratio}  peak {result['peak_mib']} MiB"


def disagreements(results: list[dict[str, Any]]) -> list[str]:
    """Name every exact subject whose checksum is not the first one's, and every inexact one whose is."""
    told = [r for r in results if r.get("checksum")]
    right = next((r["checksum"] for r in told if r["subject"] not in INEXACT), None)
    return [f"{r['engine']} {r['subject']}" for r in told if (r["checksum"] == right) is (r["subject"] in INEXACT)]


def growth(results: list[dict[str, Any]], *, events: int) -> list[dict[str, Any]]:
    """How scan and exact view grow with the number of raw rows; the middle points are those of `results`."""
    known = {(r["engine"], r["subject"]): r.get("median") for r in results}
    points = [
        {"engine": engine, "raw_rows": events * REPLICAS, "scan": known[engine, "scan"], "exact": known[engine, "aggregate"]}
        for engine in ("duckdb", "spark")
    ]
    for share in GROWTH:
        count = int(events * share)
        make(count)
        for engine in ("duckdb", "spark"):
            scan, exact = (measure(engine, what, events=count, runs=3) for what in ("scan", "aggregate"))
            point = {"raw_rows": count * REPLICAS, "scan": scan.get("median"), "exact": exact.get("median")}
            points.append({"engine": engine, **point})
            print(f"  {engine:8} {count * REPLICAS:>10,} raw rows: scan {point['scan']} s, exact {point['exact']} s", flush=True)
    return sorted(points, key=lambda point: point["raw_rows"])


def keep(events: int, results: list[dict[str, Any]], points: list[dict[str, Any]]) -> None:
    """Write what is known; after each engine, so an interrupted run keeps its figures."""
    (OUT / "bench.json").write_text(json.dumps({"events": events, "results": results, "growth": points}, indent=1))


def plot(results: list[dict[str, Any]], points: list[dict[str, Any]]) -> None:
    """Draw ratios to the full scan, and growth."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    shown = [r for r in results if "ratio" in r and r["subject"] != "scan"]
    names = [f"{r['engine']} {r['subject']}" + (" (other rows)" if r["subject"] in INEXACT else "") for r in shown]
    colors = ["#999999" if r["subject"] in INEXACT else "#3b6ea5" for r in shown]
    bars = left.barh(names, [r["ratio"] for r in shown], color=colors)
    left.bar_label(bars, fmt="%.1f", padding=3)
    left.axvline(1, color="black", linewidth=0.8)
    left.invert_yaxis()
    left.margins(x=0.12)
    left.set_xlabel("time, in full scans of the same files")
    for engine, style, color in (("duckdb", "o-", "#b8860b"), ("spark", "s--", "#3b6ea5")):
        mine = [p for p in points if p["engine"] == engine and p["exact"]]
        exact = [p["exact"] for p in mine]
        right.plot([p["raw_rows"] / 1e6 for p in mine], exact, style, color=color, label=f"{engine} exact view")
        scans = [p["scan"] for p in mine]
        right.plot([p["raw_rows"] / 1e6 for p in mine], scans, style, color=color, alpha=0.4, label=f"{engine} full scan")
    right.set_xlabel("raw rows, millions")
    right.set_ylabel("seconds")
    right.set_ylim(bottom=0)
    right.legend()
    figure.savefig(OUT / "bench.png", dpi=120)


def main() -> int:
    """Run everything; 1 when exact subjects disagree or fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-growth", action="store_true")
    options = parser.parse_args()
    events = 300_000 if options.quick else options.events
    OUT.mkdir(exist_ok=True)
    print(f"{events:,} events x {REPLICAS} replicas = {events * REPLICAS:,} raw rows, 8 columns; medians, warm")
    make(events)
    results: list[dict[str, Any]] = []
    for engine in SUBJECTS:
        results += compare(engine, events, runs=2 if options.quick else None)
        keep(events, results, [])
    wrong, failed = disagreements(results), [r for r in results if "error" in r]
    points = [] if options.no_growth else growth(results, events=events)
    keep(events, results, points)
    plot(results, points)
    print(f"answers are not as they should be: {', '.join(wrong)}" if wrong else "exact answers are equal, the others are wrong")
    print(f"written: {OUT / 'bench.json'}, {OUT / 'bench.png'}")
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
