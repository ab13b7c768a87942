"""A view that reads the events of an external table in SQL shows the rows of the view of the facts that the adapter makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from helpers.dialect_zetasql import GoogleSql
from helpers.event_tables import captured_of_cassandra, event_tables, random_events, random_of_cassandra, rows_of_cassandra
from helpers.found_tables import as_records
from sqlglot import exp

from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.times import datetime_text
from cdc_views.sql import events_sql
from cdc_views.sql.dialects import dialect

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

TABLES = event_tables()
HISTORIES = int(os.environ.get("CDC_VIEWS_HISTORIES", "300"))
OF_BIGQUERY = event_tables(without=("r", "f", "ts", "dt"))
"""BigQuery has no floats of 32 bits, and no columns of times before year 1 or after 9999, as the captured events have."""


def on_duckdb(sql: str, tables: Mapping[str, pa.Table]) -> list[str]:
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        return sorted(map(repr, connection.sql(sql).fetchall()))


def on_googlesql(sql: str, tables: Mapping[str, pa.Table]) -> list[str]:
    engine = googlesql()
    for name, rows in tables.items():
        engine.register(name, rows)
    return sorted(map(repr, engine.query(sql)))


INSTANTS = (1_700_000_000, 1_700_000_004, 1_700_000_009, 1_795_338_200)
"""Before, between and after what expires in events of Cassandra."""
_ENGINES: list[GoogleSql] = []


def googlesql() -> GoogleSql:
    if not _ENGINES:
        _ENGINES.append(GoogleSql())
    return _ENGINES[0]


@pytest.mark.parametrize("name", TABLES)
def test_duckdb_shows_what_the_copy_shows(name: str) -> None:
    assert on_duckdb(TABLES[name].check("duckdb", on_duckdb), {"found": TABLES[name].rows}), "there are rows to compare"


@pytest.mark.parametrize("name", TABLES)
def test_googlesql_shows_what_the_copy_shows(name: str) -> None:
    OF_BIGQUERY[name].check("bigquery", on_googlesql)


@pytest.mark.parametrize("of", ["postgresql", "mysql"])
@pytest.mark.parametrize("is_typed", [False, True])
def test_random_events_on_duckdb(is_typed: bool, of: str) -> None:
    rng = Random(26)
    for _ in range(HISTORIES // 4):
        random_events(rng, count=rng.randrange(1, 30), is_typed=is_typed, of=of).check("duckdb", on_duckdb)


@pytest.mark.parametrize("of", ["postgresql", "mysql"])
@pytest.mark.parametrize("is_typed", [False, True])
def test_random_events_on_googlesql(is_typed: bool, of: str) -> None:
    rng = Random(27)
    for _ in range(HISTORIES // 25):
        random_events(rng, count=rng.randrange(1, 20), is_typed=is_typed, of=of).check("bigquery", on_googlesql)


@pytest.mark.parametrize("of", ["postgresql", "mysql"])
def test_random_events_in_base64(of: str) -> None:
    rng = Random(29)
    for n in range(HISTORIES // 4):
        found = random_events(rng, count=rng.randrange(1, 30), is_typed=False, of=of, decimals="precise")
        found.check("duckdb", on_duckdb)
        if n % 10 == 0:
            found.check("bigquery", on_googlesql)


BASE64 = {
    "AAAAAAAAAGQ=": (None, "more than 7"),
    "": (None, "no byte"),
    "A+g=": (Decimal("10.00"), ""),
    "12.50": (None, "base64"),
    "/w==": (Decimal("-0.01"), ""),
    "Y0V4XYoAAA==": (None, "12"),
}
"""A decimal(12, 2) in base64, its value, and what the failure says if it has none."""


@pytest.mark.parametrize("sent", BASE64)
def test_what_is_no_decimal_in_base64_makes_the_query_fail(sent: str) -> None:
    found = random_events(Random(3), count=1, is_typed=False, of="mysql", decimals="precise")
    event = {"op": "c", "before": None, "after": {"id": 1, "price": sent, "big": None, "by": None}, "transaction": None}
    source = {"connector": "mysql", "table": "orders", "db": "shop", "file": "b.1", "pos": 4, "row": 0, "snapshot": "false"}
    rows = as_records([{"key": {"id": 1}, "value": {**event, "source": source, "ts_ms": 5}}])
    table = replace(found, rows=rows)
    sql = events_sql(table.relation, table.plan("duckdb"), dialect_name="duckdb", table="found")
    expected, says = BASE64[sent]
    if says:
        with pytest.raises(duckdb.Error, match=says):
            on_duckdb(sql, {"found": rows})
    else:
        assert repr(expected) in on_duckdb(sql, {"found": rows})[0]


@pytest.mark.parametrize("now", INSTANTS)
def test_captured_events_of_cassandra(now: int) -> None:
    captured_of_cassandra().check("duckdb", on_duckdb, now=now)
    captured_of_cassandra().check("bigquery", on_googlesql, now=now)
    rows_of_cassandra().check("duckdb", on_duckdb, now=now)
    rows_of_cassandra().check("bigquery", on_googlesql, now=now)


def test_random_events_of_cassandra() -> None:
    rng = Random(31)
    for n in range(HISTORIES // 8):
        found = random_of_cassandra(rng, count=rng.randrange(1, 40))
        for now in INSTANTS:
            found.check("duckdb", on_duckdb, now=now)
            if n % 10 == 0:
                found.check("bigquery", on_googlesql, now=now)


def test_a_source_whose_events_have_every_column_takes_a_window() -> None:
    text = random_events(Random(5), count=3, is_typed=True, of="mysql").check("duckdb", on_duckdb)
    assert "ROW_NUMBER() OVER (PARTITION BY id ORDER BY _log_position DESC, _gone DESC)" in text
    assert "MAX(STRUCT_PACK" not in text


def test_the_check_notices_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(28)
    tables = [random_events(rng, count=30, is_typed=True) for _ in range(5)]

    def oldest(sql: str, given: Mapping[str, pa.Table]) -> list[str]:
        return on_duckdb(sql.replace("* 4294967296", "* -4294967296") if "found" in given else sql, given)

    with pytest.raises(AssertionError):
        [table.check("duckdb", oldest) for table in tables]


def test_events_of_another_table_and_source_stand_beside() -> None:
    mine, other = (random_events(Random(n), count=20, is_typed=False, of=of) for n, of in enumerate(("postgresql", "mysql")))
    values = [value and value.replace('"orders"', '"elsewhere"') for value in other.rows.column("value").to_pylist()]
    theirs = other.rows.set_column(other.rows.column_names.index("value"), "value", pa.array(values))
    both = replace(mine, rows=pa.concat_tables([theirs, mine.rows]))
    shown = [
        on_duckdb(events_sql(one.relation, one.plan("duckdb"), dialect_name="duckdb", table="found"), {"found": one.rows})
        for one in (mine, both)
    ]
    assert shown[0] == shown[1]
    assert shown[0]


def test_the_first_and_the_last_years_are_shown() -> None:
    for micros, year in ((-62_135_596_800_000_000, 1), (253_402_300_799_000_000, 9999)):
        base = f"SELECT {friendly('duckdb', 'x')} FROM (SELECT CAST({micros} AS BIGINT) AS x)"
        with duckdb.connect() as connection:
            ((moment,),) = connection.sql(base).fetchall()
        assert moment.year == year


def friendly(name: str, column: str) -> str:
    """The friendly form of a time without a zone."""
    target = dialect(name)
    return target.friendly(exp.column(column), Scalar(Kind.DATETIME)).sql(dialect=target.sqlglot_name)


@pytest.mark.spark
def test_a_time_without_a_zone_is_the_same_in_every_session(spark_engine: SparkEngine) -> None:
    session = spark_engine.session
    moments = (-62_135_596_800_000_000, -1, 0, 1704164645123456, 1_710_054_000_000_000, 253_402_300_799_999_999)
    rows = " UNION ALL ".join(f"SELECT {micros}L AS x" for micros in moments)
    zone = session.conf.get("spark.sql.session.timeZone")
    try:
        session.conf.set("spark.sql.session.timeZone", "America/New_York")
        shown = {row[0] for row in session.sql(f"SELECT CAST({friendly('spark', 'x')} AS STRING) FROM ({rows})").collect()}
    finally:
        session.conf.set("spark.sql.session.timeZone", zone)
    assert shown == {datetime_text(micros).removesuffix(".000000") for micros in moments}


@pytest.mark.spark
def test_spark_shows_what_the_copy_shows(spark_engine: SparkEngine) -> None:
    session = spark_engine.session

    def show(sql: str, tables: Mapping[str, pa.Table]) -> list[str]:
        for name, rows in tables.items():
            session.createDataFrame(rows).createOrReplaceTempView(name)
        return sorted(row[0] for row in session.sql(f"SELECT to_json(struct(*)) FROM ({sql})").collect())

    rng = Random(29)
    sources = ("postgresql", "mysql")
    # a plan takes Spark seconds, whatever the rows: DuckDB has many tables, Spark one of each kind
    rounds, instants = (4, INSTANTS[1:3]) if HISTORIES >= 3000 else (1, INSTANTS[1:2])
    random = [random_events(rng, count=80, is_typed=n % 2 == 0, of=of) for n in range(rounds) for of in sources]
    random.append(random_events(rng, count=40, is_typed=False, of="mysql", decimals="precise"))
    for table in [*TABLES.values(), *random]:
        table.check("spark", show)
    for found in (captured_of_cassandra(), *(random_of_cassandra(rng, count=60) for _ in range(2 if rounds > 1 else 1))):
        for now in instants:
            found.check("spark", show, now=now)
