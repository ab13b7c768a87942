"""The comparison with BigQuery's SQL notices a wrong text in either form; what BigQuery cannot hold is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.googlesql_cases import GoogleSqlCases
from helpers.histories import NOW
from helpers.schemas import INT, TEXT, table
from helpers.values import V1_NEW, V1_OLD
from helpers.writing import Writer

from cdc_views.model.strategy import Strategy
from cdc_views.model.types import EMPTY, ListOf, SetOf
from cdc_views.storage.relation import Relation

if TYPE_CHECKING:
    from helpers.dialect_zetasql import GoogleSql

pytestmark = pytest.mark.heavy

T = table("t", partition={"k": INT}, clustering={"c": INT}, regulars={"v": INT, "w": TEXT, "l": ListOf(INT, frozen=False)})
WRITE = Writer(T)
FACTS = (
    WRITE.insert(1, 1, at=1, v=1, l=WRITE.overwritten("l", {V1_OLD: 7, V1_NEW: EMPTY}, at=1)),
    WRITE.update(1, 1, at=2, v=2, w="new"),
    WRITE.insert(1, 2, at=1, v=3, expiry=(5, NOW + 5)),
    WRITE.insert(2, 1, at=1, v=4),
    WRITE.delete_partition(2, at=1),
)
EXACT, VIEW = "_check_exact", "_check_view"


def test_nothing_is_noticed_where_nothing_is_wrong(googlesql: GoogleSql) -> None:
    cases = GoogleSqlCases(googlesql, (Strategy.AGGREGATE,))
    assert len(cases.show(Relation(T), FACTS, now=NOW)) == 2
    assert (cases.reads, cases.unprintable, cases.refused) == (2, 1, [])


@pytest.mark.parametrize("form", [EXACT, VIEW])
@pytest.mark.parametrize(
    "mutate",
    [("`written` DESC", "`written` ASC"), ("'row'", "'range'"), ("LIMIT 1", "LIMIT 0")],
    ids=["the oldest wins", "rows are not read", "nothing wins"],
)
def test_a_wrong_text_is_noticed(
    googlesql: GoogleSql, monkeypatch: pytest.MonkeyPatch, form: str, mutate: tuple[str, str]
) -> None:
    monkeypatch.setattr(GoogleSqlCases, EXACT if form == VIEW else VIEW, lambda *_, **__: None)
    with pytest.raises(AssertionError):
        GoogleSqlCases(googlesql, (Strategy.AGGREGATE,), mutate=mutate).show(Relation(T), FACTS, now=NOW)


def test_what_cannot_be_held_is_counted_and_the_rest_is_compared(googlesql: GoogleSql) -> None:
    lists = table("lists", partition={"k": INT}, regulars={"e": SetOf(ListOf(INT), frozen=False), "f": ListOf(INT)})
    write = Writer(lists)
    cases = GoogleSqlCases(googlesql, (Strategy.WINDOW,))
    cases.show(Relation(lists), [write.insert(1, at=1, f=(1,))], now=NOW)
    assert ("'e' holds lists within lists" in str(cases.refused[0]), cases.reads) == (True, 1)
    cases.show(Relation(lists), [write.insert(1, at=1, f=(EMPTY,))], now=NOW)
    assert ("1 of 1 facts hold a null" in str(cases.refused[1]), cases.reads) == (True, 1)
