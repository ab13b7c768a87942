"""A warehouse on a store beside one on a local disk, in turns: seconds and CPU of reads and of a tail, and requests to the store.

    python tests/bench/stores.py [--keys 300000] [--rounds 3] [--endpoint URL]

The store is moto's server on the loopback, or the one at `--endpoint`, with the environment's credentials and a bucket `lake`.
Both have the same raw table, byte for byte; answers are compared. Prints a line for each step: seconds of both, their ratio, and
the requests of one step, by method; without moto's log there are none.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from generate import NOW
from services import s3
from spent import Spent, spent
from state_data import Source

from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.state import materialize, sources_of
from cdc_views.storage.places import place_of
from cdc_views.storage.relation import RawTable
from cdc_views.storage.stores import use_options

TAIL = 0.01
STEPS = ("build", "read at rest", "read with a tail", "tail", "read after it")


class Side:
    """A warehouse: its raw table, its state, and an engine of its own."""

    def __init__(self, name: str, root: str, source: Source) -> None:
        self.name, self.engine = name, DuckDbEngine()
        self.raw, self.state = RawTable(f"{root}/raw", source.raw.relation), f"{root}/state/{uuid.uuid4().hex}"

    def copy(self, source: Source) -> None:
        """Take in what the source has landed since."""
        for file in Path(source.raw.location).rglob("*"):
            place = place_of(self.raw.location) / file.relative_to(source.raw.location).as_posix()
            if file.is_file() and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.read_bytes())

    def keep(self) -> None:
        """Bring the state up to date."""
        materialize(self.engine, self.raw, self.state)

    def read(self) -> tuple[int, Any]:
        """Read all rows; return their number and a sum that tells them apart."""
        rows = self.engine.read(Read(self.raw, as_of=NOW, is_ordered=False, sources=sources_of(self.raw, self.state)))
        return rows.num_rows, pc.sum(pc.binary_length(pc.cast(rows.column(0), "string"))).as_py()


def measured(sides: list[Side], action: str, *, rounds: int, server: s3.S3 | None) -> tuple[dict[str, Spent], Counter[str]]:
    """Run one action of both sides in turns; return the medians and the requests of the last one on the store, by method."""
    costs: dict[str, list[Spent]] = {side.name: [] for side in sides}
    answers, asked = set(), Counter[str]()
    for _ in range(rounds):
        for side in sides:
            counted = server.counting() if server is not None and side.name == "store" else nullcontext(Counter[str]())
            with counted as requests:
                cost, answer = spent(getattr(side, action))
            costs[side.name].append(cost)
            answers.add(answer)
            asked = Counter(request.split()[0] for request in requests.elements()) or asked
    assert len(answers) == 1, answers
    return {name: Spent.median(each) for name, each in costs.items()}, asked


@contextmanager
def store(endpoint: str | None, folder: Path) -> Iterator[tuple[dict[str, str], s3.S3 | None]]:
    """Yield a store's options, and its server if it is ours."""
    if endpoint is not None:
        yield {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": os.environ.get("AWS_REGION", "us-east-1")}, None
        return
    with s3.running(folder) as server:
        yield server.options(), server


def run(keys: int, rounds: int, endpoint: str | None, say: Callable[[str], None] = print) -> None:
    """Measure, and print a line a step."""
    with tempfile.TemporaryDirectory() as name, store(endpoint, Path(name)) as (options, server):
        url = f"s3://{s3.BUCKET}/{uuid.uuid4().hex}"
        use_options(url, options)
        source = Source(Path(name) / "source", keys=keys)
        sides = [Side("disk", f"{name}/disk", source), Side("store", url, source)]
        for side in sides:
            side.copy(source)
        say(f"{keys:,} keys, {source.facts:,} facts; medians of {rounds}, in turns; wall (CPU)")
        for step in STEPS:
            if step == "read with a tail":
                source.land(int(source.facts * TAIL))
                for side in sides:
                    side.copy(source)
            is_kept = step in ("build", "tail")
            found, asked = measured(sides, "keep" if is_kept else "read", rounds=1 if is_kept else rounds, server=server)
            disk, there = found["disk"], found["store"]
            ratio = f"{there.wall / disk.wall:.2f} ({there.cpu / disk.cpu:.2f})"
            say(f"{step:18} disk {disk}   store {there}   ratio {ratio}   {dict(asked) or ''}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--endpoint")
    given = parser.parse_args()
    run(given.keys, given.rounds, given.endpoint)
