"""The pages of `cdc-views ui` where Spark is the project's engine: word for word those of DuckDB."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from helpers.tiny_project import event, make_project, write_lines

from cdc_views.api import Project
from cdc_views.pages.server.site import Asked, Site

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.heavy]

NOW = 1_800_000_000
KEY = '{"id": 1, "line": 0}'
PAGES = {
    "rows": {"order": "-state", "where": "id < 3"},
    "row": {"key": KEY},
    "cell": {"key": KEY, "column": "state"},
    "columns": {"nulls": "1"},
    "instants": {"before": "2020-01-01", "after": "2099-01-01"},
    "tests": {"run": "1"},
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_that_of_duckdb(pages: dict[str, dict[str, str]], page: str) -> None:
    assert pages["spark"][page] == pages["duckdb"][page]


def alike(page: str, engine: str) -> str:
    """A page without what an engine has of its own: its name, its SQL and how many lines that has, and how long it took."""
    return re.sub(r"<pre.*?</pre>|, \d+ lines|in [\d.]+ s</h2>", "", page.replace(engine, "ENGINE"), flags=re.S)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine) -> dict[str, dict[str, str]]:
    """Each page by engine, of a table with rows in its state and newer ones."""
    folder = tmp_path_factory.mktemp("pages")
    file = make_project(folder)
    table = Project.load(file).table("orders")
    for number, state in enumerate(("open", "shipped by sea", "paid"), 1):
        table.land(write_lines(folder / f"{number}.jsonl", event(number, state=state)))
        if number == 2:
            table.materialize()
    found = {}
    for engine in ("duckdb", "spark"):
        other = file.with_name(f"{engine}.yml")
        other.write_text(file.read_text().replace('"duckdb"', f'"{engine}"'))
        site = Site(lambda other=other: Project.load(other), other)
        table = site.table("shop_orders")
        found[engine] = {page: alike(site.page(table, page, Asked(asked, NOW)), engine) for page, asked in PAGES.items()}
        assert "shipped by sea" in found[engine]["rows"]
    return found
