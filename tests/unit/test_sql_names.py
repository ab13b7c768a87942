"""Names without quotes: each engine reads them as the names that they are (PostgreSQL: test_dialect_postgres.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from helpers.sql_words import answer, in_groups, statement

from cdc_views.sql.dialects.keywords import KEYWORDS
from cdc_views.sql.dialects.writing import identifier

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine


def test_plain_names_have_no_quotes_and_others_do() -> None:
    assert [identifier(name).sql() for name in ("customer", "_x1")] == ["customer", "_x1"]
    others = ("Customer", "1x", "select", "a b", "naïve")
    assert [identifier(name).sql() for name in others] == [f'"{name}"' for name in others]


def test_duckdb_reads_each_word_as_a_name() -> None:
    own = [row[0] for row in duckdb.sql("SELECT keyword_name FROM duckdb_keywords()").fetchall()]
    assert len(own) > 400
    for (word,) in in_groups(own, size=1):
        assert duckdb.sql(statement([word], "duckdb")).fetchall() == [(0, 0)], word


def test_a_keyword_without_quotes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_views.sql.dialects.writing.KEYWORDS", KEYWORDS - {"recursive"})
    with pytest.raises(duckdb.ParserException):
        duckdb.sql(statement(["recursive"], "duckdb"))


@pytest.mark.heavy
def test_googlesql_reads_each_word_as_a_name() -> None:
    from helpers.dialect_zetasql import GoogleSql

    engine = GoogleSql()
    for words in in_groups([]):
        assert engine.query(statement(words, "bigquery")) == [answer(words, "bigquery")]


@pytest.mark.spark
def test_spark_reads_each_word_as_a_name(spark_engine: SparkEngine) -> None:
    session = spark_engine.session
    own = [row[0] for row in session.sql("SELECT keyword FROM sql_keywords()").collect()]
    assert len(own) > 300
    for words in in_groups(own, size=30):
        (row,) = session.sql(statement(words, "spark")).collect()
        assert row.asDict() == answer(words, "spark")
