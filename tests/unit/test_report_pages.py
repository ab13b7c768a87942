"""The pages of a report, parsed: nothing is asked of a network, names stay text, no key and no value is told unless asked."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import html5lib
import pytest
from helpers.reporting import AS_OF, COLUMN, EMPTY_TABLE, NODE, SECRET, TEST, land, make_project

from cdc_views.api import Project
from cdc_views.model.severity import Severity
from cdc_views.pages.report import RunReport, pages_of, report_of
from cdc_views.quality.checks import Check, records

pytestmark = pytest.mark.heavy

ASKING = {"src", "href", "srcset", "action", "data", "poster", "background", "formaction", "ping", "xlink:href"}
"""Attributes by which a page asks for something."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Hostile names and secret values, landed; no state."""
    made = make_project(tmp_path_factory.mktemp("report"))
    land(made)
    return made


@pytest.fixture(scope="module")
def told(project: Project) -> RunReport:
    return report_of(project, now=AS_OF, as_of=AS_OF, dialects=("duckdb", "bigquery"))


@pytest.fixture(scope="module")
def pages(told: RunReport) -> dict[str, str]:
    return pages_of(told)


@pytest.fixture(scope="module")
def trees(pages: dict[str, str]) -> dict[str, ET.Element]:
    return {name: parsed(text) for name, text in pages.items()}


def parsed(text: str) -> ET.Element:
    """The tree that a browser makes of it; a mistake in it is an error."""
    found: ET.Element = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    return found


def words(tree: ET.Element) -> str:
    """What a reader sees, on one line."""
    body = tree.find("body")
    assert body is not None
    return " ".join("".join(text for part in body for text in shown(part)).split())


def shown(part: ET.Element) -> Iterator[str]:
    if part.tag not in ("script", "style") and not part.tag.endswith("}svg"):
        yield part.text or ""
        for child in part:
            yield from shown(child)
    yield " " if part.tag in ("td", "th", "li", "dt", "dd", "h1", "h2", "small", "span") else ""
    yield part.tail or ""


def section(tree: ET.Element, heading: str) -> str:
    """The words from a heading on, up to the next."""
    (main,) = tree.iter("main")
    parts = list(main)
    (start,) = (at for at, part in enumerate(parts) if part.tag == "h2" and part.text == heading)
    end = next((at for at in range(start + 1, len(parts)) if parts[at].tag == "h2"), len(parts))
    return " ".join("".join(text for part in parts[start:end] for text in shown(part)).split())


def of_orders(pages: dict[str, str]) -> str:
    """The words of all pages of `shop.orders`."""
    return " ".join(words(parsed(text)) for name, text in pages.items() if name.startswith("shop_orders"))


def test_a_page_asks_for_nothing_but_pages_of_the_site(trees: dict[str, ET.Element]) -> None:
    for name, tree in trees.items():
        for part in tree.iter():
            for attribute in ASKING & set(part.keys()):
                target = part.attrib[attribute]
                is_here = target.startswith("#") or target == "data:," or unquote(target) in trees
                assert is_here, f"{name}: <{part.tag} {attribute}={target!r}>"
        assert not [part for part in tree.iter() if part.tag in ("iframe", "object", "embed", "img", "base", "form")]
        styles = "".join(style.text or "" for style in tree.iter("style"))
        assert not re.search(r"url\(|@import|image-set", styles)


def test_links_inside_a_page_have_their_target_and_no_id_is_given_twice(trees: dict[str, ET.Element]) -> None:
    for tree in trees.values():
        ids = [part.attrib["id"] for part in tree.iter() if "id" in part.attrib]
        assert len(ids) == len(set(ids))
        inside = {part.attrib["href"][1:] for part in tree.iter("a") if part.attrib["href"].startswith("#")}
        copied = {part.attrib["data-copies"] for part in tree.iter("button")}
        assert inside | copied <= set(ids)


def test_only_our_script_may_run(trees: dict[str, ET.Element]) -> None:
    for tree in trees.values():
        (policy,) = (m.attrib["content"] for m in tree.iter("meta") if m.get("http-equiv") == "Content-Security-Policy")
        for tag in ("script", "style"):
            (own,) = tree.iter(tag)
            digest = base64.b64encode(hashlib.sha256((own.text or "").encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy
        assert "default-src 'none'" in policy
        assert not [part for part in tree.iter() if "style" in part.attrib]
        assert not [name for part in tree.iter() for name in part.attrib if name.startswith("on")]


@pytest.mark.parametrize("hostile", [COLUMN, EMPTY_TABLE, NODE, TEST, "<u>shop</u>"])
def test_a_name_that_is_markup_is_shown_as_it_is(trees: dict[str, ET.Element], hostile: str) -> None:
    assert any(hostile in words(tree) for tree in trees.values())
    assert not [part for tree in trees.values() for part in tree.iter() if part.tag in ("u", "img") or "onclick" in part.attrib]


def test_no_key_and_no_value_is_told(pages: dict[str, str]) -> None:
    assert [name for name, text in pages.items() if SECRET in text] == []


def test_keys_and_values_are_told_where_asked(project: Project, told: RunReport, tmp_path: Path) -> None:
    results = write_results(tmp_path, told)
    found = report_of(project, tables=project.tables[:1], now=AS_OF, as_of=AS_OF, with_values=True, results=results)
    assert found.tests_from == "results.json"
    pages = pages_of(found)
    told_there = of_orders(pages)
    for told_of in ("-open", "-0", "-tag", "-path", "-note", "-9", "-z"):  # values, keys, paths, a bound, where a test fails
        assert f"{SECRET}{told_of}" in told_there
    assert f'"format": "{SECRET}"' in words(parsed(pages["shop_orders-quarantine.html"]))
    assert "This report tells keys and values of rows." in words(parsed(pages["index.html"]))


def write_results(folder: Path, told: RunReport) -> Path:
    """Write what the tests said as `validate --json` does."""
    from cdc_views.quality.checks import Report

    file = folder / "results.json"
    reports = [Report(table.name, "duckdb", AS_OF, 1, 0.1, table.checks) for table in told.tables]
    file.write_text(json.dumps(records(reports)), encoding="utf-8")
    return file


def test_rows_are_explained_in_the_words_of_explain(trees: dict[str, ET.Element], project: Project) -> None:
    found = section(trees["shop_orders.html"], "Rows written most recently")
    assert "Row 1: the row exists at 2027-01-15T08:00:00Z; written 2023-11-14 22:13:20.000002 UTC" in found
    row = words(trees["shop_orders-row-1.html"])
    for said in ("The row exists at 2027-01-15T08:00:00Z.", "range deletion", "row marker", "n2 1:2", "The newest write wins"):
        assert said in row
    assert "left out" in row


def test_a_failed_test_says_where_only_if_that_is_no_key(trees: dict[str, ET.Element]) -> None:
    for found in (section(trees["index.html"], "Tests that do not hold"), words(trees["shop_orders-tests.html"])):
        assert "does not hold for 4 rows (the places name keys: see validate)" in found
        assert f"node {NODE} (lagging) lacks 1" in found
        assert f"{TEST} does not hold for 3 rows" in found


def test_a_test_that_nobody_knows_tells_no_place(project: Project, told: RunReport, tmp_path: Path) -> None:
    strange = replace(told.tables[0], checks=(Check("freshness_of_keys", "r", broken=1, where=(f"key {SECRET}",)),))
    results = write_results(tmp_path, replace(told, tables=(strange,)))
    texts = pages_of(report_of(project, tables=project.tables[:1], now=AS_OF, as_of=AS_OF, results=results))
    assert "freshness_of_keys" in texts["shop_orders-tests.html"]
    assert not [name for name, text in texts.items() if SECRET in text]


def test_a_warning_is_no_failure(trees: dict[str, ET.Element], project: Project, told: RunReport, tmp_path: Path) -> None:
    assert (told.results.failed, told.results.warnings) == (2, 2)
    assert "2 failed 10 passed, 2 warnings, 1 skipped" in words(trees["index.html"])
    table = told.tables[0]
    mild = tuple(check for check in table.checks if check.severity is Severity.WARNING or not check.broken)
    results = write_results(tmp_path, replace(told, tables=(replace(table, checks=mild),)))
    found = report_of(project, tables=project.tables[:1], now=AS_OF, as_of=AS_OF, results=results)
    index = words(parsed(pages_of(found)["index.html"]))
    assert "10 passed 2 warnings" in index
    assert "failed" not in index


def test_what_is_not_there_yet_is_said(trees: dict[str, ET.Element]) -> None:
    index = words(trees["index.html"])
    assert "no state" in index
    assert "all of raw" in section(trees["index.html"], "Rows, copies and bytes")
    assert "every read takes all of raw" in words(trees["shop_orders.html"])
    stem = next(name for name in trees if "img" in name and name.endswith("-29-3e.html")).removesuffix(".html")
    assert "Nothing has landed yet." in words(trees[f"{stem}.html"])
    assert section(trees[f"{stem}.html"], "Rows written most recently").endswith("None to explain: nothing has landed yet.")
    assert "None: nothing has landed yet." in words(trees[f"{stem}-tests.html"])
    assert "Nothing has landed yet." in section(trees[f"{stem}-landings.html"], "Nodes")
    assert "duckdb, " in section(trees[f"{stem}-columns.html"], "The view's SQL")


def test_a_project_without_events_or_tables_has_a_report(tmp_path: Path) -> None:
    nothing = report_of(make_project(tmp_path), now=AS_OF)
    index = parsed(pages_of(nothing)["index.html"])
    assert section(index, "Rows, copies and bytes").count("nothing has landed yet") == 2
    assert "Tables 2 0 with events" in words(index)
    empty = replace(nothing, tables=())
    assert "The project has no tables." in words(parsed(pages_of(empty)["index.html"]))


def test_figures_are_those_of_the_table(trees: dict[str, ET.Element], told: RunReport) -> None:
    table = told.tables[0]
    assert table.raw is not None
    assert (table.raw.facts, table.raw.distinct, table.shown) == (11, 4, 3)  # 3 rows of 3 nodes, a range of 2
    assert table.quarantined == 1
    assert [landing.facts for landing in table.raw.landings] == [4, 4, 3]
    found = section(trees["index.html"], "Rows, copies and bytes")
    assert "shop.orderscassandra-mutation 3 11 7 (64 %)" in found


def test_a_dialect_that_cannot_say_it_is_told_why(trees: dict[str, ET.Element], told: RunReport) -> None:
    assert [bool(text.refusal) for text in told.tables[0].columns.texts] == [False, True]
    found = section(trees["shop_orders-columns.html"], "The view's SQL")
    assert "duckdb, " in found
    assert "bigquery: " in found
