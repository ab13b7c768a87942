"""Small plots as inline SVG, without script or request; the page's style colours them by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from markupsafe import Markup

_WIDTH = 240
"""Units across; the page stretches a plot to the available width."""
_BAR, _HEIGHT = 12, 36
_MOST_COLUMNS = 60
_GAP = 0.2
"""The empty share of a column's width."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a bar: its amount, its title, and the class that colours it."""

    amount: int
    title: str
    kind: str


def bar(parts: Sequence[BarPart], *, label: str, whole: int = 0) -> Markup:
    """Return a bar of adjacent parts, without those of 0; `label` describes it. The full width is `whole`, at least their sum."""
    total = max(whole, sum(part.amount for part in parts), 1)
    root = _root(_BAR, label, kind="bar")
    ET.SubElement(root, "rect", {"class": "rest", "width": str(_WIDTH), "height": str(_BAR)})
    start = 0.0
    for part in parts:
        if part.amount <= 0:
            continue
        width = max(_WIDTH * part.amount / total, 1.0)  # every part stays visible
        start = min(start, _WIDTH - width)
        _rect(root, part.kind, at=(start, 0), size=(width, _BAR), title=part.title)
        start += width
    return _markup(root)


def columns(amounts: Sequence[tuple[str, int]], *, label: str, tallest: int = 0) -> Markup:
    """Return columns from left to right, one per amount and title; sums neighbours if there are too many. The full height is
    `tallest`, at least the largest amount.
    """
    shown = _thinned(amounts)
    root = _root(_HEIGHT, label, kind="columns")
    tallest = max(tallest, 1, *(amount for _, amount in shown))
    room = _WIDTH / max(len(shown), 8)
    for number, (title, amount) in enumerate(shown):
        height = max(_HEIGHT * amount / tallest, 1.0) if amount else 0.0
        size = (room * (1 - _GAP), height)
        _rect(root, "some", at=(number * room, _HEIGHT - height), size=size, title=title)
    return _markup(root)


def _thinned(amounts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    step = -(-len(amounts) // _MOST_COLUMNS) or 1
    groups = [amounts[start : start + step] for start in range(0, len(amounts), step)]
    titles = [group[0][0] if len(group) == 1 else f"{group[0][0]} to {group[-1][0]}" for group in groups]
    return [(title, sum(amount for _, amount in group)) for title, group in zip(titles, groups, strict=True)]


def _root(height: int, label: str, *, kind: str) -> ET.Element:
    box = f"0 0 {_WIDTH} {height}"
    found = {"class": f"plot {kind}", "viewBox": box, "preserveAspectRatio": "none", "role": "img", "aria-label": label}
    return ET.Element("svg", found)


def _rect(root: ET.Element, kind: str, *, at: tuple[float, float], size: tuple[float, float], title: str) -> None:
    places = {"x": at[0], "y": at[1], "width": size[0], "height": size[1]}
    rect = ET.SubElement(root, "rect", {"class": kind, **{name: f"{value:.2f}" for name, value in places.items()}})
    ET.SubElement(rect, "title").text = title


def _markup(root: ET.Element) -> Markup:
    return Markup(ET.tostring(root, encoding="unicode", short_empty_elements=False))
