"""A day of small batches in compressed time: what is shown stays right, and the state stays small.

288 batches, one a simulated five minutes, of three replicas' copies; a tenth of the copies land hours late, some twice.
`make test-long` runs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.reading import SEED, different_cases, land, read_rows, same_rows
from helpers.schemas import BIGINT, INT, TEXT, Subject, table
from helpers.state_sizes import set_sizes

from cdc_views.engines.base import RawTable
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.model.types import SetOf
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import materialize, sources_of

pytestmark = pytest.mark.slow

SUBJECT = Subject(
    table(
        "soak",
        partition={"case": INT},
        clustering={"c": INT},
        statics={"s": TEXT},
        regulars={"v": BIGINT, "w": TEXT, "e": SetOf(INT, frozen=False)},
    )
)
START = 1_795_200_000
BATCH_SECONDS, BATCHES, CHECK_EVERY = 300, 288, 24
PARTITIONS, ROWS, WRITES = 200, 5, 60
MOST_FILES = 200


class Day:
    """Writes of each five minutes, and when each replica's copy of them lands."""

    def __init__(self) -> None:
        self._rng = Random(f"{SEED} soak")
        self._due: dict[int, list[Fact]] = defaultdict(list)

    def batch(self, number: int) -> list[Fact]:
        """Return what lands in batch `number`."""
        now = START + number * BATCH_SECONDS
        for _ in range(WRITES):
            fact = self._fact(now)
            for _ in range(3):
                delay = self._rng.randrange(1, 60) if self._rng.random() < 0.1 else self._rng.randrange(2)
                self._due[number + delay] += [fact] * (1 + (self._rng.random() < 0.05))
        landing = self._due.pop(number, [])
        self._rng.shuffle(landing)
        return landing

    def rest(self) -> list[Fact]:
        """Return what has not landed yet."""
        return [fact for facts in self._due.values() for fact in facts]

    def _fact(self, now: int) -> Fact:
        rng, written = self._rng, now * 1_000_000 + self._rng.randrange(BATCH_SECONDS * 1_000_000)
        partition, row = (rng.randrange(PARTITIONS),), (rng.randrange(ROWS),)
        deletion = Deletion(written, now)
        match rng.choices(("row", "static", "delete", "range", "partition"), (80, 8, 8, 2, 2))[0]:
            case "static":
                return Fact(FactKind.STATIC, partition, cells={"s": self._cell("s", now, written)})
            case "delete":
                return Fact(FactKind.ROW, partition, row, deletion=deletion)
            case "range":
                return Fact(FactKind.RANGE, partition, deletion=deletion, start=Bound(row, True), end=Bound((), True))
            case "partition":
                return Fact(FactKind.PARTITION, partition, deletion=deletion)
        cells = {name: self._cell(name, now, written) for name in ("v", "w") if rng.random() < 0.7}
        elements = {"e": Elements(None, ((rng.randrange(4), self._cell("", now, written)),))} if rng.random() < 0.3 else {}
        marker = Liveness(written) if rng.random() < 0.5 else None
        return Fact(FactKind.ROW, partition, row, marker, cells=cells, elements=elements)

    def _cell(self, name: str, now: int, written: int) -> Cell:
        roll = self._rng.random()
        if roll < 0.1:
            return Cell(written, deleted_at=now)
        ttl = self._rng.choice((600, 3600, 36_000)) if roll < 0.3 else None
        expires_at = now + ttl if ttl is not None else None
        if not name:
            return Cell(written, b"", b"", ttl, expires_at)
        kind = SUBJECT.schema.column(name).type
        value = self._rng.randrange(1000) if name == "v" else f"text {self._rng.randrange(1000)}"
        return Cell(written, value, serialize(kind, value), ttl, expires_at)


def append(raw: RawTable, facts: Iterable[Fact]) -> None:
    """Land facts in one commit."""
    write_deltalake(raw.location, SUBJECT.relation.rows(list(facts), landed_at=0), mode="append")


def check(engine: DuckDbEngine, raw: RawTable, state: str, facts: list[Fact], *, now: int) -> None:
    """Compare what state and tail show with the oracle."""
    once = list({repr(fact): fact for fact in facts}.values())
    expected = latest_rows(SUBJECT.schema, once, now=now)
    found = read_rows(engine, raw, as_of=now, sources=sources_of(raw, state))
    assert not different_cases(expected, found), f"at {now - START} s"
    assert same_rows(expected, found), "in another order"


def test_a_day_of_batches_ends_as_the_oracle_does(
    duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so small a base would take each run at once
    set_sizes(monkeypatch, rebase_share=1.0)
    set_sizes(monkeypatch, most_runs=2)
    day, landed = Day(), list[Fact]()
    raw, state = land(tmp_path, SUBJECT.relation, []), str(tmp_path / "state")
    files, sizes, merges = list[int](), list[int](), set[str]()
    for number in range(BATCHES):
        if number == BATCHES // 2:  # from noon on without an overlay
            set_sizes(monkeypatch, at_once_share=100)
            set_sizes(monkeypatch, merge_share=100)
        batch = day.batch(number)
        append(raw, batch)
        landed += batch
        done = materialize(duckdb_engine, raw, state)
        merges.add(done.merged)
        files.append(len(DeltaTable(state).file_uris()))
        sizes.append(done.state_bytes)
        if number % CHECK_EVERY == CHECK_EVERY - 1:
            check(duckdb_engine, raw, state, landed, now=START + (number + 1) * BATCH_SECONDS)
    append(raw, rest := day.rest())
    check(duckdb_engine, raw, state, landed + rest, now=START + BATCHES * BATCH_SECONDS)
    materialize(duckdb_engine, raw, state)
    check(duckdb_engine, raw, state, landed + rest, now=START + (BATCHES + 120) * BATCH_SECONDS)
    assert {"base", "merge", "runs"} <= merges, "the day met no merge of some kind"
    before, after = max(sizes[: BATCHES // 2]), max(sizes[BATCHES // 2 :])
    print(f"\n  {len(landed) + len(rest):,} facts, at most {max(files)} files, {before:,} and {after:,} bytes")
    assert max(files) <= MOST_FILES
    assert after <= 2 * before, "the state grows with what was written, not with what there is"
