"""How far the facts of some files reach beyond a row, by the statistics in their footers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.parquet as pq

from cdc_views.facts import FactKind
from cdc_views.plan.names import KIND

_TABLE = FactKind.TABLE.value
"""The last kind in the order of texts, so that a file has one if its greatest is not less."""
assert max(kind.value for kind in FactKind) == _TABLE


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of some facts.

    Attributes:
        has_scopes: Some may be about more than a row.
        has_truncates: Some may be about the whole table.
    """

    has_scopes: bool = False
    has_truncates: bool = False

    def __or__(self, other: Reach) -> Reach:
        return Reach(self.has_scopes or other.has_scopes, self.has_truncates or other.has_truncates)


UNKNOWN = Reach(has_scopes=True, has_truncates=True)


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
    found = Reach()
    for number in range(footer.num_row_groups):
        kinds = footer.row_group(number).column(leaves.index(KIND)).statistics
        if kinds is None or not kinds.has_min_max:
            return UNKNOWN
        found |= Reach({kinds.min, kinds.max} != {FactKind.ROW.value}, kinds.max >= _TABLE)
    return found
