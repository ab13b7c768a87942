"""How far the facts of some files reach, by the statistics in their footers: beyond a row, and in write time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from cdc_views.facts import FactKind
from cdc_views.plan.names import KIND
from cdc_views.plan.order import WRITTEN

_TABLE = FactKind.TABLE.value
"""The last kind in the order of texts, so that a file has one if its greatest is not less."""
assert max(kind.value for kind in FactKind) == _TABLE


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of some facts.

    Attributes:
        has_scopes: Some may be about more than a row.
        has_truncates: Some may be about the whole table.
        written: The least and the greatest write time; None where that is not known. Without a fact, `()`.
    """

    has_scopes: bool = False
    has_truncates: bool = False
    written: tuple[Any, ...] | None = ()

    def __or__(self, other: Reach) -> Reach:
        known = None if self.written is None or other.written is None else self.written + other.written
        span = (min(known), max(known)) if known else known
        return Reach(self.has_scopes or other.has_scopes, self.has_truncates or other.has_truncates, span)

    def is_after(self, other: Reach) -> bool:
        """Whether each of these facts was written after every one of the others, for certain."""
        if not self.written or other.written is None:
            return False
        return not other.written or bool(self.written[0] > other.written[1])


UNKNOWN = Reach(has_scopes=True, has_truncates=True, written=None)


def reach_of(paths: Iterable[str]) -> Reach:
    """Return how far the facts of the files reach."""
    found = Reach()
    for path in paths:
        found |= _reach(path)
    return found


def _reach(path: str) -> Reach:
    if "://" in path:
        return UNKNOWN
    footer = pq.read_metadata(path)
    leaves = [footer.schema.column(index).path for index in range(footer.num_columns)]
    times = [index for index, leaf in enumerate(leaves) if leaf.rsplit(".", 1)[-1] == WRITTEN]
    found = Reach()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        kinds = group.column(leaves.index(KIND)).statistics
        if kinds is None or not kinds.has_min_max:
            return UNKNOWN
        has_scopes = {kinds.min, kinds.max} != {FactKind.ROW.value}
        found |= Reach(has_scopes, kinds.max >= _TABLE, _span([group.column(index) for index in times]))
    return found


def _span(chunks: list[Any]) -> tuple[Any, ...] | None:
    """The least and the greatest write time of some columns of a row group; nulls have none."""
    found: list[Any] = []
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is None:
            return None
        if statistics.has_min_max:
            # a field of a user type may have that name as well; a number does no harm, it only widens the span
            found += [time for time in (statistics.min, statistics.max) if isinstance(time, (int, Decimal))]
        elif statistics.null_count != chunk.num_values:
            return None
    return (min(found), max(found)) if found else ()
