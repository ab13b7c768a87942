"""Arrays in a serving table of BigQuery: elements without a value are left out, at any level, and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cdc_views_bigquery.merging import plans
from cdc_views_bigquery.merging.columns import leaves_out
from helpers.bigquery_loop import Loop
from helpers.bigquery_values import StoreError
from helpers.histories import NOW
from helpers.schemas import INT, TEXT, Subject, scalar, table
from helpers.values import V1_NEW, V1_OLD
from helpers.writing import Writer

from cdc_views.model.types import EMPTY, Kind, ListOf, MapOf, SetOf, TupleOf, Udt

if TYPE_CHECKING:
    from helpers.bigquery_values import Evaluator

pytestmark = pytest.mark.heavy

LATE = 253_402_300_800_000
"""Year 10000 in ms; as days, `LATE // 86_400_000`."""
STAMPS, DAYS = ListOf(scalar(Kind.TIMESTAMP)), SetOf(scalar(Kind.DATE))
PAIR = Udt("tests", "pair", (("B b", STAMPS), ("n", INT)))
ARRAYS = Subject(
    table(
        "arrays",
        partition={"case": INT},
        regulars={
            "l": ListOf(INT, frozen=False),
            "e": SetOf(scalar(Kind.TIMESTAMP), frozen=False),
            "ts": STAMPS,
            "m": MapOf(TEXT, STAMPS),
            "lu": ListOf(PAIR),
            "t": TupleOf((INT, DAYS)),
            "u": Udt("tests", "home", (("B b", STAMPS), ("c", INT)), frozen=False),
            "plain": ListOf(TEXT, frozen=False),
        },
    )
)
WRITE = Writer(ARRAYS.schema)


@pytest.fixture(scope="module")
def engine() -> Evaluator:
    from helpers.bigquery_values import Evaluator

    return Evaluator()


def _landed(loop: Loop) -> None:
    held = WRITE.insert(
        1, at=1, l=WRITE.overwritten("l", {V1_OLD: 1, V1_NEW: 2}, at=1), ts=(1000,), lu=(((1000,), 7),), t=(1, (3,))
    )
    odd = WRITE.insert(
        2,
        at=1,
        l=WRITE.overwritten("l", {V1_OLD: 1, V1_NEW: EMPTY}, at=1),
        e=WRITE.overwritten("e", {0: True, LATE: True}, at=1),
        ts=(LATE, 1000, LATE),
        m=(("a", (LATE,)), ("b", (1000,))),
        lu=(((LATE, 1000), 7), ((1000,), None)),
        t=(None, (3, LATE // 86_400_000)),
        u=WRITE.appended("u", {"B b": (1000, LATE), "c": 5}, at=1),
        plain=WRITE.overwritten("plain", {V1_OLD: "", V1_NEW: "x"}, at=1),
    )
    loop.land(held, odd, WRITE.insert(3, at=1), at=NOW)


@pytest.mark.slow
def test_elements_without_a_value_are_left_out_and_counted(engine: Evaluator) -> None:
    loop = Loop(engine, ARRAYS)
    _landed(loop)
    loop.run(NOW)
    loop.check(now=NOW)
    loop.check_served(now=NOW)
    counted = {row["case"]: row["_left_out"] for row in loop.table("").records()}
    assert counted == {1: 0, 2: 1 + 1 + 2 + 1 + 1 + 1 + 1, 3: 0}


@pytest.mark.slow
def test_they_could_not_be_stored(engine: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "stored", lambda value, _: (value, []))
    from helpers import bigquery_loop

    bigquery_loop._script.cache_clear()
    loop = Loop(engine, ARRAYS)
    _landed(loop)
    with pytest.raises(StoreError, match="an array of column"):
        loop.run(NOW)
    bigquery_loop._script.cache_clear()


def test_a_table_whose_arrays_hold_anything_counts_nothing() -> None:
    texts = {"l": ListOf(TEXT, frozen=False), "f": ListOf(INT), "m": MapOf(TEXT, scalar(Kind.TIMESTAMP)), "v": INT}
    assert not leaves_out(Subject(table("texts", partition={"case": INT}, regulars=texts)).relation)
    assert leaves_out(ARRAYS.relation)
