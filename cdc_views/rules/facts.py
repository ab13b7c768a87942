"""Facts: what an event says about a row, a partition or a range, whatever format it came in.

Every raw format decodes its events to facts; the canonical relation stores one row a fact; the oracle reduces
them. Native values throughout (see `cdc_views.model.types`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cdc_views.rules.cells import Cell, Deletion, Liveness


class FactKind(str, Enum):
    """What a fact is about; the value is what `_kind` holds in a raw table."""

    ROW = "row"
    STATIC = "static"
    PARTITION = "partition"
    RANGE = "range"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of clustering keys: a prefix of the clustering columns' values, possibly empty (open)."""

    prefix: tuple[Any, ...]
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Elements:
    """What an event says about one multi-cell column: its complex deletion (D3) and (path, cell) pairs.

    A path is a native value: the set's element, the map's key, the list's timeuuid, the user type's field name.
    A set's cells hold its elements as paths and `b""`-valued cells.
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
    """One fact. `partition` holds the partition key's values in key order, None only for a TABLE fact.

    `clustering` is the full clustering key of a ROW fact, else empty; `start` and `end` belong to RANGE facts and
    follow the table's clustering order; `cells` and `elements` belong to ROW and STATIC facts.
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
