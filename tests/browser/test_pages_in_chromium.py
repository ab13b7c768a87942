"""A report's pages in a real browser: they fit a phone, keys alone work them, they ask for nothing and complain of nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.axe import axe_source, violations
from helpers.chromium_driving import Browser, Page, browsing
from helpers.chromium_fetching import NoChromiumError, chromium
from helpers.reporting import AS_OF, SECRET, land, make_project

pytestmark = pytest.mark.heavy

PHONE, DESKTOP = 375, 1280
CACHE = Path(os.environ.get("CDC_VIEWS_CACHE") or Path(__file__).parents[2] / ".cache")
ORDERS = "shop_orders.html"
EVENTS_UNTIL = 120
"""Stops of the Tab key after which a page is taken to have no such place."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        found = chromium(CACHE)
    except NoChromiumError as error:
        pytest.fail(str(error))
    with browsing(found) as running:
        yield running


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_source(CACHE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three landings of hostile names, a state behind by one, failed tests; and a table without events."""
    folder = tmp_path_factory.mktemp("site")
    project = make_project(folder)
    land(project)
    project.table("shop.orders").materialize()
    land(project, rows=5)
    project.report(folder / "site", as_of=AS_OF, now=AS_OF)
    return folder / "site"


def test_no_key_and_no_value_is_in_pages_of_a_table_with_a_state(site: Path) -> None:
    assert [file.name for file in site.glob("*.html") if SECRET in file.read_text("utf-8")] == []


def quiet(page: Page, file: Path) -> None:
    """The page asked for its own file only, and its console is empty."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.complaints() == []
    assert page.requests() == [file.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_every_page_fits_is_quiet_and_bars_nobody(browser: Browser, site: Path, axe: str, width: int, scheme: str) -> None:
    for file in sorted(site.glob("*.html")):
        with browser.page(width=width, height=800, scheme=scheme) as page:
            page.open(file)
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
            assert page.evaluate("document.scrollingElement.scrollWidth") <= width, file.name
            assert page.evaluate("getComputedStyle(document.body).overflowX") == "visible"  # nothing is cut off instead
            assert violations(page, axe) == []
            quiet(page, file)


def test_wide_tables_scroll_in_their_own_box_on_a_phone(browser: Browser, site: Path) -> None:
    with browser.page(width=PHONE, height=800) as page:
        page.open(site / "shop_orders-columns.html")
        wide = "[...document.querySelectorAll('.box')].find(box => box.scrollWidth > box.clientWidth)"
        page.evaluate(f"{wide}.scrollTo({{left: 50}}) ?? 0")
        assert page.evaluate(f"{wide}.scrollLeft") > 0
        assert page.evaluate(f"{wide}.tabIndex") == 0
        assert page.evaluate("document.scrollingElement.scrollLeft") == 0


def test_a_reader_without_a_mouse_gets_everywhere(browser: Browser, site: Path) -> None:
    with browser.page(width=DESKTOP, height=800) as page:
        page.open(site / "index.html")
        page.press("Tab")
        assert focused(page, "textContent") == "Skip to content"
        assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0  # it comes into sight
        page.press("Enter")
        assert page.evaluate("location.hash") == "#main"
        walk_to(page, "a", "shop.orders")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
        page.press("Enter")
        page.wait_for(f"location.pathname.endsWith('{ORDERS}') && document.readyState === 'complete'")
        walk_to(page, "a", "Columns")
        page.press("Enter")
        page.wait_for("location.pathname.endsWith('-columns.html') && document.readyState === 'complete'")
        walk_to(page, "summary", "duckdb")
        assert not page.evaluate("document.activeElement.parentElement.open")
        page.press("Enter")
        page.wait_for("document.activeElement.parentElement.open")
        page.press("Tab")
        assert focused(page, "textContent") == "Copy duckdb"
        page.press("Enter")
        page.wait_for("document.querySelector('[role=status]').textContent === 'Copied'")
        assert page.complaints() == []


def focused(page: Page, what: str) -> str:
    return str(page.evaluate(f"document.activeElement.{what}")).strip()


def walk_to(page: Page, tag: str, text: str) -> None:
    """Press Tab until the focus is on that element."""
    for _ in range(EVENTS_UNTIL):
        page.press("Tab")
        if focused(page, "localName") == tag and focused(page, "textContent").startswith(text):
            return
    pytest.fail(f"Tab never reaches <{tag}> {text!r}")


CONTRAST = """
(() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    const colour = getComputedStyle(one).backgroundColor;
    return channels(colour)[3] === 0 && one.parentElement ? behind(one.parentElement) : colour;
  };
  const poor = [];
  for (const one of document.querySelectorAll("body *")) {
    const says = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || one.closest("script, svg")) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${one.localName}.${one.className} ${one.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return poor;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(browser: Browser, site: Path, scheme: str) -> None:
    for name in ("index.html", ORDERS):
        with browser.page(width=DESKTOP, height=800, scheme=scheme) as page:
            page.open(site / name)
            assert page.evaluate(CONTRAST) == []


def test_dark_and_light_are_different(browser: Browser, site: Path) -> None:
    backs = []
    for scheme in ("light", "dark"):
        with browser.page(scheme=scheme) as page:
            page.open(site / "index.html")
            backs.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert backs == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]


WRONG = {
    "wide": ("<p style='width: 900px'>wide</p>", "document.scrollingElement.scrollWidth > 375"),
    "poor": ("<p style='color: #aaa; background: #fff'>grey on white</p>", f"{CONTRAST.strip()}.length > 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_page_that_is_wrong_is_found(browser: Browser, tmp_path: Path, what: str) -> None:
    body, finds = WRONG[what]
    file = tmp_path / "wrong.html"
    file.write_text(f"<!DOCTYPE html><meta name=viewport content='width=device-width'><body>{body}</body>", encoding="utf-8")
    with browser.page(width=PHONE) as page:
        page.open(file)
        assert page.evaluate(finds) is True


def test_a_page_that_asks_or_complains_is_found(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "wrong.html"
    file.write_text("<!DOCTYPE html><img src='gone.png'><script>console.error('no'); nothing()</script>", encoding="utf-8")
    with browser.page() as page:
        page.open(file)
        page.wait_for("true")
        assert len(page.requests()) == 2
        assert len(page.complaints()) >= 2
