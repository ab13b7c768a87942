"""Generated SQL as people read it: aligned text says what the text on one line says, and is short."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sqlglot
from helpers.golden_cases import CASES, TEXT, key, relation
from sqlglot import exp

from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import Column
from cdc_views.model.types import Kind, Scalar
from cdc_views.plan.build import Ask
from cdc_views.sql import ViewSql, generate, rows_sql
from cdc_views.sql.dialects import dialect_names
from cdc_views.sql.layout import WIDTH, fitted, printed

RENDERED = [(name, case) for name in dialect_names() for case in CASES]
PLAIN = relation(
    key("id", Scalar(Kind.BIGINT)),
    Column("customer", TEXT),
    Column("amount", Scalar(Kind.DECIMAL)),
    Column("status", TEXT),
    Column("placed_at", Scalar(Kind.TIMESTAMP)),
)


def text(name: str, case: str, *, is_pretty: bool) -> str:
    """Return the rows of a view, aligned or on one line."""
    return rows_sql(Ask(CASES[case]), dialect_name=name, strategy="aggregate", table="raw", clock="", is_pretty=is_pretty)


@pytest.mark.parametrize("width", [1, 50, 70, 85, WIDTH, 140])
@pytest.mark.parametrize(("name", "case"), RENDERED)
def test_aligned_text_says_what_one_line_says_however_wide(
    name: str, case: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_views.sql.layout.WIDTH", width)
    aligned = re.sub(r"/\* .*? \*/", "", text(name, case, is_pretty=True))
    assert "".join(aligned.split()) == "".join(text(name, case, is_pretty=False).split())


MICROS, LOG_POSITION = WriteOrder.MICROS, WriteOrder.LOG_POSITION
LINES = {"cassandra": (MICROS, 60), "debezium": (LOG_POSITION, 36)}


@pytest.mark.parametrize("source", LINES)
@pytest.mark.parametrize("name", ["duckdb", "spark", "databricks", "bigquery"])
def test_a_view_of_four_columns_is_short(name: str, source: str) -> None:
    order, most = LINES[source]
    made = replace(PLAIN, order=order)
    lines = generate(made, dialect_name=name, strategy="aggregate", view=ViewSql("shop", "orders"), table="raw").splitlines()
    assert len(lines) <= most


def test_each_step_says_which_rule_it_applies() -> None:
    text = generate(PLAIN, dialect_name="duckdb", strategy="aggregate", view=ViewSql("shop", "orders"), table="raw")
    comments = re.findall(r"/\* (.*?) \*/", text)
    assert len(comments) == text.count("SELECT")
    assert all(re.search(r"^one row per .*\([A-Z][0-9]", comment) for comment in comments), comments


GATHERS = {"partition_facts", "static_rows", "rows_and_static_rows"}
"""Steps that apply no rule."""


@pytest.mark.parametrize(("name", "case"), RENDERED)
def test_each_step_of_every_view_says_what_one_row_is(name: str, case: str) -> None:
    whole = text(name, case, is_pretty=True)
    steps = re.findall(r"^(?:WITH |\), )(\w+) AS \(\n(.*)", whole, re.MULTILINE)
    assert len(steps) == len(re.findall(r"\w AS \(\n(?= +(?:/\*|SELECT))", whole))
    told = [*steps, ("", re.split(r"^\)\n", whole, flags=re.MULTILINE)[-1].partition("\n")[0])]
    assert all(re.match(r" *(/\* |-- )one row per ", said) for _, said in told), told
    assert {step for step, said in told if not re.search(r"\([A-Z][0-9]", said)} <= GATHERS


SAYS = {
    "latest": "latest|newest|elements",
    "covered": r"when it was last deleted \(D2\)",
    "judged": r"no deletion covers .* lives \(C4\)",
}


def test_a_step_is_named_after_what_it_does() -> None:
    texts = "".join(text("duckdb", case, is_pretty=True) for case in CASES)
    steps = re.findall(r"(\w+) AS \(\s*/\* (.*?) \*/", texts)
    for begin, said in SAYS.items():
        found = [comment for name, comment in steps if name.startswith(f"{begin}_")]
        assert found
        assert all(re.search(said, comment) for comment in found), found


def test_a_strategy_finds_the_winner_of_each_column_in_its_own_way() -> None:
    """`PLAIN` has a row marker and four columns beside its key."""
    aggregate, window, self_join = (
        rows_sql(Ask(PLAIN), dialect_name="duckdb", strategy=strategy, table="raw", clock="0", is_pretty=False)
        for strategy in ("aggregate", "window", "self_join")
    )
    assert (aggregate.count("FROM raw"), aggregate.count("GROUP BY"), aggregate.count("JOIN")) == (1, 1, 0), "one scan"
    assert len(re.findall(r"MAX\((?:STRUCT_PACK\(|_live|customer|status)", aggregate)) == 5, "a struct each"
    assert window.count("ROW_NUMBER() OVER (PARTITION BY id ORDER BY ") == 5, "ranked within its key"
    assert (self_join.count("MAX(_order)"), self_join.count(" AND l._order = r._latest")) == (5, 5), "joined back"


def test_a_stored_cell_is_compared_as_it_is_only_if_its_fields_are_in_the_order_of_the_rule() -> None:
    text = generate(PLAIN, dialect_name="duckdb", strategy="aggregate", view=ViewSql("shop", "orders"), table="raw")
    assert "MAX(customer) AS customer" in text
    assert "negative := placed_at.value < 0" in text, "C3: negatives rank above positives"
    assert "bytes := amount.bytes, value := amount.value" in text, "C3: decimals compare by their bytes"


OF_USERS = [
    "SELECT a, CASE b WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'more' END AS c FROM t",
    "SELECT a, COUNT(*) AS n, SUM(b) AS s, MIN(b) AS m FROM t GROUP BY ALL",
    "SELECT a, COUNT(*) AS n, SUM(b) AS s, MIN(b) AS m FROM t GROUP BY ROLLUP (a)",
    "SELECT DISTINCT a FROM t WHERE b IN (SELECT DISTINCT c FROM u ORDER BY c NULLS LAST LIMIT 3)",
    "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY c DESC) AS n FROM t ORDER BY a",
    "SELECT a, b, c, d, e FROM t WHERE CASE a WHEN 1 THEN b > 2 WHEN 3 THEN b > 4 END AND c BETWEEN 1 AND 2 ORDER BY a LIMIT 5",
    "WITH u AS (SELECT a FROM t) SELECT MAX(a) AS a FROM u WHERE a > 0 GROUP BY a HAVING COUNT(*) > 1",
]  # fmt: skip
"""Clauses that no view of ours has, and that the text of a user's condition may have."""


@pytest.mark.parametrize("width", [1, 20, 40, 60])
@pytest.mark.parametrize("text", OF_USERS)
def test_whatever_a_user_wrote_keeps_its_clauses(text: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_views.sql.layout.WIDTH", width)
    monkeypatch.setattr("cdc_views.sql.layout._WIDER", width)
    flat = sqlglot.parse_one(text, read="duckdb").sql("duckdb")
    assert "".join(printed(sqlglot.parse_one(text, read="duckdb"), "duckdb").split()) == "".join(flat.split())


def test_columns_share_lines_and_long_expressions_are_split() -> None:
    names = [f"column_{n}" for n in range(30)]
    long = exp.or_(*(exp.column(name) > 0 for name in names))
    query = exp.select(*map(exp.column, names), exp.alias_(long, "any")).from_("t").where(exp.column("a") > 1)
    lines = fitted(query, lambda part: part.sql()).sql(pretty=True).splitlines()
    assert lines[1].count(",") > 5
    assert max(map(len, lines)) <= WIDTH + 10
    assert "  OR column_7 > 0" in lines
    assert "  a > 1" in lines


def test_thousands_of_operands_stand_on_lines_of_their_own() -> None:
    many = exp.or_(*(exp.column(f"c{n}") > 0 for n in range(5_000)))
    lines = fitted(exp.select("a").from_("t").where(many), lambda part: part.sql()).sql(pretty=True).splitlines()
    assert sum(line.startswith("  OR c") for line in lines) == 4_999


def test_a_line_break_in_a_name_is_not_indented() -> None:
    query = exp.select(
        exp.column(exp.to_identifier("a\nb", quoted=True)), exp.alias_("c", exp.to_identifier("d\re", quoted=True))
    ).from_("t")
    found = fitted(query, lambda part: part.sql()).sql(pretty=True)
    assert '"a\nb"' in found
    assert '"d\re"' in found
