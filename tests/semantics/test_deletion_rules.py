"""Rules D1 to D3: what deletions remove, by scope and bound; the oracle, and DuckDB by every strategy."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from helpers.histories import NOW
from helpers.schemas import DECIMAL, INT, TEXT, TIMEUUID, UUID, VARINT, table
from helpers.values import GREATEST, LEAST, V1_NEW, V1_NEW_HIGH, V1_NEW_LOW, V1_OLD, V4_HIGH, V4_LOW
from helpers.writing import OPEN, Writer, exclusive, inclusive, removed

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import EMPTY, ListOf, MapOf, SetOf, Udt
from cdc_views.rules.facts import Bound, Fact

Shown = Callable[..., list[dict[str, Any]]]

SIMPLE = table("simple", partition={"k": INT}, regulars={"v": INT, "w": TEXT})
GRID = table(
    "grid", partition={"k": INT}, clustering={"a": INT, "b": INT}, descending=("b",), statics={"s": INT}, regulars={"v": INT}
)
WRITE, WRITE_GRID = Writer(SIMPLE), Writer(GRID)

# D1


@pytest.mark.parametrize(("deleted", "value"), [(4, 7), (5, None), (6, None)])
@pytest.mark.parametrize("base", [0, LEAST, GREATEST - 6])
def test_a_deletion_wins_ties_and_leaves_what_is_newer(shown: Shown, deleted: int, value: int | None, base: int) -> None:
    rows = shown(SIMPLE, WRITE.update(1, at=base + 5, v=7), WRITE.delete(1, at=base + deleted))
    assert [row["v"] for row in rows] == ([value] if value else [])


@pytest.mark.parametrize(("deleted", "is_there"), [(4, True), (5, False), (6, False)])
def test_a_deletion_removes_the_row_marker_too(shown: Shown, deleted: int, is_there: bool) -> None:
    assert bool(shown(SIMPLE, WRITE.insert(1, at=5), WRITE.delete(1, at=deleted))) == is_there


def test_a_deletion_removes_a_cell_and_leaves_the_newer_one_of_the_same_row(shown: Shown) -> None:
    rows = shown(SIMPLE, WRITE.insert(1, at=1, v=7, w="a"), WRITE.update(1, at=3, w="b"), WRITE.delete(1, at=2))
    assert rows == [{"k": 1, "v": None, "w": "b"}]


def test_a_deletion_of_the_future_hides_what_is_written_until_then(shown: Shown) -> None:
    rows = shown(SIMPLE, WRITE.delete(1, at=GREATEST), WRITE.insert(1, at=GREATEST, v=1), WRITE.insert(2, at=1, v=1))
    assert [row["k"] for row in rows] == [2]


def test_the_time_of_a_deletion_is_its_write_time_not_the_servers(shown: Shown) -> None:
    """`deleted_at` is in the future of the read, and far above any write time here."""
    assert shown(SIMPLE, WRITE.insert(1, at=1), WRITE.delete(1, at=1), now=0) == []


# D2: scopes


def grid(*, at: int = 1) -> list[Fact]:
    """Return rows a, b of 1 to 3 in partition 1, and a static value."""
    rows = [WRITE_GRID.insert(1, a, b, at=at, v=10 * a + b) for a, b in product((1, 2, 3), repeat=2)]
    return [*rows, WRITE_GRID.static(1, at=at, s=5)]


ALL = [13, 12, 11, 23, 22, 21, 33, 32, 31]
"""The values of `grid`, in clustering order: b is descending."""


def left_in(shown: Shown, *deletions: Fact) -> list[int]:
    """Return the values of `grid` that are left."""
    return [row["v"] for row in shown(GRID, *grid(), *deletions) if row["a"] is not None]


def test_no_deletion_leaves_everything_in_clustering_order(shown: Shown) -> None:
    assert left_in(shown) == ALL


def test_a_row_deletion_removes_its_row_alone(shown: Shown) -> None:
    assert left_in(shown, WRITE_GRID.delete(1, 2, 2, at=1)) == [v for v in ALL if v != 22]


def test_a_deletion_in_another_partition_removes_nothing(shown: Shown) -> None:
    range_deletion = WRITE_GRID.delete_range(2, at=9, start=OPEN, end=OPEN)
    assert left_in(shown, WRITE_GRID.delete_partition(2, at=9), range_deletion) == ALL


def test_a_partition_deletion_covers_rows_and_statics(shown: Shown) -> None:
    assert shown(GRID, *grid(), WRITE_GRID.delete_partition(1, at=1)) == []


def test_a_partition_deletion_covers_statics_beside_a_newer_row(shown: Shown) -> None:
    newer = WRITE_GRID.insert(1, 9, 9, at=2, v=1)
    rows = shown(GRID, *grid(), WRITE_GRID.delete_partition(1, at=1), newer)
    assert rows == [{"k": 1, "a": 9, "b": 9, "s": None, "v": 1}]


def test_newer_statics_survive_a_partition_deletion(shown: Shown) -> None:
    rows = shown(GRID, *grid(), WRITE_GRID.delete_partition(1, at=1), WRITE_GRID.static(1, at=2, s=6))
    assert rows == [{"k": 1, "a": None, "b": None, "s": 6, "v": None}]


def test_row_and_range_deletions_do_not_cover_statics(shown: Shown) -> None:
    everything = WRITE_GRID.delete_range(1, at=9, start=OPEN, end=OPEN)
    rows = shown(GRID, *grid(), everything, WRITE_GRID.delete(1, 1, 1, at=9))
    assert rows == [{"k": 1, "a": None, "b": None, "s": 5, "v": None}]


@pytest.mark.parametrize("largest", ["row", "range", "partition"])
def test_the_largest_of_the_deletions_that_cover_a_row_counts(shown: Shown, largest: str) -> None:
    at = {scope: 5 if scope == largest else 1 for scope in ("row", "range", "partition")}
    deletions = (
        WRITE_GRID.delete(1, 1, 1, at=at["row"]),
        WRITE_GRID.delete_range(1, at=at["range"], start=inclusive(1), end=inclusive(1)),
        WRITE_GRID.delete_partition(1, at=at["partition"]),
    )
    assert shown(GRID, WRITE_GRID.insert(1, 1, 1, at=5), *deletions) == []
    assert len(shown(GRID, WRITE_GRID.insert(1, 1, 1, at=6), *deletions)) == 1


def test_overlapping_ranges_each_delete_up_to_their_own_time(shown: Shown) -> None:
    rows = [WRITE_GRID.update(1, a, 1, at=a, v=a) for a in (1, 2, 3)]
    early = WRITE_GRID.delete_range(1, at=1, start=OPEN, end=OPEN)
    late = WRITE_GRID.delete_range(1, at=2, start=exclusive(1), end=OPEN)
    assert [row["v"] for row in shown(GRID, *rows, early)] == [2, 3]
    assert [row["v"] for row in shown(GRID, *rows, early, late)] == [3]


# D2: bounds

BOUNDS: list[tuple[str, Bound, Bound, list[int]]] = [
    ("open", OPEN, OPEN, []),
    ("open start, inclusive prefix", OPEN, inclusive(2), [33, 32, 31]),
    ("open start, exclusive prefix", OPEN, exclusive(2), [23, 22, 21, 33, 32, 31]),
    ("inclusive prefix, open end", inclusive(2), OPEN, [13, 12, 11]),
    ("exclusive prefix, open end", exclusive(2), OPEN, [13, 12, 11, 23, 22, 21]),
    ("one prefix", inclusive(2), inclusive(2), [13, 12, 11, 33, 32, 31]),
    ("nothing between", exclusive(2), exclusive(2), ALL),
    ("half a prefix", exclusive(2), inclusive(2), ALL),
    ("a full key", inclusive(2, 2), inclusive(2, 2), [13, 12, 11, 23, 21, 33, 32, 31]),
    ("descending, in clustering order", inclusive(2, 3), inclusive(2, 2), [13, 12, 11, 21, 33, 32, 31]),
    ("descending, in value order is empty", inclusive(2, 2), inclusive(2, 3), ALL),
    ("descending, exclusive", exclusive(2, 3), exclusive(2, 1), [13, 12, 11, 23, 21, 33, 32, 31]),
    ("a key to the end of its prefix", inclusive(2, 2), inclusive(2), [13, 12, 11, 23, 33, 32, 31]),
    ("the start of a prefix to a key", inclusive(2), exclusive(2, 2), [13, 12, 11, 22, 21, 33, 32, 31]),
    ("across prefixes", exclusive(1, 2), inclusive(3, 3), [13, 12, 32, 31]),
    ("values that no row has", inclusive(1, 2), exclusive(9, 9), [13]),
    ("below every row", inclusive(-5), inclusive(0, 7), ALL),
]


@pytest.mark.parametrize(("start", "end", "left"), [case[1:] for case in BOUNDS], ids=[case[0] for case in BOUNDS])
def test_a_range_covers_exactly_what_lies_inside_its_bounds(shown: Shown, start: Bound, end: Bound, left: list[int]) -> None:
    assert left_in(shown, WRITE_GRID.delete_range(1, at=1, start=start, end=end)) == left


ORDERED_KEYS: list[tuple[Any, list[Any]]] = [
    (DECIMAL, [EMPTY, *map(Decimal, ("-10", "-1.5", "0.00", "1E-5", "9", "1E+1", "11"))]),
    (VARINT, [EMPTY, -(10**25), -129, -1, 0, 9, 10, 10**25]),
    (UUID, [EMPTY, V1_OLD, V1_NEW_LOW, V1_NEW, V1_NEW_HIGH, V4_LOW, V4_HIGH]),
    (TIMEUUID, [EMPTY, V1_OLD, V1_NEW, V1_NEW_HIGH, V1_NEW_LOW]),
    (INT, [EMPTY, -(1 << 31), -1, 0, (1 << 31) - 1]),
    (TEXT, ["", "B", "a", "é", "\uffff", "\U0001f600"]),
    (ListOf(INT), [EMPTY, (), (-1,), (-1, 5), (0,), (10,)]),
]


@pytest.mark.parametrize("is_descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize(("kind", "keys"), ORDERED_KEYS, ids=lambda v: None if isinstance(v, list) else str(v))
def test_ranges_follow_the_order_of_the_keys_type(shown: Shown, kind: Any, keys: list[Any], is_descending: bool) -> None:
    schema = table("t", partition={"k": INT}, clustering={"c": kind}, descending=("c",) * is_descending, regulars={"v": INT})
    write, n = Writer(schema), len(keys)
    ordered = keys[::-1] if is_descending else keys
    # one partition for each pair of bounds and each of the four ways to include them
    cuts = [(i, j, *ends) for i, j in ((0, n - 1), (1, 3), (2, 2), (1, n - 2)) for ends in product((True, False), repeat=2)]
    facts: list[Fact] = []
    expected: list[tuple[int, Any]] = []
    for k, (i, j, from_itself, to_itself) in enumerate(cuts):
        start, end = Bound((ordered[i],), from_itself), Bound((ordered[j],), to_itself)
        facts += [write.insert(k, key, at=1) for key in keys] + [write.delete_range(k, at=1, start=start, end=end)]
        inside = ordered[i + (not from_itself) : j + to_itself]
        expected += [(k, key) for key in ordered if key not in inside]
    rows = shown(schema, *facts)
    assert [(row["k"], str(row["c"])) for row in rows] == [(k, str(key)) for k, key in expected]


def test_a_bound_equal_by_value_but_not_by_bytes_is_the_same_key(shown: Shown) -> None:
    schema = table("t", partition={"k": INT}, clustering={"c": DECIMAL}, regulars={"v": INT})
    write = Writer(schema)
    inside = write.delete_range(1, at=1, start=inclusive(Decimal("1.00")), end=inclusive(Decimal("1.000")))
    assert shown(schema, write.insert(1, Decimal("1.0"), at=1), inside) == []
    outside = write.delete_range(1, at=1, start=exclusive(Decimal("1.00")), end=OPEN)
    assert len(shown(schema, write.insert(1, Decimal("1.0"), at=1), outside)) == 1


# D3

PAIR = Udt("tests", "pair", (("a", INT), ("b", TEXT)), frozen=False)
MULTI: dict[str, tuple[Any, dict[Any, Any], dict[Any, Any]]] = {
    "list": (ListOf(INT, frozen=False), {V1_OLD: 1}, {V1_NEW: 2}),
    "set": (SetOf(INT, frozen=False), {1: True}, {2: True}),
    "map": (MapOf(TEXT, INT, frozen=False), {"a": 1}, {"b": 2}),
    "udt": (PAIR, {"a": 1}, {"b": "x"}),
}


def multi(kind: Any) -> tuple[TableSchema, Writer]:
    schema = table("t", partition={"k": INT}, clustering={"c": INT}, regulars={"v": kind})
    return schema, Writer(schema)


@pytest.mark.parametrize("name", MULTI)
def test_an_overwrite_replaces_every_older_element(shown: Shown, name: str) -> None:
    kind, old, new = MULTI[name]
    schema, write = multi(kind)
    before = write.update(1, 1, at=4, v=write.appended("v", old, at=4))
    replaced = write.update(1, 1, at=5, v=write.overwritten("v", new, at=5))
    fresh = write.update(1, 1, at=5, v=write.appended("v", new, at=5))
    assert shown(schema, before, replaced) == shown(schema, fresh)


@pytest.mark.parametrize("name", MULTI)
def test_an_overwrite_keeps_elements_of_its_own_write_time(shown: Shown, name: str) -> None:
    """The complex deletion is one microsecond older than the elements written with it."""
    kind, old, new = MULTI[name]
    schema, write = multi(kind)
    tied = write.update(1, 1, at=5, v=write.appended("v", old, at=5))
    replaced = write.update(1, 1, at=5, v=write.overwritten("v", new, at=5))
    both = write.update(1, 1, at=5, v=write.appended("v", {**old, **new}, at=5))
    assert shown(schema, tied, replaced) == shown(schema, both)


@pytest.mark.parametrize("name", MULTI)
@pytest.mark.parametrize(("deleted", "is_there"), [(4, True), (5, False)])
def test_a_complex_deletion_wins_ties_with_elements(shown: Shown, name: str, deleted: int, is_there: bool) -> None:
    kind, old, _ = MULTI[name]
    schema, write = multi(kind)
    facts = (write.update(1, 1, at=5, v=write.appended("v", old, at=5)), write.update(1, 1, at=deleted, v=removed(at=deleted)))
    assert bool(shown(schema, *facts)) == is_there


def test_a_complex_deletion_removes_nothing_else(shown: Shown) -> None:
    schema = table("t", partition={"k": INT}, regulars={"v": INT, "m": MULTI["map"][0], "n": MULTI["map"][0]})
    write = Writer(schema)
    filled = {"m": write.appended("m", {"a": 1}, at=1), "n": write.appended("n", {"a": 2}, at=1)}
    rows = shown(schema, write.insert(1, at=1, v=7, **filled), write.update(1, at=9, m=removed(at=9)))
    assert rows == [{"k": 1, "v": 7, "m": None, "n": (("a", 2),)}]


def test_the_larger_of_row_and_complex_deletion_covers_an_element(shown: Shown) -> None:
    schema, write = multi(MULTI["set"][0])
    element = write.update(1, 1, at=5, v=write.appended("v", {1: True}, at=5))
    for row_at, own_at in ((5, 1), (1, 5)):
        assert shown(schema, element, write.delete(1, 1, at=row_at), write.update(1, 1, at=1, v=removed(at=own_at))) == []


def test_a_complex_deletion_covers_static_elements(shown: Shown) -> None:
    schema = table("t", partition={"k": INT}, clustering={"c": INT}, statics={"s": MULTI["map"][0]}, regulars={"v": INT})
    write = Writer(schema)
    filled = write.static(1, at=5, s=write.appended("s", {"a": 1, "b": 2}, at=5))
    later = write.static(1, at=6, s=write.appended("s", {"b": 3}, at=6))
    rows = shown(schema, write.insert(1, 1, at=1, v=1), filled, write.static(1, at=5, s=removed(at=5)), later)
    assert rows == [{"k": 1, "c": 1, "s": (("b", 3),), "v": 1}]


def test_an_element_set_to_null_is_a_tombstone_of_its_own(shown: Shown) -> None:
    schema, write = multi(MULTI["map"][0])
    filled = write.update(1, 1, at=5, v=write.appended("v", {"a": 1, "b": 2}, at=5))
    cleared = write.update(1, 1, at=5, v=write.appended("v", {"a": None}, at=5))
    assert shown(schema, filled, cleared) == [{"k": 1, "c": 1, "v": (("b", 2),)}]


def test_the_instant_of_the_read_does_not_matter_to_deletions(shown: Shown) -> None:
    assert shown(GRID, *grid(), WRITE_GRID.delete_partition(1, at=1), now=NOW + 10**6) == []
