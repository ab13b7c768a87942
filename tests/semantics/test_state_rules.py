"""Rules M1 and M3: rows depend on the set of facts alone, and on an instant that is an argument."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from helpers.histories import NOW, history, replicated
from helpers.reading import canonical_row, land, read_rows
from helpers.schemas import INT, NARROW, SUBJECTS, Subject, table
from helpers.writing import Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_views.engines.base import Engine, Read, ViewDefinition
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.storage.relation import Relation
from cdc_views.storage.relation_read import facts_of


def rows(subject: Subject, facts: list[Fact]) -> list[object]:
    return list(map(canonical_row, latest_rows(subject.schema, facts, now=NOW)))


# M1


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SUBJECTS), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_any_order_split_and_repetition_of_facts_show_the_same_rows(subject: Subject, seed: int, rng: Random) -> None:
    facts = history(subject, case=0, seed=seed)
    again = [copy for fact in facts for copy in replicated(rng, fact)]
    rng.shuffle(again)
    cut = rng.randint(0, len(again))
    assert rows(subject, facts) == rows(subject, again) == rows(subject, again[cut:] + again[:cut] + facts)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SUBJECTS), st.integers(0, 10**6))
def test_facts_read_back_from_their_relation_show_the_same_rows(subject: Subject, seed: int) -> None:
    facts = history(subject, case=0, seed=seed)
    stored = subject.relation.rows(facts, landed_at=0)
    assert rows(subject, facts) == rows(subject, list(facts_of(subject.relation, stored)))


def test_how_facts_are_split_into_commits_does_not_matter(duckdb_engine: Engine, tmp_path: Path) -> None:
    facts = [fact for case in range(20) for fact in history(NARROW, case=case, seed=1)]
    expected = rows(NARROW, facts)
    for n in (1, 2, 7):
        batches = [facts[i::n] for i in range(n)]
        raw = land(tmp_path, NARROW.relation, *batches, facts[:5], name=f"raw{n}")
        assert list(map(canonical_row, read_rows(duckdb_engine, raw, as_of=NOW))) == expected


# M3

T = table("t", partition={"k": INT}, regulars={"v": INT})


def test_a_read_is_the_same_text_and_rows_whenever_it_runs(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    raw = land(tmp_path, Relation(T), [Writer(T).update(1, at=1, v=7, expiry=(1, 5))])
    assert duckdb_engine.sql(Read(raw, as_of=4)) == duckdb_engine.sql(Read(raw, as_of=4))
    assert "now" not in duckdb_engine.sql(Read(raw, as_of=4)).lower()
    assert [len(read_rows(duckdb_engine, raw, as_of=now)) for now in (4, 5, 4)] == [1, 0, 1]


@pytest.mark.heavy
def test_a_view_reads_the_clock_at_each_read(tmp_path: Path) -> None:
    soon = int(time.time()) + 2
    facts = [Writer(T).update(k, at=1, v=7, expiry=(1, until)) for k, until in ((1, soon - 100), (2, soon), (3, soon + 100))]
    raw = land(tmp_path, Relation(T), facts)
    with DuckDbEngine() as engine:
        engine.apply(ViewDefinition("shop", "t", raw))
        seen = set()
        while time.time() < soon + 0.5:
            seen.add(tuple(engine.connection.sql("SELECT k FROM shop.t ORDER BY k").fetchall()))
            time.sleep(0.2)
    assert seen == {((2,), (3,)), ((3,),)}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_histories_are_the_same_for_the_same_seed(subject: Subject) -> None:
    assert repr(history(subject, case=3, seed=7)) == repr(history(subject, case=3, seed=7))
    assert repr(history(subject, case=3, seed=7)) != repr(history(subject, case=3, seed=8))
