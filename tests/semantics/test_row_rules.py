"""Rules W1 to W6: which rows exist, and what they show; the oracle, and DuckDB by every strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from helpers.histories import NOW
from helpers.schemas import DECIMAL, INT, TEXT, scalar, table
from helpers.values import TIMEUUIDS, V1_LATE_BUT_LESS_BY_TEXT, V1_NEW, V1_NEW_HIGH, V1_NEW_LOW, V1_OLD
from helpers.writing import Writer, removed

from cdc_views.errors import UnsupportedError
from cdc_views.model.types import Kind, ListOf, MapOf, SetOf, Udt
from cdc_views.rules.cells import Liveness
from cdc_views.rules.facts import Fact, FactKind

Shown = Callable[..., list[dict[str, Any]]]

T = table("t", partition={"k": INT}, regulars={"v": INT, "w": TEXT})
S = table("s", partition={"k": INT}, clustering={"c": INT}, statics={"s": INT, "z": TEXT}, regulars={"v": INT})
WRITE, WRITE_S = Writer(T), Writer(S)


def marker(written: int, *expiry: int) -> Fact:
    """A row marker alone."""
    return Fact(FactKind.ROW, (1,), liveness=Liveness(written, *expiry))


def exists(shown: Shown, *facts: Fact, now: int = NOW) -> bool:
    return bool(shown(T, *facts, now=now))


# W1


def test_the_marker_with_the_larger_write_time_wins(shown: Shown) -> None:
    assert exists(shown, marker(2), marker(1, 1, NOW))
    assert not exists(shown, marker(1), marker(2, 1, NOW))


def test_an_expiring_marker_beats_an_eternal_one_of_the_same_write_time(shown: Shown) -> None:
    assert exists(shown, marker(1), marker(1, 1, NOW + 1))
    assert not exists(shown, marker(1), marker(1, 1, NOW))


def test_of_two_expiring_markers_the_later_expiry_wins(shown: Shown) -> None:
    assert exists(shown, marker(1, 1, NOW), marker(1, 9, NOW + 1))


@pytest.mark.parametrize(("now", "is_there"), [(NOW - 1, True), (NOW, False)])
def test_a_marker_is_expired_exactly_when_now_reaches_its_expiry(shown: Shown, now: int, is_there: bool) -> None:
    assert exists(shown, marker(1, 1, NOW), now=now) == is_there


# W2


def test_an_insert_of_only_the_key_shows_a_row_of_nulls(shown: Shown) -> None:
    assert shown(T, WRITE.insert(1, at=1)) == [{"k": 1, "v": None, "w": None}]


def test_an_update_alone_shows_a_row(shown: Shown) -> None:
    assert shown(T, WRITE.update(1, at=1, v=7)) == [{"k": 1, "v": 7, "w": None}]


def test_an_update_and_then_nulling_every_column_makes_the_row_vanish(shown: Shown) -> None:
    assert not exists(shown, WRITE.update(1, at=1, v=7, w="a"), WRITE.update(1, at=2, v=None, w=None))


def test_an_insert_and_then_nulling_every_column_keeps_the_row(shown: Shown) -> None:
    assert exists(shown, WRITE.insert(1, at=1, v=7, w="a"), WRITE.update(1, at=2, v=None, w=None))


def test_a_row_lives_until_its_last_cell_expires(shown: Shown) -> None:
    facts = (WRITE.insert(1, at=1, expiry=(1, NOW)), WRITE.update(1, at=1, v=7, expiry=(1, NOW + 5)))
    assert shown(T, *facts, now=NOW) == [{"k": 1, "v": 7, "w": None}]
    assert not exists(shown, *facts, now=NOW + 5)


def test_a_column_not_asked_for_keeps_its_row_alive(duckdb_engine: Any, tmp_path: Any) -> None:
    from helpers.reading import STRATEGIES, land, read_rows

    from cdc_views.storage.relation import Relation

    raw = land(tmp_path, Relation(T), [WRITE.update(1, at=1, w="a"), WRITE.update(2, at=1, w=None)])
    for strategy in STRATEGIES:
        assert read_rows(duckdb_engine, raw, as_of=NOW, columns=("v",), strategy=strategy) == [{"v": None}]


def test_a_live_element_keeps_its_row_alive(shown: Shown) -> None:
    schema = table("t", partition={"k": INT}, regulars={"m": MapOf(TEXT, INT, frozen=False)})
    write = Writer(schema)
    facts = [write.update(1, at=1, m=write.appended("m", {"a": 1}, at=1, expiry=(1, NOW + 1)))]
    assert shown(schema, *facts) == [{"k": 1, "m": (("a", 1),)}]
    assert shown(schema, *facts, now=NOW + 1) == []


def test_a_live_field_of_a_user_type_keeps_its_row_alive(shown: Shown) -> None:
    pair = Udt("tests", "pair", (("a", INT), ("b", TEXT)), frozen=False)
    schema = table("t", partition={"k": INT}, regulars={"u": pair})
    write = Writer(schema)
    field = write.update(1, at=1, u=write.appended("u", {"b": "x"}, at=1))
    assert shown(schema, field) == [{"k": 1, "u": (None, "x")}]
    assert shown(schema, field, write.update(1, at=2, u=write.appended("u", {"b": None}, at=2))) == []


def test_a_fact_that_says_nothing_shows_nothing(shown: Shown) -> None:
    assert shown(T, Fact(FactKind.ROW, (1,))) == []
    assert shown(T) == []


# W3


def test_statics_appear_on_each_row_of_their_partition(shown: Shown) -> None:
    facts = [WRITE_S.insert(1, 1, at=1), WRITE_S.insert(1, 2, at=1), WRITE_S.insert(2, 1, at=1), WRITE_S.static(1, at=1, s=5)]
    assert [(row["k"], row["c"], row["s"]) for row in shown(S, *facts)] == [(1, 1, 5), (1, 2, 5), (2, 1, None)]


def test_a_partition_with_live_statics_and_no_live_row_shows_one_row(shown: Shown) -> None:
    facts = (WRITE_S.static(1, at=1, s=5), WRITE_S.insert(1, 1, at=1), WRITE_S.delete(1, 1, at=1))
    assert shown(S, *facts) == [{"k": 1, "c": None, "s": 5, "z": None, "v": None}]


def test_a_partition_whose_statics_all_died_shows_nothing(shown: Shown) -> None:
    written = WRITE_S.static(1, at=1, s=5, z="a", expiry=(1, NOW + 1))
    assert len(shown(S, written)) == 1
    assert shown(S, written, now=NOW + 1) == []
    assert shown(S, written, WRITE_S.static(1, at=2, s=None, z=None)) == []


def test_the_static_only_row_goes_when_a_row_comes(shown: Shown) -> None:
    rows = shown(S, WRITE_S.static(1, at=1, s=5), WRITE_S.insert(1, 1, at=1))
    assert [(row["c"], row["s"]) for row in rows] == [(1, 5)]


def test_statics_do_not_keep_a_row_alive(shown: Shown) -> None:
    rows = shown(S, WRITE_S.static(1, at=1, s=5), WRITE_S.update(1, 1, at=1, v=None))
    assert rows == [{"k": 1, "c": None, "s": 5, "z": None, "v": None}]


def test_static_only_rows_stand_among_other_partitions_in_key_order(shown: Shown) -> None:
    facts = (WRITE_S.insert(3, 1, at=1), WRITE_S.static(2, at=1, s=5), WRITE_S.insert(1, 1, at=1))
    assert [(row["k"], row["c"]) for row in shown(S, *facts)] == [(1, 1), (2, None), (3, 1)]


# W4


def test_each_element_reconciles_on_its_own(shown: Shown) -> None:
    schema = table("t", partition={"k": INT}, regulars={"m": MapOf(TEXT, INT, frozen=False)})
    write = Writer(schema)
    one = write.update(1, at=1, m=write.appended("m", {"a": 9, "b": 1}, at=1))
    other = write.update(1, at=1, m=write.appended("m", {"a": 1, "c": 3}, at=1))
    later = write.update(1, at=2, m=write.appended("m", {"b": None}, at=2))
    assert shown(schema, one, other, later) == [{"k": 1, "m": (("a", 9), ("c", 3))}]


LISTS = table("t", partition={"k": INT}, regulars={"l": ListOf(INT, frozen=False)})
WRITE_L = Writer(LISTS)


def test_a_list_orders_by_the_time_of_its_paths_then_their_signed_bytes(shown: Shown) -> None:
    in_order = [V1_OLD, V1_NEW, V1_NEW_HIGH, V1_NEW_LOW, V1_LATE_BUT_LESS_BY_TEXT]
    assert sorted(in_order) != in_order
    places = {path: n for n, path in enumerate(in_order)}
    facts = [WRITE_L.update(1, at=1, l=WRITE_L.appended("l", {path: places[path]}, at=1)) for path in TIMEUUIDS]
    (row,) = shown(LISTS, *facts)
    assert row["l"] == (0, 1, 2, 3, 4)


def test_equal_elements_of_a_list_stay_apart(shown: Shown) -> None:
    (row,) = shown(LISTS, WRITE_L.update(1, at=1, l=WRITE_L.appended("l", {V1_OLD: 7, V1_NEW: 7}, at=1)))
    assert row["l"] == (7, 7)


def test_an_element_of_one_path_is_one_element_whatever_its_writes(shown: Shown) -> None:
    facts = [WRITE_L.update(1, at=at, l=WRITE_L.appended("l", {V1_OLD: at}, at=at)) for at in (1, 2, 3)]
    (row,) = shown(LISTS, *facts)
    assert row["l"] == (3,)


def test_a_collection_without_a_live_element_is_null(shown: Shown) -> None:
    schema = table("t", partition={"k": INT}, regulars={"e": SetOf(INT, frozen=False)})
    write = Writer(schema)
    filled = write.insert(1, at=1, e=write.appended("e", {1: True}, at=1))
    assert shown(schema, filled, write.update(1, at=1, e=removed(at=1))) == [{"k": 1, "e": None}]
    assert shown(schema, write.insert(1, at=1, e=write.overwritten("e", {}, at=1))) == [{"k": 1, "e": None}]


def test_a_frozen_collection_may_be_empty(shown: Shown) -> None:
    schema = table("t", partition={"k": INT}, regulars={"e": SetOf(INT)})
    assert shown(schema, Writer(schema).insert(1, at=1, e=())) == [{"k": 1, "e": ()}]


def test_sets_and_maps_order_by_the_type_of_their_keys(shown: Shown) -> None:
    schema = table(
        "t", partition={"k": INT}, regulars={"e": SetOf(INT, frozen=False), "m": MapOf(scalar(Kind.VARINT), INT, frozen=False)}
    )
    write = Writer(schema)
    elements = write.appended("e", {10: True, 9: True, -1: True}, at=1)
    entries = write.appended("m", {10: 1, 9: 2, -1: 3}, at=1)
    (row,) = shown(schema, write.update(1, at=1, e=elements, m=entries))
    assert row["e"] == (-1, 9, 10)
    assert row["m"] == ((-1, 3), (9, 2), (10, 1))


def test_fields_of_a_user_type_reconcile_on_their_own_and_null_where_dead(shown: Shown) -> None:
    pair = Udt("tests", "pair", (("a", INT), ("B b", TEXT), ("c", DECIMAL)), frozen=False)
    schema = table("t", partition={"k": INT}, regulars={"u": pair})
    write = Writer(schema)
    facts = (
        write.update(1, at=1, u=write.appended("u", {"a": 1, "B b": "x"}, at=1)),
        write.update(1, at=2, u=write.appended("u", {"a": None}, at=2)),
    )
    assert shown(schema, *facts) == [{"k": 1, "u": (None, "x", None)}]


# W5


@pytest.mark.parametrize("kind", [scalar(Kind.COUNTER), MapOf(TEXT, scalar(Kind.COUNTER)), ListOf(scalar(Kind.COUNTER))])
def test_counters_are_refused_by_name(kind: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"'hits'.*counter"):
        table("t", partition={"k": INT}, regulars={"hits": kind})


# W6

READDED = table(
    "t",
    partition={"k": INT},
    clustering={"c": INT},
    statics={"s": INT},
    regulars={"v": INT, "kept": INT, "m": MapOf(TEXT, INT, frozen=False)},
    dropped={"s": 5, "v": 5, "m": 5, "gone": 5},
)
WRITE_R = Writer(READDED)


@pytest.mark.parametrize(("at", "value"), [(4, None), (5, None), (6, 7)])
def test_cells_written_until_the_drop_never_show_after_it_is_added_again(shown: Shown, at: int, value: int | None) -> None:
    entries = WRITE_R.appended("m", {"a": 7}, at=at)
    facts = (WRITE_R.insert(1, 1, at=1, kept=7), WRITE_R.update(1, 1, at=at, v=7, m=entries), WRITE_R.static(1, at=at, s=7))
    (row,) = shown(READDED, *facts)
    assert row == {"k": 1, "c": 1, "s": value, "v": value, "kept": 7, "m": value and (("a", 7),)}


def test_a_cell_from_before_the_drop_keeps_no_row_alive(shown: Shown) -> None:
    entries = WRITE_R.appended("m", {"a": 7}, at=5)
    assert shown(READDED, WRITE_R.update(1, 1, at=5, v=7, m=entries), WRITE_R.static(1, at=5, s=7)) == []


def test_a_cell_from_before_the_drop_hides_nothing(shown: Shown) -> None:
    old_tombstone = WRITE_R.update(1, 1, at=5, v=None)
    (row,) = shown(READDED, old_tombstone, WRITE_R.update(1, 1, at=6, v=7))
    assert row["v"] == 7


def test_a_column_dropped_twice_goes_by_its_last_drop(shown: Shown) -> None:
    again = replace(READDED, dropped=(*READDED.dropped, replace(READDED.dropped[1], dropped_at=8)))
    (row,) = shown(again, WRITE_R.insert(1, 1, at=7, v=7, kept=1))
    assert (row["v"], row["kept"]) == (None, 1)
