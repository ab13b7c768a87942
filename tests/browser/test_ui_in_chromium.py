"""`cdc-views ui` in a real browser: every page, wide and narrow, light and dark, by keys alone, with hostile names and values."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from helpers.axe import axe_source, violations
from helpers.chromium_driving import Browser, Page, browsing
from helpers.chromium_fetching import NoChromiumError, chromium
from helpers.reporting import COLUMN, make_project
from helpers.ui_served import Served, serving_ui

pytestmark = pytest.mark.heavy

PHONE, DESKTOP = 375, 1280
CACHE = Path(os.environ.get("CDC_VIEWS_CACHE") or Path(__file__).parents[2] / ".cache")
EVIL = "<img src=x onerror=alert(9)>\u202ezxc\x00\x1b[31m&lt;"
LONG = "long " * 200_000
KEY = {"id": EVIL, "line": "'; DROP"}
STOPS = 160
TABLE = "/t/shop_orders"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        found = chromium(CACHE)
    except NoChromiumError as error:
        pytest.fail(str(error))
    with browsing(found) as running:
        yield running


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Hostile names of tables, columns, nodes and tests; hostile keys and values, one of 1 MB; hostile events in quarantine."""
    folder = tmp_path_factory.mktemp("ui")
    project = make_project(folder)
    lines = [row(number, node) for node in ("n1", "<b>n2</b>\u202e") for number in range(4)]
    (folder / "a.jsonl").write_text(
        "\n".join([*lines, '{"format": "' + EVIL.replace("\x00", "").replace("\x1b", "") + '"}', LONG]) + "\n", "utf-8"
    )
    project.table("shop.orders").land(folder / "a.jsonl")
    project.table("shop.orders").materialize()
    with serving_ui(folder / "cdc_views.yml", "--allow-actions") as served:
        yield served


def row(number: int, node: str) -> str:
    """A row with hostile values; the first has a value of a megabyte, and each was written twice."""
    value = LONG if number == 0 else f"{EVIL}{number}"
    written = 1_700_000_000_000_000 + number
    cells = [
        {"column": "state", "written": written, "value": value},
        {"column": COLUMN, "written": written, "ttl": 60, "expires_at": 1_700_000_060, "value": "gone"},
        {"column": "notes", "path": EVIL, "written": written, "value": EVIL},
    ]
    told = {
        "kind": "row",
        "clustering": {"line": KEY["line"] if number == 1 else str(number)},
        "liveness": {"written": written},
        "cells": cells,
    }
    at = {"node": node, "segment": 1, "position": number, "keyspace": "shop", "table": "orders"}
    return json.dumps({"format": "cassandra-mutation/1", **at, "partition": {"id": EVIL}, "rows": [told]})


def pages() -> dict[str, str]:
    """Every page, by what it is called here."""
    key = quote(json.dumps(KEY))
    alone = ("rows", "columns", "landings", "nodes", "quarantine", "proof", "tests?run=1")
    found = {name.partition("?")[0]: f"{TABLE}/{name}" for name in alone}
    found |= {"home": "/", "missing": "/t/none/rows", "wrong": f"{TABLE}/rows?where={quote(EVIL)}"}
    found |= {"row": f"{TABLE}/row?key={key}", "cell": f"{TABLE}/cell?key={key}&column=state"}
    found["expired"] = f"{TABLE}/cell?key={key}&column={quote(COLUMN)}"
    found["instants"] = f"{TABLE}/instants?clock=landed_as_of&before=2020-01-01&after=2090-01-01"
    return found


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_source(CACHE)


@pytest.mark.parametrize("name", pages())
def test_every_page_fits_is_quiet_and_bars_nobody(browser: Browser, ui: Served, axe: str, name: str) -> None:
    """No script of a name or value ran, nothing outside was asked for, nothing is cut off, axe finds nothing."""
    backs = set()
    for width, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")):
        with browser.page(width=width, height=800, scheme=scheme) as page:
            page.call(
                "Page.addScriptToEvaluateOnNewDocument", source="window.alert = (what) => { throw new Error(`alert ${what}`) }"
            )
            page.visit(ui.address.rstrip("/") + pages()[name])
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
            assert page.evaluate("document.scrollingElement.scrollWidth") <= width
            backs.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert [url for url in page.requests() if not url.startswith(ui.address)] == []
            is_refusal = name in ("missing", "wrong")
            assert [told for told in page.complaints() if not (is_refusal and "status of 40" in told)] == []
            assert page.evaluate("document.querySelectorAll('main img, main b[onclick], main u').length") == 0
            assert page.evaluate("document.body.innerText.includes('\\u202e')") is False
            assert page.evaluate("document.documentElement.outerHTML.length") < 400_000
            assert violations(page, axe) == []
    assert len(backs) == 2


def walk_to(page: Page, tag: str, text: str) -> None:
    for _ in range(STOPS):
        page.press("Tab")
        name, told = page.evaluate("[document.activeElement.localName, document.activeElement.textContent.trim()]")
        if name == tag and told.startswith(text):
            return
    pytest.fail(f"Tab never reaches <{tag}> {text!r}")


def test_keys_alone_go_from_the_first_page_to_the_reason_of_a_cell(browser: Browser, ui: Served) -> None:
    with browser.page(width=DESKTOP) as page:
        page.visit(ui.address)
        page.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        walk_to(page, "a", "shop.orders")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.press("Enter")
        page.wait_for("location.pathname.endsWith('/rows') && document.readyState === 'complete'")
        page.evaluate("document.querySelector('.rows tbody a').focus() ?? 0")
        for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"):
            page.press(key)
        column = page.evaluate("new URL(document.activeElement.href).searchParams.get('column')")
        page.press("Enter")
        page.wait_for("location.pathname.endsWith('/cell') && document.readyState === 'complete'")
        assert page.evaluate("document.querySelector('h1 code').textContent") == column
        page.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        assert page.complaints() == []


def test_nodes_are_counted_in_their_place(browser: Browser, ui: Served) -> None:
    with browser.page(width=DESKTOP) as page:
        page.visit(f"{ui.address}t/shop_orders/landings")
        walk_to(page, "a", "Count them")
        page.press("Enter")
        page.wait_for("document.querySelectorAll('[data-part] tbody tr').length > 1")
        assert "<b>n2</b>\\u202e" in page.evaluate("document.querySelector('[data-part] table').innerText")
        assert page.complaints() == []


def test_hostile_values_are_read_as_text(browser: Browser, ui: Served) -> None:
    with browser.page(width=DESKTOP) as page:
        page.visit(ui.address.rstrip("/") + pages()["cell"])
        told = page.evaluate("document.querySelector('h1').innerText")
        assert told == "state is <img src=x onerror=alert(9)>\\u202ezxc\\x00\\x1b[31m&lt;1"
        page.visit(ui.address.rstrip("/") + pages()["rows"])
        assert "(1,000,000 letters)" in page.evaluate("document.querySelector('.rows').textContent")


def test_an_event_is_discarded_from_its_page(browser: Browser, ui: Served) -> None:
    with browser.page(width=PHONE) as page:
        page.visit(f"{ui.address}t/shop_orders/quarantine")
        before = page.evaluate("document.querySelectorAll('article').length")
        page.evaluate("document.querySelector('article input').click() ?? 0")
        page.evaluate("document.getElementById('reason').value = 'a test'")
        page.evaluate("document.querySelector('#discard button').click() ?? 0")
        page.wait_for("location.search === '?done=discarded' && document.readyState === 'complete'")
        assert page.evaluate("document.querySelectorAll('article').length") == before - 1
        assert page.complaints() == []


def test_a_page_that_bars_somebody_is_found(browser: Browser, tmp_path: Path, axe: str) -> None:
    file = tmp_path / "wrong.html"
    file.write_text("<!DOCTYPE html><title>x</title><input><p style='color:#aaa'>pale</p>", encoding="utf-8")
    with browser.page() as page:
        page.open(file)
        assert {one.partition(":")[0] for one in violations(page, axe)} >= {"color-contrast", "html-has-lang", "label"}
