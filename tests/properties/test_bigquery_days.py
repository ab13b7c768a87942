"""Random days of BigQuery's scripts: facts land whenever, runs are killed, repeated, settle, and the clock moves on.

Whatever happened, state, tail and serving table show what the oracle shows. And each part of the script matters: of
every one that is broken the same day tells.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest
from helpers.bigquery_loop import Loop, _script, shuffled
from helpers.bigquery_scripts import KilledError, ScriptError, statements
from helpers.bigquery_values import StoreError
from helpers.histories import NOW, histories
from helpers.schemas import INT, LOGGED, NARROW, READDED, Subject, table
from helpers.writing import Writer

from cdc_views.formats.base import WriteOrder

if TYPE_CHECKING:
    from helpers.bigquery_values import Evaluator

pytestmark = pytest.mark.slow
"""A day takes 20 s of CPU; `make test` runs `test_bigquery_scripts.py`."""

BATCHES, STEPS = 4, 9


@pytest.fixture(scope="module")
def engine() -> Evaluator:
    from helpers.bigquery_values import Evaluator

    return Evaluator()


@dataclass
class Day:
    """A day of one table, and how often each thing happened."""

    loop: Loop
    rng: Random
    now: int = NOW
    done: Counter[str] = field(default_factory=Counter)

    def land(self, batch: list[object]) -> None:
        """A batch lands; readers of state and tail see it at once."""
        self.loop.land(*batch, at=self.now)  # type: ignore[arg-type]
        self.loop.check(now=self.now)
        self.done["landed"] += 1

    def run(self, *, settles: bool = False) -> None:
        """The script runs; everything is as the oracle says."""
        self.loop.run(self.now, settles=settles)
        self.done["settled" if settles else "ran"] += 1
        self.loop.check(now=self.now)
        self.loop.check(now=self.now, source="`project.shop.orders__state`")
        self.loop.check_served(now=self.now)
        self.loop.check_once()
        if self.loop.lateness is not None:
            assert self.loop.quarantined() == self.loop.late()

    def run_twice(self) -> None:
        """The second of two runs at one time reads nothing and changes nothing."""
        self.run()
        before = self.loop.kept()
        assert self.loop.run(self.now)["facts_read"] == 0
        assert self.loop.kept() == before

    def killed(self) -> None:
        """A run stops before one of its statements: nothing has changed."""
        script = statements(_script(self.loop.subject.relation, self.loop.merging, False))
        before = self.loop.kept()
        inside = range(script.index("BEGIN TRANSACTION"), script.index("COMMIT TRANSACTION") + 1)
        with pytest.raises(KilledError):
            self.loop.run(self.now, kill_at=self.rng.choice(inside))
        assert self.loop.kept() == before
        self.done["killed"] += 1


def a_day(day: Day, *, seed: int) -> None:
    """Batches land between random runs; the last run makes up for everything."""
    waiting = shuffled(histories(day.loop.subject, cases=4, seed=seed).facts, into=BATCHES)
    for _ in range(STEPS):
        if waiting and day.rng.random() < 0.6:
            day.land(list(waiting.pop()))
        step = day.rng.choice(["run", "run twice", "killed", "settles", "nothing"])
        if step == "run":
            day.run()
        elif step == "run twice":
            day.run_twice()
        elif step == "killed":
            day.killed()
        elif step == "settles":
            day.run(settles=True)
        day.now += day.rng.choice([0, 1, 3600])
    for batch in waiting:
        day.land(list(batch))
    day.run()
    day.run_twice()


RUNS = [(subject, seed) for subject in (NARROW, LOGGED, READDED) for seed in range(4)]


@pytest.mark.parametrize(("subject", "seed"), RUNS, ids=lambda v: getattr(v, "name", v))
def test_a_random_day_shows_what_the_oracle_shows(engine: Evaluator, subject: Subject, seed: int) -> None:
    rng = Random(f"{subject.name} {seed}")
    lateness = rng.choice([None, 0, 3600]) if subject.order is WriteOrder.MICROS else None
    day = Day(Loop(engine, subject, lateness=lateness), rng)
    a_day(day, seed=seed)
    assert day.done["landed"] == BATCHES


SMALL = Subject(table("small", partition={"case": INT}, clustering={"c": INT}, regulars={"v": INT, "w": INT}))
WRITER = Writer(SMALL.schema)
OVERLAP = 10
STATE, SERVED = "WHEN MATCHED THEN\n  UPDATE SET `_kind`", "WHEN MATCHED THEN\n  UPDATE SET `case`"
BROKEN = {
    "new facts are not put into the state": ("WHEN NOT MATCHED THEN\n", "WHEN NOT MATCHED AND FALSE THEN\n"),
    "known facts are not replaced": (STATE, STATE.replace("MATCHED", "MATCHED AND FALSE")),
    "known facts are deleted": (STATE, f"WHEN MATCHED THEN\n  DELETE\n{STATE}"),
    "rows are not put in": ("WHEN NOT MATCHED AND NOT _s._is_gone THEN", "WHEN NOT MATCHED AND FALSE THEN"),
    "rows are not changed": (SERVED, SERVED.replace("MATCHED", "MATCHED AND FALSE")),
    "rows that are gone stay": ("WHEN MATCHED AND _s._is_gone THEN\n  DELETE\n", ""),
    "late facts are kept nowhere": ("FROM _too_late;\n", "FROM _too_late WHERE FALSE;\n"),
    "late facts count": ("FROM _counted\nUNION", "FROM _tail\nUNION"),
    "the settled state is put beside the old": ("TRUNCATE TABLE `project.shop.orders__state`;", ""),
    "the settled state is nowhere": ("FROM _settled;", "FROM _settled WHERE FALSE;"),
    "the bound stays": ("since = _next,", "since = since,"),
    "what was seen is forgotten": ("WHERE _landed_at >= _next;", "WHERE FALSE;"),
    "what was seen is read again": ("WHERE _seen NOT IN (SELECT seen FROM `project.shop.orders__seen`)", ""),
    "the clock stays": ("clock = _clock,", "clock = clock,"),
}


@dataclass
class Broken(Loop):
    """Breaks what there is to break of each script, and says how often."""

    broken: int = 0

    def script(self, *, settles: bool) -> str:
        """See `Loop.script`."""
        sql = _script(self.subject.relation, self.merging, settles)
        for old, new in self.mutate.items():
            self.broken += old in sql
            sql = sql.replace(old, new)
        return sql


def a_day_with_all_in_it(loop: Loop) -> None:
    """Rows are new, changed, deleted, expire; the state settles, and an older write comes late; runs are repeated."""
    loop.land(WRITER.insert(1, 1, at=1, v=1, expiry=(60, NOW + 60)), WRITER.insert(2, 1, at=1, v=1, w=1), at=NOW)
    loop.run(NOW)
    loop.check_served(now=NOW)
    loop.land(WRITER.update(2, 1, at=2, v=2), WRITER.insert(2, 2, at=2, v=2), at=NOW + 60)
    _run(loop, now=NOW + 60, reads=2)
    loop.land(WRITER.delete(2, 2, at=3), WRITER.insert(3, 1, at=3, v=3), at=NOW + 70)
    _run(loop, now=NOW + 70, reads=2)
    _run(loop, now=NOW + 70, reads=0)
    _run(loop, now=NOW + 70, reads=0, settles=True)
    loop.land(WRITER.insert(2, 2, at=1, v=9), WRITER.update(3, 1, at=4, w=4), at=NOW + 71)
    _run(loop, now=NOW + 71, reads=2)
    assert loop.ages.late
    for _ in range(2):
        _run(loop, now=NOW + 72, reads=0)
    assert loop.run(NOW)["clock"] == NOW + 72


def _run(loop: Loop, *, now: int, reads: int, settles: bool = False) -> None:
    assert loop.run(now, settles=settles)["facts_read"] == reads
    loop.check(now=now)
    loop.check(now=now, source="`project.shop.orders__state`")
    loop.check_served(now=now)
    loop.check_once()
    assert loop.quarantined() == loop.late()


def test_a_day_with_all_in_it_passes_where_nothing_is_broken(engine: Evaluator) -> None:
    a_day_with_all_in_it(Loop(engine, SMALL, lateness=0, overlap=OVERLAP))


@pytest.mark.parametrize("how", BROKEN)
def test_of_each_part_that_is_broken_the_day_tells(engine: Evaluator, how: str) -> None:
    loop = Broken(engine, SMALL, lateness=0, overlap=OVERLAP, mutate=dict([BROKEN[how]]))
    with pytest.raises((AssertionError, ScriptError, StoreError)):
        a_day_with_all_in_it(loop)
    assert loop.broken, "there was something to break"
