"""Runs of `materialize` in BigQuery show the oracle's rows, whatever lands between them, is late, is killed, or runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from helpers.bigquery_loop import shuffled
from helpers.bigquery_served import PLACE, served_loop
from helpers.histories import NOW, histories
from helpers.schemas import INT, NARROW, SUBJECTS, TEXT, Subject, table
from helpers.tiers import often
from helpers.writing import Writer

from cdc_views.errors import EngineError

if TYPE_CHECKING:
    from services.bigquery import Store

pytestmark = pytest.mark.heavy

HOUR = 3600
SMALL = Subject(
    table("small", partition={"case": INT}, clustering={"c": INT}, statics={"s": TEXT}, regulars={"v": INT, "w": INT})
)
WRITER = Writer(SMALL.schema)
STATE = "my-project.shop_state.t__state"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Store]]:
    from helpers.bigquery_values import Evaluator
    from services.bigquery_http import served

    with served(Evaluator()) as found:
        yield found


@pytest.fixture
def clean(server: tuple[str, Store]) -> tuple[str, Store]:
    server[1].clear()
    return server


@pytest.mark.slow
@pytest.mark.parametrize("subject", often([SMALL, *SUBJECTS], SMALL), ids=lambda s: s.name)
def test_histories_in_batches_show_the_oracles_rows_after_each_run(clean: tuple[str, Store], subject: Subject) -> None:
    with served_loop(*clean, subject, serving="served") as loop:
        facts = histories(subject, cases=2 if subject is SMALL else 6, seed=7).facts
        for n, batch in enumerate(shuffled(facts, into=2 if subject is SMALL else 3)):
            loop.land(*batch, at=NOW + n * HOUR)
            loop.check(now=NOW)
            assert loop.materialized(NOW + n).facts == len(batch)
            loop.check(now=NOW + n)
            loop.check_served(now=NOW + n)
        loop.check(now=NOW, source=STATE)


@pytest.mark.slow
@pytest.mark.parametrize("subject", [SMALL, NARROW, *SUBJECTS[3:]], ids=lambda s: s.name)
def test_what_lands_after_the_horizon_is_late_and_stays_out_of_a_full_run(clean: tuple[str, Store], subject: Subject) -> None:
    with served_loop(*clean, subject, serving="", lateness=0) as loop:
        for n, batch in enumerate(shuffled(histories(subject, cases=4, seed=5).facts, into=2)):
            loop.land(*batch, at=NOW + n)
            loop.materialized(NOW)
            loop.check(now=NOW + 1)
            assert loop.quarantined() == loop.late()
        assert loop.materialized(NOW, full=True).is_full
        loop.check(now=NOW + 1)
        loop.check(now=NOW + 1, source=STATE)
        assert loop.quarantined() == loop.late()


@pytest.mark.slow
def test_a_full_run_mends_a_state_that_lost_rows(clean: tuple[str, Store]) -> None:
    with served_loop(*clean, SMALL, serving="served") as loop:
        loop.land(WRITER.insert(1, 1, at=1, v=1), WRITER.insert(2, 1, at=1, v=1, expiry=(60, NOW + 60)), at=NOW)
        loop.materialized(NOW)
        columns = clean[1].sql.columns(STATE)
        clean[1].sql.define(STATE, columns)
        with pytest.raises(AssertionError):
            loop.check(now=NOW, source=STATE)
        done = loop.materialized(NOW + 60, full=True)
        assert (done.facts, done.keys, done.is_full, done.served_rows) == (2, 2, True, 1)
        loop.check(now=NOW, source=STATE)
        loop.check_served(now=NOW + 60)


@pytest.mark.slow
def test_the_state_is_written_anew_once_a_fifth_of_it_was_merged_since(clean: tuple[str, Store]) -> None:
    with served_loop(*clean, SMALL, serving="") as loop:
        loop.land(*(WRITER.insert(n, 1, at=1, v=1) for n in range(10)), at=NOW)
        settled = []
        for n in range(4):
            done = loop.materialized(NOW + n)
            settled.append((done.is_settled, done.state_rows))
            loop.land(WRITER.insert(n, 2, at=1, v=1), WRITER.insert(n, 3, at=1, v=1), at=NOW + n)
        assert settled == [(True, 10), (False, 12), (False, 14), (True, 16)], "2 of 12 are less than a fifth, 4 of 14 are not"


@pytest.mark.slow
def test_a_run_may_be_killed_before_any_statement(clean: tuple[str, Store]) -> None:
    with served_loop(*clean, SMALL, serving="served") as loop:
        loop.land(WRITER.insert(1, 1, at=1, v=1), at=NOW)
        loop.materialized(NOW)
        for n in range(60):
            loop.land(WRITER.update(1, 1, at=2 + n, v=n), WRITER.insert(n, 2, at=1, v=1), at=NOW + n)
            clean[1].kill_at = n
            try:
                loop.materialized(NOW + n)
            except EngineError:
                loop.check(now=NOW + n)
            else:
                assert n > 20, "the script has more statements than that"
                break
        loop.materialized(NOW + 99)
        loop.check(now=NOW + 99, source=STATE)
        loop.check_served(now=NOW + 99)


@pytest.mark.slow
def test_two_runs_at_once_make_what_one_makes(clean: tuple[str, Store]) -> None:
    """The server runs one script after the other; that BigQuery cancels one of two is in test_bigquery_materialize."""
    from cdc_views_bigquery.engine import BigQueryEngine

    with served_loop(*clean, SMALL, serving="served") as loop:
        loop.land(WRITER.insert(1, 1, at=1, v=1), WRITER.insert(2, 1, at=1, v=1), at=NOW)
        clean[1].now = NOW * 1_000_000

        def run(_: int) -> Any:
            with BigQueryEngine(PLACE, loop.opened.config) as engine:
                return engine.materialize(loop.definition)

        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(run, range(2)))
        assert sorted(one.facts for one in done) == [0, 2]
        loop.check(now=NOW, source=STATE)
        loop.check_served(now=NOW)
