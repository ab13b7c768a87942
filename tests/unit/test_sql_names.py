"""Names without quotes: `tests/properties/test_dialects.py` asks each engine about each of its words."""

from __future__ import annotations

import duckdb
import pytest
from helpers.sql_words import statement

from cdc_views.sql.dialects.keywords import KEYWORDS
from cdc_views.sql.dialects.writing import identifier


def test_plain_names_have_no_quotes_and_others_do() -> None:
    assert [identifier(name).sql() for name in ("customer", "_x1")] == ["customer", "_x1"]
    others = ("Customer", "1x", "select", "a b", "naïve")
    assert [identifier(name).sql() for name in others] == [f'"{name}"' for name in others]


def test_a_keyword_without_quotes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_views.sql.dialects.writing.KEYWORDS", KEYWORDS - {"recursive"})
    with pytest.raises(duckdb.ParserException):
        duckdb.sql(statement(["recursive"], "duckdb"))
