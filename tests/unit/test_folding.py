"""Projections that follow each other become one where that costs nothing."""

from __future__ import annotations

import sqlglot

from cdc_views.plan.expr import Call, Case, Lit, Op, UserSql, col, not_null
from cdc_views.plan.folding import folded
from cdc_views.plan.nodes import Scan, Select

SCAN = Scan("facts", "fact", (("k", col("key")), ("cell", col("c"))), not_null(col("key")))


def test_a_field_is_read_where_the_struct_was_kept() -> None:
    values = Select("values", "row", SCAN, (("k", col("k")), ("v", col("cell")["value"])), not_null(col("cell")))
    shown = Select("shown", "row", values, (("v", col("v")),))
    found = folded(shown)
    assert isinstance(found, Scan)
    assert found.columns == (("v", col("c")["value"]),)
    assert found.where == Call(Op.AND, (not_null(col("key")), not_null(col("c"))))
    assert (found.name, found.grain) == ("shown", "row")


def test_a_dear_expression_is_computed_once() -> None:
    dear = Case(((not_null(col("cell")["value"]), Call(Op.ADD, (col("k"), Lit(1)))),), Lit(0))
    below = Select("dear", "row", SCAN, (("v", dear),))
    found = folded(Select("twice", "row", below, (("a", col("v")), ("b", col("v")))))
    assert isinstance(found, Select)
    assert isinstance(found.source, Scan)


def test_what_was_filtered_in_between_stays_filtered() -> None:
    some = Select("some", "row", SCAN, (("k", col("k")),), not_null(col("k")))
    chosen = Select("chosen", "row", Select("again", "row", some, (("k", col("k")),), not_null(col("k"))), (("k", col("k")),))
    found = folded(chosen)
    assert isinstance(found, (Scan, Select))
    conditions = [node.where for node in (found, *found.sources()) if isinstance(node, (Scan, Select))]
    assert sum(str(condition).count("'key'") for condition in conditions) >= 2


def test_a_users_text_names_columns_as_before() -> None:
    asked = UserSql(sqlglot.parse_one("k > 1", dialect="duckdb"))
    found = folded(Select("asked", "row", SCAN, (("k", col("k")),), asked))
    assert isinstance(found, Select)
    assert found.where is asked
