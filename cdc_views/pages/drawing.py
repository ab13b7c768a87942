"""Drawings as inline SVG: a column's lineage, and the candidates of a cell in time; the page's style colours them by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from markupsafe import Markup

from cdc_views.pages.cells import CellCandidate
from cdc_views.pages.texts import visible
from cdc_views.plan.lineage import ColumnLineage, Lineage

_ROW, _TOP = 24, 26
MOST_RAW = 80
"""Raw columns in a drawing of lineage."""
_LANES = 8
_APART = (0, -7, 7, -4, 4, -10, 10)
"""How far marks of one lane and time stand above or below it, in turn."""


def _element(parent: ET.Element, name: str, text: str = "", **places: object) -> ET.Element:
    named = {key.rstrip("_").replace("_", "-"): str(value) for key, value in places.items()}
    found = ET.SubElement(parent, name, named)
    found.text = text or None
    return found


def _root(width: int, height: int, label: str, kind: str) -> ET.Element:
    found = {"class": f"drawing {kind}", "viewBox": f"0 0 {width} {height}", "role": "img", "aria-label": label}
    return ET.Element("svg", {**found, "width": str(width), "height": str(height)})


def _markup(root: ET.Element) -> Markup:
    return Markup(ET.tostring(root, encoding="unicode", short_empty_elements=False))


def lineage_graph(lineage: Lineage) -> Markup:
    """Return the raw columns at the left, the view's at the right; a full line gives a value, a dashed one decides among them."""
    columns = lineage.columns
    raw = list(dict.fromkeys(one.name for column in columns for one in (*column.given, *column.decided)))[:MOST_RAW]
    height = _TOP + _ROW * max(len(raw), len(columns)) + 8
    label = f"{len(raw)} raw columns give and decide {len(columns)} columns of the view"
    root = _root(720, height, label, "lineage")
    _element(root, "text", "raw table", x=8, y=16, class_="head")
    _element(root, "text", "view", x=712, y=16, class_="head end")
    lines = ET.SubElement(root, "g", {"class": "lines"})
    at = {name: _TOP + _ROW * place + _ROW / 2 for place, name in enumerate(raw)}
    for place, column in enumerate(columns):
        _edges(lines, column, _TOP + _ROW * place + _ROW / 2, at)
    for name, y in at.items():
        _node(root, name, x=8, y=y, is_end=False)
    for place, column in enumerate(columns):
        _node(root, column.column, x=472, y=_TOP + _ROW * place + _ROW / 2, is_end=True)
    return _markup(root)


def _edges(root: ET.Element, column: ColumnLineage, y: float, at: dict[str, float]) -> None:
    for one, kind in (*((one, "gives") for one in column.given), *((one, "decides") for one in column.decided)):
        if (start := at.get(one.name)) is None:
            continue
        path = f"M248 {start:.0f} C360 {start:.0f} 360 {y:.0f} 472 {y:.0f}"
        line = _element(root, "path", d=path, class_=kind)
        _element(line, "title", f"{visible(one.name)} {kind} {visible(column.column)}")


def _node(root: ET.Element, name: str, *, x: int, y: float, is_end: bool) -> None:
    group = ET.SubElement(root, "g", {"class": "node end" if is_end else "node"})
    _element(group, "rect", x=x, y=f"{y - _ROW / 2 + 2:.0f}", width=240, height=_ROW - 4, rx=4)
    _element(group, "text", visible(name, most=32), x=x + 8, y=f"{y + 4:.0f}")
    _element(group, "title", visible(name))


def timeline(candidates: Sequence[CellCandidate], *, now: int) -> Markup:
    """Return the candidates in the order of their write times, a lane a node; a bar is a time to live, a cross a deletion. `now`
    is in seconds.
    """
    lanes = list(dict.fromkeys(node for one in candidates for node in one.nodes or ("",)))
    others = len(lanes) > _LANES
    lanes = [*lanes[: _LANES - 1], "other nodes"] if others else lanes
    root = _root(720, 56 + 28 * max(len(lanes), 1), f"{len(candidates)} candidates by write time", "timeline")
    if not candidates:
        return _markup(root)
    # by rank: microseconds apart in one corner of three years would be one dot
    places = {at: place for place, at in enumerate(sorted({one.at for one in candidates}))}
    step = 490 / max(len(places) - 1, 1)
    for place, lane in enumerate(lanes):
        y = 36 + 28 * place
        _element(root, "text", visible(lane, most=24) or "(no node)", x=8, y=y + 4, class_="lane")
        _element(root, "line", x1=186, x2=690, y1=y, y2=y, class_="axis")
    drawn = Counter[tuple[int, int]]()
    for one in reversed(candidates):  # winners come first, and are to lie above
        for node in one.nodes or ("",):
            place = lanes.index(node) if node in lanes else len(lanes) - 1
            beside = drawn[places[one.at], place]
            drawn[places[one.at], place] += 1
            # marks of one time would hide each other
            _mark(root, one, 190 + step * places[one.at], 36 + 28 * place + _APART[beside % len(_APART)], now)
    newest = max(candidates, key=lambda one: one.at)
    oldest = min(candidates, key=lambda one: one.at)
    bottom = 44 + 28 * len(lanes)
    _element(root, "text", oldest.written, x=186, y=bottom, class_="tick")
    if newest.at != oldest.at:
        _element(root, "text", newest.written, x=690, y=bottom, class_="tick end")
    return _markup(root)


def _mark(root: ET.Element, one: CellCandidate, x: float, y: float, now: int) -> None:
    group = ET.SubElement(root, "g", {"class": f"mark {one.outcome or 'deletion'}"})
    if one.until is not None:
        kind = "life" if one.until > now * 1_000_000 else "life over"
        _element(group, "line", x1=f"{x:.1f}", x2=f"{x + 16:.1f}", y1=y, y2=y, class_=kind)
    if one.deleted or one.what.endswith("deletion") or one.what == "tombstone":
        _element(group, "path", d=f"M{x - 5:.1f} {y - 5} l10 10 m0 -10 l-10 10", class_="cross")
    else:
        _element(group, "circle", cx=f"{x:.1f}", cy=y, r=6)
    told = f": {one.outcome} ({one.rule})" if one.rule else f": {one.outcome}" if one.outcome else ""
    _element(group, "title", f"{one.what} {one.value.text[:60]} written {one.written}{told}")
