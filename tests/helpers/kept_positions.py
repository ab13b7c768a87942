"""What a raw table keeps of positions, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from cdc_views.landing import Position


class Table:
    """What a raw table keeps of positions."""

    raw = None

    def __init__(self) -> None:
        self.kept: dict[str, Position] = {}

    def lander(self, stream: str) -> Any:
        def land(events: Sequence[Any], *, through: Position, now: object) -> None:
            self.kept[stream] = through

        return SimpleNamespace(position=lambda: self.kept.get(stream), land=land)
