"""An SVG plot of cost by reads per day, one line per way of reading; both axes are logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from cdc_views.engines.warehouses import Cost, Load

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 420, 70, 110, 40, 50
_QUERIES = tuple(round(10 ** (step / 4)) for step in range(17))
"""1 to 10,000 reads in a day."""
_COLORS = ("#b3261e", "#1f5fa8", "#2e7d32")


def cost_plot(costs: Callable[[Load], Sequence[Cost]], load: Load, *, title: str) -> str:
    """Return the plot; `costs` returns the cost of each way of reading for a load."""
    points = [costs(replace(load, queries_per_day=queries)) for queries in _QUERIES]
    money = [max(way.money, 0.001) for ways in points for way in ways]
    low, high = math.floor(math.log10(min(money))), max(math.ceil(math.log10(max(money))), math.floor(math.log10(min(money))) + 1)
    lines = []
    for index, way in enumerate(points[0]):
        places = [(_x(q), _y(max(ways[index].money, 0.001), low, high)) for q, ways in zip(_QUERIES, points, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        color = _COLORS[index % len(_COLORS)]
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        x, y = places[-1]
        lines.append(f'<text x="{x + 8:.1f}" y="{y + 4 - 12 * index:.1f}" fill="{color}">{escape(way.way)}</text>')
    heading = f"{title}: money per month ({points[0][0].currency}) by reads in a day"
    return "\n".join([_head(heading), *_axes(low, high), *lines, "</svg>", ""])


def _head(heading: str) -> str:
    shown = escape(heading)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-family="sans-serif" '
        f'font-size="12"><title>{shown}</title><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{_LEFT}" y="22" font-size="14">{shown}</text>'
    )


def _axes(low: int, high: int) -> list[str]:
    found = []
    for power in range(low, high + 1):
        y = _y(10.0**power, low, high)
        found.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        found.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for power in range(5):
        x = _x(10**power)
        found.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        found.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{10**power:,}</text>')
    return found


def _x(queries: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(queries) / 4


def _y(money: float, low: int, high: int) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (math.log10(money) - low) / (high - low)
