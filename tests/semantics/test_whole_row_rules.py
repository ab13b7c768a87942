"""The S rules, on a relation whose write times are log positions; the oracle, and DuckDB by every strategy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from helpers.schemas import INT, TEXT, table
from helpers.writing import Writer
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import WriteOrder, order_key

Shown = Callable[..., list[dict[str, Any]]]

ORDERS = table("orders", partition={"id": INT}, regulars={"v": INT, "w": TEXT})
WRITE = Writer(ORDERS)
EPOCHS, POSITIONS, ORDINALS = st.integers(0, (1 << 30) - 1), st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1)
LAST = order_key((1 << 64) - 1, ordinal=(1 << 32) - 1, epoch=(1 << 30) - 1)


@pytest.fixture
def read(shown: Shown) -> Shown:
    """`shown`, of log positions."""
    return partial(shown, order=WriteOrder.LOG_POSITION)


# S1


def test_a_created_row_of_nulls_exists(read: Shown) -> None:
    assert read(ORDERS, WRITE.insert(1, at=1, v=None, w=None)) == [{"id": 1, "v": None, "w": None}]


def test_an_event_replaces_every_column_it_holds(read: Shown) -> None:
    rows = read(ORDERS, WRITE.insert(1, at=1, v=9, w="z"), WRITE.insert(1, at=2, v=None, w="a"))
    assert rows == [{"id": 1, "v": None, "w": "a"}]


def test_a_column_an_event_does_not_hold_keeps_its_value(read: Shown) -> None:
    assert read(ORDERS, WRITE.insert(1, at=1, v=9, w="z"), WRITE.insert(1, at=2, v=1)) == [{"id": 1, "v": 1, "w": "z"}]


def test_a_delete_removes_the_row_and_a_later_create_brings_only_itself(read: Shown) -> None:
    created, deleted = WRITE.insert(1, at=1, v=9, w="z"), WRITE.delete(1, at=2)
    assert read(ORDERS, created, deleted) == []
    assert read(ORDERS, WRITE.insert(1, at=3, v=1), deleted, created) == [{"id": 1, "v": 1, "w": None}]


def test_columns_not_asked_for_need_not_be_read(duckdb_engine: Any, tmp_path: Any) -> None:
    from helpers.reading import STRATEGIES, land, read_rows

    from cdc_views.storage.relation import Relation

    facts = [WRITE.insert(1, at=1, v=None, w="a"), WRITE.insert(2, at=1, v=2), WRITE.delete(2, at=2), WRITE.insert(3, at=1)]
    raw = land(tmp_path, Relation(ORDERS, WriteOrder.LOG_POSITION), facts)
    for strategy in STRATEGIES:
        assert read_rows(duckdb_engine, raw, as_of=0, columns=("id", "v"), strategy=strategy) == [
            {"id": 1, "v": None},
            {"id": 3, "v": None},
        ]


# S2


@given(st.tuples(EPOCHS, POSITIONS, ORDINALS), st.tuples(EPOCHS, POSITIONS, ORDINALS))
def test_order_keys_order_by_epoch_then_position_then_ordinal(left: tuple[int, int, int], right: tuple[int, int, int]) -> None:
    keys = [order_key(position, ordinal=ordinal, epoch=epoch) for epoch, position, ordinal in (left, right)]
    assert (keys[0] < keys[1]) == (left < right)
    assert (keys[0] == keys[1]) == (left == right)
    assert all(0 <= key < 10**38 for key in keys)


@pytest.mark.parametrize("part", [{"position": -1}, {"position": 1 << 64}, {"ordinal": 1 << 32}, {"epoch": 1 << 30}])
def test_a_position_out_of_range_is_refused(part: dict[str, int]) -> None:
    with pytest.raises(MalformedEventError, match="out of range"):
        order_key(**{"position": 0, **part})


def test_positions_beyond_64_bits_order_exactly(read: Shown) -> None:
    rows = read(ORDERS, WRITE.insert(1, at=LAST, v=1, w="a"), WRITE.insert(1, at=LAST - 1, v=9, w="z"))
    assert rows == [{"id": 1, "v": 1, "w": "a"}]
    assert read(ORDERS, WRITE.insert(1, at=LAST, v=1), WRITE.delete(1, at=LAST - 1)) == [{"id": 1, "v": 1, "w": None}]
    assert read(ORDERS, WRITE.insert(1, at=LAST - 1, v=1), WRITE.delete(1, at=LAST)) == []


def test_a_new_epoch_follows_every_position_of_the_old_one(read: Shown) -> None:
    old, new = order_key((1 << 64) - 1), order_key(0, epoch=1)
    assert read(ORDERS, WRITE.insert(1, at=old, v=9), WRITE.insert(1, at=new, v=1)) == [{"id": 1, "v": 1, "w": None}]


# S3


def test_of_one_transaction_the_later_ordinal_wins_deletes_included(read: Shown) -> None:
    first, second, third = (order_key(5, ordinal=n) for n in range(3))
    created, deleted, again = WRITE.insert(1, at=first, v=9), WRITE.delete(1, at=second), WRITE.insert(1, at=third, w="a")
    assert read(ORDERS, deleted, created) == []
    assert read(ORDERS, again, deleted, created) == [{"id": 1, "v": None, "w": "a"}]


def test_redelivery_changes_nothing(read: Shown) -> None:
    facts = [WRITE.insert(1, at=1, v=1, w="a"), WRITE.insert(1, at=2, v=2), WRITE.delete(2, at=3)]
    assert read(ORDERS, *facts, *facts[::-1], *facts) == read(ORDERS, *facts)


# S6


def test_a_truncate_removes_every_row_of_the_table_until_its_position(read: Shown) -> None:
    facts = [WRITE.insert(n, at=n, v=n) for n in (1, 2, 3)]
    assert [row["id"] for row in read(ORDERS, *facts, WRITE.truncate(at=2))] == [3]
    assert [row["id"] for row in read(ORDERS, *facts, WRITE.truncate(at=1), WRITE.truncate(at=0))] == [2, 3]
    assert read(ORDERS, *facts, WRITE.truncate(at=3)) == []


def test_after_a_truncate_columns_start_anew(read: Shown) -> None:
    rows = read(ORDERS, WRITE.insert(1, at=1, v=9, w="z"), WRITE.truncate(at=2), WRITE.insert(1, at=3, v=1))
    assert rows == [{"id": 1, "v": 1, "w": None}]


def test_a_truncate_of_a_table_that_was_empty_shows_nothing(read: Shown) -> None:
    assert read(ORDERS, WRITE.truncate(at=2)) == []


def test_a_truncate_covers_rows_and_statics_of_clustered_tables(read: Shown) -> None:
    schema = table("t", partition={"k": INT}, clustering={"c": INT}, statics={"s": INT}, regulars={"v": INT})
    write = Writer(schema)
    facts = [write.insert(1, 1, at=1, v=1), write.static(1, at=1, s=5), write.static(2, at=3, s=6), write.insert(3, 1, at=3)]
    assert [(row["k"], row["c"], row["s"]) for row in read(schema, *facts, write.truncate(at=2))] == [(2, None, 6), (3, 1, None)]
