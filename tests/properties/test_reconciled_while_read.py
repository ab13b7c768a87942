"""What `verify` keeps of a key's facts shows the rows of all of them, at each position that it is asked for."""

from __future__ import annotations

from random import Random

import pytest
from helpers.histories import NOW, histories
from helpers.reading import CASES, SEED, canonical_row
from helpers.schemas import KEYS, NARROW, SUBJECTS, Subject
from helpers.tiers import often

from cdc_views.operations.verifying.raw_facts import KeyHistory, newest
from cdc_views.operations.verifying.rows import key_of
from cdc_views.rules.facts import FactKind
from cdc_views.rules.oracle import Reconciled, latest_rows


@pytest.mark.parametrize("subject", often(SUBJECTS, NARROW, KEYS), ids=lambda subject: subject.name)
def test_facts_that_are_reconciled_early_show_the_same_rows(subject: Subject) -> None:
    found, schema = histories(subject, cases=max(4, CASES // 20), seed=SEED), subject.schema
    rng, compared = Random(f"{SEED} {subject.name}"), 0
    for case in range(max(4, CASES // 20)):
        facts = found.of_case(case)
        rng.shuffle(facts)
        times = sorted({newest(fact) for fact in facts})
        since = rng.choice([None, times[0], *times, times[-1] + 1])
        for row in latest_rows(schema, facts, now=NOW):
            key = key_of(schema, row)
            history = KeyHistory(schema, key, since, Reconciled(schema))
            for fact in facts:
                history.add(fact)
            assert (history.count, history.newest) == (len(facts), times[-1])
            deletions = [fact.deletion.written for fact in facts if fact.deletion is not None]
            assert history.deleted == max(deletions, default=None)
            asked = [None] if since is None else [None, *(time for time in (*times, times[-1] + 1) if time >= since)]
            for before in asked:
                known = [fact for fact in facts if before is None or newest(fact) < before]
                rows = [row for row in latest_rows(schema, known, now=NOW) if key_of(schema, row) == key]
                shown = history.row(as_of=NOW, before=before)
                assert ([] if shown is None else [canonical_row(shown)]) == [canonical_row(row) for row in rows]
                compared += bool(rows)
            assert all(newest(fact) >= since for fact in history.later) if since is not None else not history.later
    assert compared, "rows were shown, at some positions"


def test_a_fact_is_kept_whole_only_from_the_position_on() -> None:
    subject = SUBJECTS[0]
    facts = [fact for fact in histories(subject, cases=8, seed=SEED).of_case(0) if fact.kind is FactKind.ROW]
    key = key_of(subject.schema, dict.fromkeys((column.name for column in subject.schema.row_key), None))
    history = KeyHistory(subject.schema, key, None, Reconciled(subject.schema))
    for fact in facts * 100:
        history.add(fact)
    assert (history.count, history.later) == (100 * len(facts), [])
