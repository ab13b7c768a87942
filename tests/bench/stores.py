"""A warehouse on a store beside one on a local disk, in turns: seconds and CPU of reads and of tails, and requests to the store.

    python tests/bench/stores.py [--keys 300000] [--rounds 3] [--endpoint URL]

The store is moto's server on the loopback, or the one at `--endpoint`, with the environment's credentials and a bucket `lake`.
All sides have the same raw table, byte for byte; answers are compared. Of each place one side is a process that goes on, and one
is `anew`: each step is a process that was just started, as a command is, and knows nothing of the store. Prints a line a step:
medians of the rounds (each has a tail of its own), ratios to the disk, and the requests of the last round, by method; without
moto's log there are none.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow.compute as pc
from generate import NOW
from services import s3
from services.stores import BUCKET
from spent import Spent, spent
from state_data import Source

from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.state import materialize, sources_of
from cdc_views.storage.places import place_of
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.stores import is_url, use_options

TAIL = 0.01
KEPT = {"build", "tail"}
"""Steps that bring the state up to date; the others read."""
ROUND = ("read with a tail", "tail", "read after it")
Measured = dict[str, tuple[list[Spent], Counter[str]]]
"""What a step cost in each round, and the requests of the last one, by side."""


class Side:
    """A warehouse: its raw table, its state, and an engine of its own."""

    def __init__(self, name: str, root: str, relation: Relation, *, options: dict[str, str]) -> None:
        self.name, self.options = name, options
        self.raw, self.state = RawTable(f"{root}/raw", relation), f"{root}/state/{uuid.uuid4().hex}"
        self._engine: DuckDbEngine | None = None

    def copy(self, source: Source) -> None:
        """Take in what the source has landed since."""
        for file in Path(source.raw.location).rglob("*"):
            place = place_of(self.raw.location) / file.relative_to(source.raw.location).as_posix()
            if file.is_file() and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.read_bytes())

    def measure(self, step: str) -> tuple[Spent, Any]:
        """Return what a step cost, and the answer of one that reads: the number of rows and a sum that tells them apart."""
        self._engine = engine = self._engine or DuckDbEngine()
        return spent(lambda: self._keep(engine) if step in KEPT else self._read(engine))

    def _keep(self, engine: DuckDbEngine) -> None:
        materialize(engine, self.raw, self.state)

    def _read(self, engine: DuckDbEngine) -> tuple[int, Any]:
        rows = engine.read(Read(self.raw, as_of=NOW, is_ordered=False, sources=sources_of(self.raw, self.state)))
        return rows.num_rows, pc.sum(pc.binary_length(pc.cast(rows.column(0), "string"))).as_py()


class NewProcess(Side):
    """A warehouse whose steps are processes of their own; their start is not measured."""

    def measure(self, step: str) -> tuple[Spent, Any]:
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(_in_new_process, (step, self.name, self.raw, self.state, self.options))


def _in_new_process(step: str, name: str, raw: RawTable, state: str, options: dict[str, str]) -> tuple[Spent, Any]:
    if is_url(state):
        use_options(raw.location.removesuffix("/raw"), options)
    side = Side(name, "", raw.relation, options=options)
    side.raw, side.state = raw, state
    return side.measure(step)


def measured(sides: list[Side], step: str, server: s3.S3 | None, into: Measured) -> None:
    """Run one step of all sides in turns."""
    answers = set()
    for side in sides:
        with nullcontext(Counter[str]()) if server is None else server.counting() as requests:
            cost, answer = side.measure(step)
        costs = into[side.name][0] if side.name in into else []
        into[side.name] = [*costs, cost], Counter(request.split()[0] for request in requests.elements())
        answers.add(answer)
    assert len(answers) == 1, answers


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
        url = f"s3://{BUCKET}/{uuid.uuid4().hex}"
        use_options(url, options)
        source = Source(Path(name) / "source", keys=keys)
        kinds: tuple[tuple[str, type[Side]], ...] = (("", Side), (", anew", NewProcess))
        places = (("disk", name), ("store", url))
        sides = [
            kind(f"{n}{suffix}", f"{root}/{n}{suffix[2:]}", source.raw.relation, options=options)
            for suffix, kind in kinds
            for n, root in places
        ]
        found: dict[str, Measured] = {step: {} for step in ("build", "read at rest", *ROUND)}
        say(f"{keys:,} keys, {source.facts:,} facts; medians of {rounds}, in turns; wall (CPU)")
        for side in sides:
            side.copy(source)
        measured(sides, "build", server, found["build"])
        for _ in range(rounds):
            measured(sides, "read at rest", server, found["read at rest"])
        for _ in range(rounds):
            source.land(int(source.facts * TAIL))
            for side in sides:
                side.copy(source)
            for step in ROUND:
                measured(sides, step, server, found[step])
        for step, of_sides in found.items():
            for suffix, _ in kinds:
                disk, there = (Spent.median(of_sides[f"{place}{suffix}"][0]) for place, _ in places)
                ratio = f"{there.wall / disk.wall:.2f} ({there.cpu / disk.cpu:.2f})"
                asked = dict(of_sides[f"store{suffix}"][1])
                say(f"{step + suffix:24} disk {disk}   store {there}   ratio {ratio}   {asked or ''}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--endpoint")
    given = parser.parse_args()
    run(given.keys, given.rounds, given.endpoint)
