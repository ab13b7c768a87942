"""The pages of `cdc-views ui` for tables in BigQuery: those that a query or the schema answers; the others are not offered."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from helpers.bigquery_warehouses import Served, load, project
from helpers.tiny_project import event

from cdc_views import Project
from cdc_views.errors import UnsupportedError
from cdc_views.pages.server.site import Asked, Site

NOW = 1_800_000_000
KEY = '{"id": 1, "line": 0}'
PAGES = {
    "rows": {},
    "row": {"key": KEY},
    "cell": {"key": KEY, "column": "state"},
    "columns": {},
    "instants": {"before": "2020-01-01", "after": "2099-01-01"},
    "tests": {"run": "1"},
}


@pytest.fixture
def site(server: Served, tmp_path: Path) -> Site:
    table = project(tmp_path, server.url).table("shop.orders")
    table.apply()
    load(table, [event(1, state="shipped by sea")])
    file = tmp_path / "cdc_views.yml"
    return Site(lambda: Project.load(file), file)


def test_pages_show_what_is_in_bigquery(site: Site) -> None:
    table = site.table("shop_orders")
    texts = {page: site.page(table, page, Asked(query, NOW)) for page, query in PAGES.items()}
    assert {page for page, text in texts.items() if "shipped by sea" in text} == {"rows", "row", "cell", "instants"}
    assert "partition" in texts["columns"]
    assert "passed" in texts["tests"]
    tabs = re.findall(r'href="/t/shop_orders/(\w+)"', re.search(r'<nav class="tabs".*?</nav>', texts["rows"], re.S)[0])  # type: ignore[index]
    assert tabs == ["rows", "columns", "instants", "tests"]


def test_the_first_page_has_no_alarm(site: Site) -> None:
    end, text = time.monotonic() + 30, ""
    while "in BigQuery" not in text and time.monotonic() < end:
        text = site.home(Asked({}, NOW))
    assert "1 well" in text
    assert "cannot be read" not in text


@pytest.mark.parametrize("page", ["landings", "nodes", "quarantine", "proof"])
def test_a_page_of_deltas_log_says_that_there_is_none(site: Site, page: str) -> None:
    with pytest.raises(UnsupportedError, match="raw tables live in BigQuery"):
        site.page(site.table("shop_orders"), page, Asked({}, NOW))
