"""BigQuery's scripts keep a state and a serving table that show what the oracle shows, however facts land and runs end.

Everything is run as `helpers.bigquery_scripts` says: SELECTs in GoogleSQL's reference implementation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from cdc_views_bigquery.merging import run_script
from helpers.bigquery_loop import Loop, shuffled
from helpers.bigquery_scripts import KilledError, ScriptError, statements
from helpers.histories import NOW, histories
from helpers.schemas import INT, NARROW, SUBJECTS, TEXT, Subject, table
from helpers.tiers import often
from helpers.writing import Writer

from cdc_views.formats.base import WriteOrder
from cdc_views.model.types import EMPTY, SetOf
from cdc_views.rules.cells import Cell
from cdc_views.rules.facts import Elements, Fact, FactKind

if TYPE_CHECKING:
    from helpers.bigquery_values import Evaluator

pytestmark = pytest.mark.heavy

HOUR = 3600
SMALL = Subject(
    table("small", partition={"case": INT}, clustering={"c": INT}, statics={"s": TEXT}, regulars={"v": INT, "w": INT})
)
SETS = Subject(table("sets", partition={"case": INT}, clustering={"c": INT}, regulars={"e": SetOf(INT, frozen=False)}))
ALONE = Subject(table("alone", partition={"case": INT}, regulars={"v": INT, "w": TEXT}))
"""A partition is a row."""
WRITER = Writer(SMALL.schema)
MERGED = "WHEN MATCHED THEN\n  UPDATE SET `_kind`"


@pytest.fixture(scope="module")
def engine() -> Iterator[Evaluator]:
    from helpers.bigquery_values import Evaluator

    return Evaluator()


@pytest.mark.slow
@pytest.mark.parametrize("subject", often([*SUBJECTS, ALONE], NARROW), ids=lambda s: s.name)
def test_random_histories_cut_at_random_show_the_oracles_rows(engine: Evaluator, subject: Subject) -> None:
    loop = Loop(engine, subject)
    facts = histories(subject, cases=6, seed=3).facts
    for n, batch in enumerate(shuffled(facts, into=2 if subject is NARROW else 3)):
        loop.land(*batch, at=NOW + n * HOUR)
        loop.check(now=NOW)
        now = NOW + n
        said = loop.run(now)
        assert said["facts_read"] == len(batch)
        loop.check(now=now)
        loop.check_served(now=now)
    loop.check(now=NOW, source="`project.shop.orders__state`")


@pytest.mark.slow
def test_a_second_run_reads_nothing_and_changes_nothing(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    loop.land(WRITER.insert(1, 1, at=1, v=1), WRITER.static(1, at=2, s="x"), at=NOW)
    assert loop.run(NOW)["facts_read"] == 2
    before = loop.kept()
    assert loop.run(NOW)["facts_read"] == 0
    assert loop.kept() == before
    assert loop.table("__watermark").records()[0]["runs"] == 2


@pytest.mark.slow
def test_an_expired_row_leaves_at_the_next_run_though_nobody_wrote(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    loop.land(WRITER.insert(1, 1, at=1, v=1, expiry=(60, NOW + 60)), WRITER.insert(2, 2, at=1, v=2), at=NOW)
    loop.run(NOW)
    assert len(loop.table("").rows) == 2
    assert loop.run(NOW + 59)["facts_read"] == 0
    assert len(loop.table("").rows) == 2
    loop.run(NOW + 60)
    assert [row["case"] for row in loop.table("").records()] == [2]
    loop.check_served(now=NOW + 60)


@pytest.mark.slow
def test_a_static_row_gives_way_to_a_row_and_comes_back(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    steps = (
        WRITER.static(1, at=1, s="x"),
        WRITER.insert(1, 1, at=2, v=1),
        WRITER.delete(1, 1, at=3),
        WRITER.delete_partition(1, at=9),
    )
    for n, fact in enumerate(steps):
        loop.land(fact, at=NOW + n)
        loop.run(NOW + n)
        loop.check_served(now=NOW + n)
    assert loop.table("").rows == []


@pytest.mark.slow
def test_the_clock_of_served_rows_never_goes_back(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    loop.land(WRITER.insert(1, 1, at=1, v=1, expiry=(60, NOW + 60)), at=NOW)
    loop.run(NOW + 60)
    assert loop.run(NOW)["clock"] == NOW + 60
    assert loop.table("").rows == []


@pytest.mark.slow
def test_a_fact_that_becomes_visible_late_is_read_within_the_overlap(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL, overlap=600)
    loop.land(WRITER.insert(1, 1, at=1, v=1), at=NOW)
    loop.run(NOW)
    loop.land(WRITER.insert(1, 2, at=1, v=2), at=NOW - 600)
    assert loop.run(NOW + 1)["facts_read"] == 1
    loop.check_served(now=NOW + 1)
    loop.land(WRITER.insert(1, 3, at=1, v=3), at=NOW - 601)
    assert loop.run(NOW + 2)["facts_read"] == 0, "beyond the overlap nothing is looked for"
    with pytest.raises(AssertionError, match="1 of 3 rows differ"):
        loop.check(now=NOW + 2)


@pytest.mark.slow
def test_a_lander_whose_clock_is_ahead_hides_no_facts(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL, overlap=600)
    loop.land(WRITER.insert(1, 1, at=1, v=1), at=NOW + 24 * HOUR)
    loop.run(NOW)
    loop.land(WRITER.insert(1, 2, at=1, v=2), at=NOW + 1)
    assert loop.run(NOW + 2)["facts_read"] == 1
    loop.check_served(now=NOW + 2)


STOPS = ("INSERT INTO `project.shop.orders__seen`", "MERGE `project.shop.orders`", "COMMIT")


def _stops(loop: Loop) -> list[str]:
    return statements(run_script(loop.subject.relation, loop.merging))


@pytest.mark.slow
@pytest.mark.parametrize("stop", often(STOPS, STOPS[-1]))
def test_a_run_that_is_killed_changes_nothing_and_the_next_makes_up_for_it(engine: Evaluator, stop: str) -> None:
    loop = Loop(engine, SMALL)
    loop.land(WRITER.insert(1, 1, at=1, v=1), at=NOW)
    loop.run(NOW)
    loop.land(WRITER.update(1, 1, at=2, v=2), WRITER.insert(3, 1, at=1, v=1), at=NOW + 1)
    before = loop.kept()
    at = next(n for n, text in enumerate(_stops(loop)) if text.startswith(stop))
    with pytest.raises(KilledError):
        loop.run(NOW + 1, kill_at=at)
    assert loop.kept() == before
    loop.run(NOW + 1)
    loop.check(now=NOW + 1)
    loop.check_served(now=NOW + 1)


@pytest.mark.slow
def test_a_run_may_be_killed_before_any_statement(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    loop.land(WRITER.insert(1, 1, at=1, v=1), at=NOW)
    loop.run(NOW)
    for n in range(len(_stops(loop))):
        loop.land(WRITER.update(1, 1, at=2 + n, v=n), WRITER.insert(n, 2, at=1, v=1), at=NOW + n)
        with pytest.raises(KilledError):
            loop.run(NOW + n, kill_at=n)
        loop.check(now=NOW + n)
    loop.run(NOW + 99)
    loop.check(now=NOW + 99)
    loop.check_served(now=NOW + 99)


def test_without_a_watermark_a_run_says_so(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    loop.table("__watermark").rows = []
    with pytest.raises(ScriptError, match="run the setup script first"):
        loop.run(NOW)


@pytest.mark.parametrize(
    "subject", often([NARROW, *(s for s in SUBJECTS if s not in (NARROW, SUBJECTS[2])), ALONE], ALONE), ids=lambda s: s.name
)
@pytest.mark.slow
def test_a_purged_state_shows_what_was_not_late(engine: Evaluator, subject: Subject) -> None:
    loop = Loop(engine, subject, lateness=0)
    batches = shuffled(histories(subject, cases=8, seed=5).facts, into=2 if subject is ALONE else 3)
    for n, batch in enumerate(batches):
        loop.land(*batch, at=NOW + n)
        said = loop.run(NOW, settles=n != 1)
        loop.check(now=NOW + 1)
        loop.check_served(now=NOW)
        assert loop.quarantined() == loop.late()
        assert said["facts_late"] <= len(loop.ages.late)
    assert bool(loop.ages.late) == (subject.order is WriteOrder.MICROS), "sources without a server's time purge nothing"


@pytest.mark.slow
def test_a_settled_state_keeps_what_deletions_leave(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    loop.land(WRITER.insert(1, 1, at=1, v=1), WRITER.insert(1, 2, at=9, v=2), WRITER.delete_partition(1, at=5), at=NOW)
    loop.run(NOW)
    facts = len(loop.table("__state").rows)
    loop.run(NOW, settles=True)
    assert len(loop.table("__state").rows) == facts - 1, "the row that the partition's deletion hides is gone"
    loop.check(now=NOW, source="`project.shop.orders__state`")


@pytest.mark.slow
def test_a_changed_schema_serves_every_row_anew(engine: Evaluator) -> None:
    loop = Loop(engine, SMALL)
    loop.land(WRITER.insert(1, 1, at=1, v=1), WRITER.insert(2, 1, at=1, v=1), at=NOW)
    loop.run(NOW)
    loop.table("").rows.pop()
    loop.run(NOW)
    assert len(loop.table("").rows) == 1, "nothing is due"
    row = loop.table("__watermark").rows[0]
    row[loop.table("__watermark").index("setting")] = type(row[0])(string_value="another")
    loop.run(NOW)
    loop.check_served(now=NOW)


@pytest.mark.slow
def test_a_row_whose_clustering_key_is_empty_keeps_its_elements(engine: Evaluator) -> None:
    """A key of 0 bytes is stored as null; a join by plain equality would lose the row's elements."""
    loop = Loop(engine, SETS)
    elements = Elements(None, ((1, Cell(5, b"", b"")),))
    loop.land(Fact(FactKind.ROW, (7,), (EMPTY,), elements={"e": elements}), at=NOW)
    for settles in (False, True):
        loop.run(NOW, settles=settles)
        loop.check(now=NOW, source="`project.shop.orders__state`")
        assert [(row["case"], row["e"]) for row in loop.table("").records()] == [(7, [1])]


CORRUPTIONS = {
    "what matched is not updated": (MERGED, "WHEN MATCHED AND FALSE THEN\n  UPDATE SET `_kind`"),
    "facts of the state are not reduced again": ("AND _fact IN (SELECT _fact FROM _tail)", "AND FALSE"),
    "rows that are gone stay": ("WHEN MATCHED AND _s._is_gone THEN\n  DELETE\n", ""),
    "expiry makes nothing due": ("WHERE _changes_at <= _clock", "WHERE FALSE"),
    "the bound skips the newest": ("_raw._landed_at >= _since", "_raw._landed_at > TIMESTAMP_ADD(_since, INTERVAL 2 HOUR)"),
    "new rows are left out": ("WHEN NOT MATCHED AND NOT _s._is_gone THEN", "WHEN NOT MATCHED AND FALSE THEN"),
    "facts are matched by bucket alone": ("AND _t._fact = _s._fact", ""),
}


@pytest.mark.parametrize("how", often(CORRUPTIONS, next(iter(CORRUPTIONS))))
def test_the_checks_can_fail(engine: Evaluator, how: str) -> None:
    old, new = CORRUPTIONS[how]
    loop = Loop(engine, SMALL, mutate={old: new})
    with pytest.raises((AssertionError, ScriptError)):
        _a_day_of(loop)


@pytest.mark.slow
def test_what_the_checks_of_corruptions_do_passes_without_one(engine: Evaluator) -> None:
    _a_day_of(Loop(engine, SMALL))


def _a_day_of(loop: Loop) -> None:
    """Rows are new, changed, added to a partition, and expire; state and serving table are compared."""
    loop.land(WRITER.insert(1, 1, at=1, v=1, expiry=(60, NOW + 60)), WRITER.insert(2, 1, at=1, v=1, w=1), at=NOW)
    loop.run(NOW)
    loop.land(WRITER.update(2, 1, at=2, v=2), WRITER.insert(2, 2, at=2, v=2), at=NOW + 1)
    loop.run(NOW + 60)
    loop.check(now=NOW + 60, source="`project.shop.orders__state`")
    loop.check_served(now=NOW + 60)
