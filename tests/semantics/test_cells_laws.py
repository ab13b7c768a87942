"""Laws of reconciliation (rule C2): a total order, so that neither order nor repetition of events can matter."""

from __future__ import annotations

from functools import reduce
from itertools import permutations

from helpers.cells import all_seconds, all_ttls, cells, deletions, livenesses, write_times
from helpers.histories import MAX_SECONDS, MAX_TTL
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_views.rules.cells import (
    RULES,
    Cell,
    Deletion,
    Liveness,
    deciding_rule,
    latest_deletion,
    merge_cells,
    precedence,
    rank,
    reconcile,
    reconcile_liveness,
    unrank,
    visible,
)


@given(cells, cells)
def test_reconcile_is_commutative(left: Cell, right: Cell) -> None:
    assert reconcile(left, right) == reconcile(right, left)


@given(cells, cells, cells)
def test_reconcile_is_associative(a: Cell, b: Cell, c: Cell) -> None:
    assert reconcile(reconcile(a, b), c) == reconcile(a, reconcile(b, c))


@given(cells)
def test_reconcile_is_idempotent(cell: Cell) -> None:
    assert reconcile(cell, cell) == cell


@given(cells, cells)
def test_cells_of_equal_precedence_are_interchangeable(left: Cell, right: Cell) -> None:
    assert (precedence(left) == precedence(right)) == (left == right)


@given(cells, cells)
def test_the_winner_has_the_larger_precedence(left: Cell, right: Cell) -> None:
    winner = reconcile(left, right)
    assert winner in (left, right)
    assert precedence(winner) == max(precedence(left), precedence(right))


@given(st.lists(cells, min_size=1, max_size=4))
def test_every_order_and_repetition_of_cells_has_one_winner(facts: list[Cell]) -> None:
    expected = max(facts, key=precedence)
    assert all(reduce(reconcile, [*order, *order]) == expected for order in permutations(facts))


@given(cells, cells)
def test_rank_orders_cells_of_one_write_time_as_precedence_does(left: Cell, right: Cell) -> None:
    """What engines compare: written, rank, bytes."""
    ours = [(c.written, rank(c), c.order_bytes) for c in (left, right)]
    assert (ours[0] < ours[1]) == (precedence(left) < precedence(right))


@given(all_seconds, all_seconds, all_ttls, all_ttls)
def test_rank_orders_any_two_expiries_by_rules_4_and_5(one: int, other: int, ttl: int, other_ttl: int) -> None:
    left, right = Cell(0, 1, b"\1", ttl, one), Cell(0, 1, b"\1", other_ttl, other)
    assert (rank(left) < rank(right)) == ((one, -ttl) < (other, -other_ttl))


@given(all_ttls, all_seconds, st.booleans())
@example(0, MAX_SECONDS, True)
@example(MAX_TTL, 0, False)
def test_unrank_is_the_inverse_of_rank(ttl: int, seconds: int, has_bytes: bool) -> None:
    order_bytes = b"\1" if has_bytes else b""
    assert unrank(rank(Cell(0, deleted_at=seconds))) == (None, None, seconds)
    assert unrank(rank(Cell(0, 1, order_bytes))) == (None, None, None)
    assert unrank(rank(Cell(0, 1, order_bytes, ttl, seconds))) == (ttl, seconds, None)
    assert unrank(rank(Liveness(0, ttl, seconds))) == (ttl, seconds, None)
    assert unrank(rank(Liveness(0))) == (None, None, None)


@given(all_ttls, all_seconds, st.booleans())
@example(0, MAX_SECONDS, True)
@example(MAX_TTL, 0, False)
def test_rank_fits_64_bits_and_tells_the_three_forms_apart(ttl: int, seconds: int, has_bytes: bool) -> None:
    order_bytes = b"\1" if has_bytes else b""
    live, expiring, tombstone = (
        rank(cell) for cell in (Cell(0, 1, order_bytes), Cell(0, 1, order_bytes, ttl, seconds), Cell(0, deleted_at=seconds))
    )
    assert -(1 << 63) <= live < expiring < 0 <= tombstone < 1 << 63


@given(cells, cells)
def test_the_deciding_rule_is_the_first_component_that_differs(left: Cell, right: Cell) -> None:
    winner, loser = sorted((left, right), key=precedence, reverse=True)
    rule = deciding_rule(winner, loser)
    assert (rule == "copy") == (left == right)
    if rule != "copy":
        n = RULES.index(rule)
        assert precedence(winner)[:n] == precedence(loser)[:n]
        assert precedence(winner)[n] > precedence(loser)[n]


@given(livenesses, livenesses, livenesses)
def test_reconciling_markers_is_commutative_associative_and_idempotent(a: Liveness, b: Liveness, c: Liveness) -> None:
    assert reconcile_liveness(a, b) == reconcile_liveness(b, a)
    assert reconcile_liveness(reconcile_liveness(a, b), c) == reconcile_liveness(a, reconcile_liveness(b, c))
    assert reconcile_liveness(a, a) == a
    assert reconcile_liveness(a, None) == reconcile_liveness(None, a) == a


@given(livenesses, livenesses)
def test_rank_orders_markers_as_w1_does(left: Liveness, right: Liveness) -> None:
    ours = [(m.written, rank(m)) for m in (left, right)]
    assert reconcile_liveness(left, right) == (left if ours[0] >= ours[1] else right)


@given(st.lists(st.one_of(st.none(), deletions), max_size=5))
def test_the_latest_deletion_covers_what_any_of_them_covers(given_deletions: list[Deletion | None]) -> None:
    latest = latest_deletion(given_deletions)
    for written in range(5):
        covered = any(d is not None and d.covers(written) for d in given_deletions)
        assert covered == (latest is not None and latest.covers(written))


@given(st.lists(cells, min_size=1, max_size=4), st.lists(cells, min_size=1, max_size=4))
def test_merging_places_is_reconciling_each(one: list[Cell], other: list[Cell]) -> None:
    merged: dict[object, Cell] = {}
    merge_cells(merged, [*(("a", c) for c in one), *(("b", c) for c in other)])
    assert merged == {"a": max(one, key=precedence), "b": max(other, key=precedence)}


@given(cells, st.one_of(st.none(), deletions), st.integers(9, 14))
def test_a_cell_that_hid_at_an_instant_never_shows_again(cell: Cell, deletion: Deletion | None, now: int) -> None:
    assert visible(cell, deletion=deletion, now=now) or not visible(cell, deletion=deletion, now=now + 1)


@given(write_times, write_times)
def test_a_deletion_covers_what_is_not_newer(written: int, deleted: int) -> None:
    assert Deletion(deleted, 0).covers(written) == (written <= deleted)
