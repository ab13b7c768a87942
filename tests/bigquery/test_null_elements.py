"""Arrays that hold null: what BigQuery stores, prints and computes with, and what is said where it refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cdc_views_bigquery.config import SCHEME
from helpers.bigquery_rows import PLACE
from helpers.bigquery_warehouses import Served
from helpers.histories import NOW
from helpers.schemas import INT, TEXT, scalar, table
from helpers.values import V1_NEW, V1_OLD
from helpers.writing import Writer

from cdc_views.engines.base import Read, ViewDefinition
from cdc_views.engines.exact import rows_of
from cdc_views.errors import EngineError, UnsupportedError
from cdc_views.model.types import EMPTY, Kind, ListOf, MapOf, Udt
from cdc_views.rules.facts import Fact
from cdc_views.storage.relation import RawTable, Relation

YEAR_10000 = 253_402_300_800_000
STAMPS = ListOf(scalar(Kind.TIMESTAMP))
HOME = Udt("shop", "home", (("l", ListOf(INT)), ("t", TEXT)))
T = table(
    "t", partition={"id": INT}, regulars={"l": ListOf(INT, frozen=False), "ts": STAMPS, "fl": ListOf(INT), "m": MapOf(TEXT, HOME)}
)
WRITE = Writer(T)
RAW = RawTable(f"{SCHEME}{PLACE.raw_table('t')}", Relation(T))
PLAIN = WRITE.overwritten("l", {V1_OLD: 1, V1_NEW: 2}, at=1)
SOUND = WRITE.insert(1, at=1, l=PLAIN, ts=(0, 1000), fl=(1, 2), m=(("a", ((1,), "x")),))
HOLDING = WRITE.insert(2, at=1, l=WRITE.overwritten("l", {V1_OLD: 4711, V1_NEW: EMPTY}, at=1), ts=(YEAR_10000, 0), fl=())
"""An element of 0 bytes, and an instant that TIMESTAMP cannot hold: both are in raw, and null in the view."""


@pytest.fixture
def engine(server: Served) -> Iterator[object]:
    from cdc_views_bigquery.config import BigQueryConfig
    from cdc_views_bigquery.engine import BigQueryEngine

    with BigQueryEngine(PLACE, BigQueryConfig(endpoint=server.url)) as made:
        made.apply(ViewDefinition("my-project.shop", "t", RAW))
        yield made


def _land(engine: object, *facts: Fact) -> None:
    engine.load(RAW, Relation(T).rows(facts, landed_at=0))  # type: ignore[attr-defined]


def _rows(engine: object, sql: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = engine.connection.rows(sql, what="testing").to_pylist()  # type: ignore[attr-defined]
    return found


def test_a_view_keeps_them_for_sql_and_query_prints_them(engine: object) -> None:
    _land(engine, SOUND, HOLDING)
    texts = _rows(engine, "SELECT id, TO_JSON_STRING(l) AS l, TO_JSON_STRING(ts) AS ts FROM `my-project.shop.t` ORDER BY id")
    assert texts == [
        {"id": 1, "l": "[1,2]", "ts": '["1970-01-01T00:00:00Z","1970-01-01T00:00:01Z"]'},
        {"id": 2, "l": "[4711,null]", "ts": '[null,"1970-01-01T00:00:00Z"]'},
    ]
    items = "SELECT id, item FROM `my-project.shop.t`, UNNEST(l) AS item WITH OFFSET AS n ORDER BY id, n"
    assert [(row["id"], row["item"]) for row in _rows(engine, items)] == [(1, 1), (1, 2), (2, 4711), (2, None)]
    exact = list(rows_of(RAW.relation, (), engine.read(Read(RAW, NOW))))  # type: ignore[attr-defined]
    assert [(row["l"], row["ts"]) for row in exact] == [((1, 2), (0, 1000)), ((4711, EMPTY), (YEAR_10000, 0))]


@pytest.mark.slow
@pytest.mark.parametrize("column", ["l", "ts"])
def test_a_result_that_holds_one_is_refused_with_the_column_and_what_to_do(engine: object, column: str) -> None:
    _land(engine, SOUND)
    sql = f"SELECT {column} FROM `my-project.shop.t`"
    assert len(_rows(engine, sql)) == 1
    _land(engine, HOLDING)
    with pytest.raises(EngineError, match=rf"null element; error in writing field {column} .*TO_JSON_STRING") as caught:
        _rows(engine, sql)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "column", "count"),
    [
        ([SOUND, WRITE.insert(3, at=1, fl=(4711, EMPTY)), WRITE.insert(4, at=1, fl=(EMPTY,))], "fl", "2 of 3"),
        ([WRITE.insert(3, at=1, m=(("a", ((1,), "x")), ("b", ((4711, EMPTY), "y"))))], "m", "1 of 1"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_it_is_sent(
    engine: object, server: Served, facts: list[Fact], column: str, count: str
) -> None:
    sent = len(server.store.requests)
    with pytest.raises(UnsupportedError, match=f"{count} facts hold a null within an array of column '{column}'") as caught:
        _land(engine, *facts)
    assert "4711" not in str(caught.value)
    assert len(server.store.requests) == sent


def test_the_server_would_refuse_them(server: Served, engine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_views_bigquery import client

    monkeypatch.setattr(client, "check_storable", lambda rows, table: None)
    with pytest.raises(EngineError):
        _land(engine, WRITE.insert(3, at=1, fl=(4711, EMPTY)))
