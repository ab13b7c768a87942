"""Projections that follow each other become one where that costs nothing, and in SQL where it writes nothing twice."""

from __future__ import annotations

import sqlglot

from cdc_views.plan.expr import Agg, AnyOver, Call, Case, Expr, Fold, Lit, Op, UserSql, col, not_null
from cdc_views.plan.folding import folded, readable
from cdc_views.plan.nodes import (
    Aggregate,
    Explode,
    Join,
    JoinKind,
    Node,
    OneValue,
    Scan,
    Select,
    StepNote,
    UnionAll,
    in_order,
    noted,
)
from cdc_views.plan.rewrites import prune, shared

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


def test_a_group_by_reads_the_table_itself() -> None:
    latest = Aggregate("latest", "key", Scan("facts", "fact", (("key", col("key")), ("v", col("c")["value"]))), ("key",),
                       (("most", Agg(Fold.MAX, col("v"))),))  # fmt: skip
    found = readable(latest)
    assert isinstance(found, Aggregate)
    assert found.folds == (("most", Agg(Fold.MAX, col("c")["value"])),)
    assert found.source.output() == ("key", "c")


def test_conditions_of_both_steps_stay() -> None:
    some = Select("some", "row", SCAN, (("v", col("cell")["value"]),), not_null(col("k")))
    found = readable(Select("more", "row", some, (("v", col("v")),), not_null(col("v"))))
    assert isinstance(found, Scan)
    assert found.where == Call(Op.AND, (not_null(col("key")), not_null(col("key")), not_null(col("c")["value"])))


def test_what_would_be_written_twice_keeps_its_step() -> None:
    dear = Call(Op.ADD, (col("k"), Lit(1)))
    twice = Select("twice", "row", Select("dear", "row", SCAN, (("v", dear),)), (("a", col("v")), ("b", col("v"))))
    found = readable(twice)
    assert isinstance(found, Select)
    assert isinstance(found.source, Scan)
    once = readable(Select("once", "row", Select("dear", "row", SCAN, (("v", dear),)), (("a", col("v")),)))
    assert isinstance(once, Scan)


def test_a_window_sees_the_rows_that_it_saw() -> None:
    has_any = Select("windowed", "row", SCAN, (("k", col("k")), ("any", AnyOver(not_null(col("cell")), (col("k"),)))))
    for reader in (
        Select("kept", "row", has_any, (("k", col("k")),), col("any")),
        Aggregate("grouped", "key", has_any, ("k",), (("n", Agg(Fold.ANY, col("any"))),)),
    ):
        found = readable(reader)
        assert isinstance(found, (Select, Aggregate))
        assert type(found) is type(reader)
        assert found.source.output() == ("k", "any")


def test_a_step_that_two_read_stays_one() -> None:
    shared = Select("shared", "row", SCAN, (("k", col("k")),))
    both = UnionAll("both", "row", tuple(Select(name, "row", shared, (("k", col("k")),)) for name in ("one", "other")))
    found = readable(both)
    assert isinstance(found, UnionAll)
    assert found.parts[0].sources()[0] is found.parts[1].sources()[0]


def test_a_projection_of_a_join_is_the_joins_own() -> None:
    joined = Join("joined", "row", SCAN, SCAN, JoinKind.LEFT, ("k",), (("k", col("k", "l")), ("c", col("cell", "r"))))
    found = readable(Select("shown", "row", joined, (("v", col("c")["value"]),)))
    assert isinstance(found, Join)
    assert found.columns == (("v", col("cell", "r")["value"]),)
    kept = Select("kept", "row", joined, (("k", col("k")),), not_null(col("c")))
    assert isinstance(readable(kept), Select), "the condition is not one of the join's"


LATEST = Aggregate("latest", "key", Scan("facts", "fact", (("k", col("k")), ("c", col("c")))), ("k",),
                   (("most", Agg(Fold.MAX, col("c"))), ("least", Agg(Fold.MIN, col("c")))), notes=noted("first"))  # fmt: skip
ONE = Aggregate("one", "table", Scan("others", "fact", (("c", col("c")),)), (), (("last", Agg(Fold.MAX, col("c"))),))
SIDES = (("k", col("k", "l")), ("most", Call(Op.GREATEST, (col("most", "l"), col("last", "r")))))


def test_one_value_beside_each_row_becomes_a_subquery_of_the_groups() -> None:
    beside = Join("beside", "key", LATEST, ONE, JoinKind.CROSS, (), SIDES, notes=noted("second"))
    found = readable(Select("all", "key", beside, (("k", col("k")), ("most", col("most"))), not_null(col("most"))))
    assert isinstance(found, Select)
    groups = found.source
    assert isinstance(groups, Aggregate)
    assert groups.folds == (("most", Call(Op.GREATEST, (Agg(Fold.MAX, col("c")), OneValue(ONE)))),)
    assert groups.comment() == "one row per key: first; second"


def test_a_note_about_a_column_goes_with_it() -> None:
    notes = noted("of the step", StepNote("c: a cell", "c"), StepNote("d: another", "d"), "of the step")
    step = Select("step", "row", SCAN, (("k", col("k")), ("c", col("cell"))), notes=notes)
    assert step.comment() == "one row per row: of the step; c: a cell"
    (narrowed,) = prune(Select("root", "row", step, (("k", col("k")),))).sources()
    assert narrowed.comment() == "one row per row: of the step"


def test_equal_steps_are_one() -> None:
    def side(name: str) -> Node:
        return Select(name, "row", Scan("facts", "fact", (("k", col("k")),)), (("k", col("k")),))

    root = shared(UnionAll("all", "row", (side("one"), side("one"), side("another"))))
    assert [node.name for node in in_order(root)] == ["facts", "one", "another", "all"]
    assert [part.name for part in root.sources()] == ["one", "one", "another"]


def over_groups(*columns: tuple[str, Expr], nests_aggregates: bool = True) -> Node:
    """The step that computes `columns` from groups, below another step."""
    root = UnionAll("all", "key", (Select("more", "key", LATEST, columns),))
    (found,) = readable(root, nests_aggregates=nests_aggregates).sources()
    return found


def test_groups_compute_little_of_their_aggregates_where_an_engine_nests_them() -> None:
    next_one = ("next", Call(Op.ADD, (col("most"), Lit(1))))
    assert isinstance(over_groups(("k", col("k")), next_one), Aggregate)
    assert isinstance(over_groups(("k", col("k")), next_one, nests_aggregates=False), Select)


def test_groups_keep_their_keys_and_write_no_aggregate_twice() -> None:
    assert isinstance(over_groups(("k", col("k")), ("sum", Call(Op.ADD, (col("most"), col("most"))))), Select)
    assert isinstance(over_groups(("other", col("k")), ("most", col("most"))), Select)


def test_rows_of_more_than_one_value_stay_a_join() -> None:
    two = Aggregate("two", "table", ONE.source, (), (*ONE.folds, ("first", Agg(Fold.MIN, col("c")))))
    assert isinstance(readable(Join("beside", "key", LATEST, two, JoinKind.CROSS, (), SIDES)), Join)


def test_elements_are_read_from_the_table_itself() -> None:
    facts = Scan("facts", "fact", (("k", col("k")), ("cells", col("c")["cells"])), not_null(col("c")))
    found = readable(Explode("elements", "element", facts, ("k",), col("cells"), "_element"))
    assert isinstance(found, Explode)
    assert (found.array, found.source.output()) == (col("c")["cells"], ("k", "c"))
