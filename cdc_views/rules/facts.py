"""Facts: what an event states about a row, static row, partition, range or table. Raw formats decode events to facts, a raw table
has one row per fact, and the oracle reduces facts. All values are native (see `cdc_views.model.types`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cdc_views.rules.cells import Cell, Deletion, Liveness


class FactKind(str, Enum):
    """The subject of a fact; the value is that of `_kind` in a raw table."""

    ROW = "row"
    STATIC = "static"
    PARTITION = "partition"
    RANGE = "range"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of clustering keys: a prefix of the clustering columns' values; empty if the range is open."""

    prefix: tuple[Any, ...]
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Elements:
    """An event's facts about one multi-cell column: its complex deletion (D3), and (path, cell) pairs. A path is a native value:
    a set's element (its cell has value `b""`), a map's key, a list's timeuuid, or a user type's field name.
    """

    deletion: Deletion | None = None
    cells: tuple[tuple[Any, Cell], ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event was read: a replica's commit log, a topic, a write-ahead log. `position` orders within `segment`."""

    node: str = ""
    segment: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. `partition` has the partition key's values, empty only for a TABLE fact. `clustering` is the full clustering key
    of a ROW fact, else empty. RANGE facts have `start` and `end` in the table's clustering order. ROW and STATIC facts have
    `cells` and `elements`.
    """

    kind: FactKind
    partition: tuple[Any, ...] = ()
    clustering: tuple[Any, ...] = ()
    liveness: Liveness | None = None
    deletion: Deletion | None = None
    start: Bound | None = None
    end: Bound | None = None
    cells: Mapping[str, Cell] = field(default_factory=dict)
    elements: Mapping[str, Elements] = field(default_factory=dict)
    origin: Origin = Origin()
