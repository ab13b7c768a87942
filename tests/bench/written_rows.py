"""Peak memory of `query`: rows to standard output, to a file and to a Delta table, of tables that differ in their number of rows.

    python tests/bench/written_rows.py [--keys 300000 1200000] [--engines duckdb spark] [--raw-only]

Each command is a process of its own over a table with a state and a tail of 1 %. Prints MiB of the process, and on Spark of the
JVM, which is driver and executors in one, and of the largest Python worker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from data_source import built
from generate import NOW
from spent import processes_below
from watching import memory_mib

WAYS = {
    "query --format jsonl": ("--format", "jsonl"),
    "query --out x.parquet": ("--out", "x.parquet", "--overwrite"),
    "query --into x": ("--into", "x", "--overwrite"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[300_000, 1_200_000])
    parser.add_argument("--engines", nargs="+", default=["duckdb", "spark"])
    parser.add_argument("--raw-only", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cdc-views-bench-") as folder:
        for keys in asked.keys:
            place = Path(folder) / str(keys)
            place.mkdir()
            os.chdir(place)
            built(keys)
            for engine in asked.engines:
                for way, arguments in WAYS.items():
                    more = ("--raw-only",) if asked.raw_only else ()
                    peaks = peaks_of("query", "bench.events", "--as-of", str(NOW), "--engine", engine, *arguments, *more)
                    print(json.dumps({"keys": keys, "engine": engine, "way": way, **peaks}), flush=True)


def peaks_of(*arguments: str) -> dict[str, float]:
    """Run a command; return the peaks of its processes in MiB by name, and seconds."""
    begun, peaks = time.monotonic(), dict[str, float]()
    process = subprocess.Popen(
        [sys.executable, "-m", "cdc_views", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None:
        for pid in [process.pid, *(int(folder.name) for folder in processes_below(process.pid))]:
            name = "process" if pid == process.pid else _name(pid)
            peaks[name] = max(peaks.get(name, 0), memory_mib(pid, "VmHWM"))
        time.sleep(0.05)
    assert process.returncode == 0, arguments
    return {name: peak for name, peak in peaks.items() if peak} | {"seconds": round(time.monotonic() - begun, 1)}


def _name(pid: int) -> str:
    try:
        return "jvm" if "java" in Path(f"/proc/{pid}/comm").read_text() else "worker"
    except OSError:  # it ended meanwhile
        return "worker"


if __name__ == "__main__":
    main()
