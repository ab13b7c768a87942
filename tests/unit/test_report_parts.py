"""What a report is made of: plots, words, lineage, results read from a file."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from helpers.reporting import COLUMN, make_project

from cdc_views.errors import UsageError
from cdc_views.pages.plots import BarPart, bar, columns
from cdc_views.pages.report import report_of
from cdc_views.plan.expr import Agg, Call, Case, Fold, Lit, Op, col
from cdc_views.plan.lineage import RawColumn, _uses, lineage_of
from cdc_views.quality.checks import read_results


def rects(svg: str) -> list[dict[str, str]]:
    return [dict(rect.attrib) for rect in ET.fromstring(svg).iter("rect")]


def test_a_bar_is_as_wide_as_its_parts_are_large() -> None:
    rest, few, many = rects(
        bar([BarPart(1, "few", "bad"), BarPart(3, "many", "good"), BarPart(0, "none", "other")], label="1 and 3")
    )
    assert (few["x"], few["width"]) == ("0.00", "60.00")
    assert (many["x"], many["width"]) == ("60.00", "180.00")
    assert rest["width"] == "240"


def test_what_is_there_is_seen_and_stays_inside() -> None:
    _, *parts = rects(bar([BarPart(10**9, "many", "good"), BarPart(1, "one", "bad")], label=""))
    assert float(parts[1]["width"]) == 1
    assert float(parts[1]["x"]) + float(parts[1]["width"]) <= 240


def test_a_bar_of_nothing_is_empty() -> None:
    assert len(rects(bar([BarPart(0, "none", "good")], label="nothing"))) == 1
    assert rects(columns([], label="nothing")) == []


def test_columns_that_are_too_many_are_summed() -> None:
    found = rects(columns([(str(n), 1) for n in range(130)], label=""))
    assert len(found) == 44  # three landings each, one in the last
    assert found[0]["height"] == "36.00"
    assert found[-1]["height"] == "12.00"
    assert all(float(one["x"]) + float(one["width"]) <= 240 for one in found)


def test_a_plot_has_its_label_in_words_and_hostile_words_are_text() -> None:
    root = ET.fromstring(bar([BarPart(1, "<b>", "good")], label='"><script>'))
    assert (root.get("role"), root.get("aria-label")) == ("img", '"><script>')
    assert [title.text for title in root.iter("title")] == ["<b>"]
    assert not list(root.iter("b"))


def test_lineage_tells_what_gives_a_value_from_what_decides(tmp_path: Path) -> None:
    found = lineage_of(make_project(tmp_path).table("shop.orders").relation)
    by_name = {one.column: one for one in found.columns}
    deletion = RawColumn("deletion", ("row", "partition", "range"), is_ours=True)
    assert by_name["state"].given == (RawColumn("state", ("row",)),)
    assert deletion in by_name["state"].decided
    assert by_name["seen"].given == (RawColumn("seen", ("static",)),)
    assert by_name["seen"].decided == (RawColumn("deletion", ("partition", "range"), is_ours=True),)
    assert by_name["id"].decided == ()
    assert {one.name for one in found.rows} >= {"row marker", "state", "tags", "notes", COLUMN, "seen", "deletion"}
    assert [names for names, _ in found.decisions] == [("state", COLUMN, "tags", "notes"), ("seen",)]


def test_every_column_of_a_view_has_a_source(tmp_path: Path) -> None:
    for table in make_project(tmp_path).tables:
        found = lineage_of(table.relation)
        assert [one.column for one in found.columns] == [column.name for column in table.schema.columns]
        assert all(one.column in {raw.name for raw in one.given} for one in found.columns)


def test_conditions_give_no_value() -> None:
    value = Case(((Call(Op.GT, (col("a"), Lit(1))), col("b")),), col("c"))
    assert {(used.name, gives) for used, gives in _uses(value, gives=True)} == {("a", False), ("b", True), ("c", True)}
    fold = Agg(Fold.MAX, col("v"), col("w"))
    assert {(used.name, gives) for used, gives in _uses(fold, gives=True)} == {("v", True), ("w", False)}


GOOD = {
    "table": "shop.orders", "check": "freshness", "status": "failed", "severity": "error", "broken": 3, "unit": "rows",
    "rule": "r", "where": ["here"], "note": "",
}  # fmt: skip


def test_results_are_read_back(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps([GOOD, GOOD | {"table": "a.b", "broken": None, "status": "skipped"}]), encoding="utf-8")
    found = read_results(file)
    assert [check.line() for check in found["shop.orders"]] == ["does not hold for 3 rows, first: here"]
    assert [check.broken for check in found["a.b"]] == [None]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is no JSON"),
        ("{}", "no list of results"),
        (json.dumps([1]), "result 1 is none"),
        (json.dumps([GOOD, {"table": "a.b"}]), "result 2 is none"),
        (json.dumps([GOOD | {"severity": "bad"}]), "Severity"),
        (json.dumps([GOOD | {"broken": "3"}]), "a number or null was expected"),
        (json.dumps([GOOD | {"status": "passed"}]), "status is 'passed'"),
    ],
)
def test_a_file_that_holds_no_results_is_told(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match="validate --json") as raised:
        read_results(file)
    assert told in str(raised.value)


def test_what_cannot_be_asked_is_told_before_anything_is_written(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    for options in ({"dialects": ("duckbd",)}, {"as_of": "soon"}, {"recent": -1}, {"results": tmp_path / "nowhere.json"}):
        with pytest.raises(UsageError):
            report_of(project, **options)  # type: ignore[arg-type]
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(UsageError, match="name a folder"):
        project.report(tmp_path / "taken")
