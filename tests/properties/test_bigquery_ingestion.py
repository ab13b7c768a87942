"""`_CHANGE_SEQUENCE_NUMBER`: BigQuery's order of changes is ours, and its rows are the oracle's for whole rows."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from cdc_views_bigquery.merging.ingestion import DELETE, Change, changes_of, check_whole_rows, sequence_number
from helpers.schemas import BIGINT, LOGGED, NARROW, TEXT, Subject, table
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.errors import UnsupportedError
from cdc_views.formats.base import WriteOrder, order_key
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows

MICROS = st.integers(-(1 << 63), (1 << 63) - 1)
POSITIONS = st.builds(
    lambda position, ordinal, epoch: order_key(position, ordinal=ordinal, epoch=epoch),
    st.integers(0, (1 << 64) - 1) | st.integers(0, 3),
    st.integers(0, (1 << 32) - 1) | st.integers(0, 3),
    st.integers(0, (1 << 30) - 1) | st.integers(0, 2),
)
ROWS = Subject(table("rows", partition={"id": BIGINT}, regulars={"v": TEXT, "w": BIGINT}), WriteOrder.LOG_POSITION)


def compared(sequence: str) -> list[int]:
    """What BigQuery compares, by its documentation: at most four sections of at most 16 hex digits, unsigned."""
    sections = sequence.split("/")
    assert len(sections) <= 4
    assert all(1 <= len(section) <= 16 for section in sections)
    return [int(section, 16) for section in sections]


@pytest.mark.parametrize(("first", "second"), [("77", "7B"), ("FFF/B", "FFF/ABC"), ("BA/FFFFFFFF", "ABC"), ("ABC", "FFF/ABC")])
def test_the_documented_examples_compare_as_documented(first: str, second: str) -> None:
    assert compared(first) < compared(second)


@given(st.tuples(MICROS, st.booleans()), st.tuples(MICROS, st.booleans()))
def test_write_times_keep_their_order(one: tuple[int, bool], other: tuple[int, bool]) -> None:
    ours = [compared(sequence_number(at, WriteOrder.MICROS, deletes=deletes)) for at, deletes in (one, other)]
    assert (ours[0] < ours[1]) == (one < other)
    assert (ours[0] == ours[1]) == (one == other)


@given(st.tuples(POSITIONS, st.booleans()), st.tuples(POSITIONS, st.booleans()))
def test_log_positions_keep_their_order(one: tuple[int, bool], other: tuple[int, bool]) -> None:
    ours = [compared(sequence_number(at, WriteOrder.LOG_POSITION, deletes=deletes)) for at, deletes in (one, other)]
    assert (ours[0] < ours[1]) == (one < other)
    assert (ours[0] == ours[1]) == (one == other)


def whole(key: int, *, at: int, v: str | None, w: int | None) -> Fact:
    """An insert or update that has every column."""
    kinds = {"v": (TEXT, v), "w": (BIGINT, w)}
    cells = {n: Cell(at, x, serialize(kind, x)) if x is not None else Cell(at, deleted_at=0) for n, (kind, x) in kinds.items()}
    return Fact(FactKind.ROW, (key,), liveness=Liveness(at), cells=cells)


def gone(key: int, *, at: int) -> Fact:
    """A delete."""
    return Fact(FactKind.ROW, (key,), deletion=Deletion(at, 0))


def applied(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The rows that BigQuery shows: of each key the change of the largest sequence number, the last of equals."""
    latest: dict[int, Change] = {}
    for change in changes:
        before = latest.get(change.row["id"])
        if before is None or compared(change.sequence) >= compared(before.sequence):
            latest[change.row["id"]] = change
    return [change.row for _, change in sorted(latest.items()) if change.kind != DELETE]


@pytest.mark.parametrize("seed", range(40))
def test_whole_rows_are_the_oracles(seed: int) -> None:
    rng = Random(seed)
    # one event per position of a key (rule S3); the copies are redelivered
    positions = rng.sample(range(40), 12)
    facts = [
        gone(n % 3, at=order_key(p)) if rng.random() < 0.3 else whole(n % 3, at=order_key(p), v=rng.choice(["a", None]), w=p)
        for n, p in enumerate(positions)
    ]
    facts += rng.sample(facts, 4)
    rng.shuffle(facts)
    shown = applied(change for fact in facts for change in changes_of(ROWS.relation, fact))
    expected = sorted(latest_rows(ROWS.schema, facts, now=0), key=lambda row: row["id"])
    assert shown == expected


def test_the_check_can_fail() -> None:
    facts = [whole(1, at=order_key(16), v="new", w=1), whole(1, at=order_key(9), v="old", w=1)]
    changes = [change for fact in facts for change in changes_of(ROWS.relation, fact)]
    as_text = max(changes, key=lambda change: change.sequence)
    assert applied(changes)[0]["v"] == "new"
    assert as_text.row["v"] == "old", "sequence numbers compared as text would keep the older row"


def test_what_it_cannot_say_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cell by cell"):
        check_whole_rows(NARROW.relation)
    with pytest.raises(UnsupportedError, match="truncated"):
        list(changes_of(LOGGED.relation, Fact(FactKind.TABLE, deletion=Deletion(1, 0))))
    partial = Fact(FactKind.ROW, (1,), liveness=Liveness(1), cells={"v": Cell(1, "a", b"a")})
    with pytest.raises(UnsupportedError, match="lacks column 'w'"):
        list(changes_of(ROWS.relation, partial))
    keys = table("keys", partition={f"k{n}": BIGINT for n in range(17)}, regulars={"v": TEXT})
    with pytest.raises(UnsupportedError, match="17 key columns"):
        check_whole_rows(Subject(keys, WriteOrder.LOG_POSITION).relation)
