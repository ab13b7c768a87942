"""How far the facts of some files reach beyond a row, and in time, by the statistics in their footers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

import pyarrow.parquet as pq

from cdc_views.engines.readable import readable
from cdc_views.plan.names import FROM, KIND, TO, shown_as
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

_TABLE = FactKind.TABLE.value
"""The last kind in the order of texts, so that a file has one if its greatest is not less."""
assert max(kind.value for kind in FactKind) == _TABLE
LATEST = 1 << 127
"""Above every write time, as its negative is below (rule S2: 38 decimal digits)."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of some facts; of no facts, the default.

    Attributes:
        has_scopes: Some may be about more than a row.
        has_truncates: Some may be about the whole table.
        oldest: None was written before.
        newest: None was written after.
    """

    has_scopes: bool = False
    has_truncates: bool = False
    oldest: int = LATEST
    newest: int = -LATEST

    def __or__(self, other: Reach) -> Reach:
        return Reach(
            self.has_scopes or other.has_scopes,
            self.has_truncates or other.has_truncates,
            min(self.oldest, other.oldest),
            max(self.newest, other.newest),
        )


UNKNOWN = Reach(has_scopes=True, has_truncates=True, oldest=-LATEST, newest=LATEST)


def reach_of(paths: Iterable[str], relation: Relation) -> Reach:
    """Return how far the facts of the files reach, which are in the layout of `relation`."""
    keys = {FROM, TO, *(name for column in relation.schema.row_key for name in shown_as(column))}
    found = Reach()
    for path in paths:
        found |= _reach(path, keys)
    return found


def _reach(path: str, keys: Container[str]) -> Reach:
    if "://" in path:
        return UNKNOWN
    with readable(path):
        footer = pq.read_metadata(path)
    leaves = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    # of a column that was dropped too: it may come back
    written = [index for leaf, index in leaves.items() if leaf.split(".")[0] not in keys and is_written(leaf)]
    found = Reach()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        kinds = group.column(leaves[KIND]).statistics
        if kinds is None or not kinds.has_min_max:
            return UNKNOWN
        found |= Reach({kinds.min, kinds.max} != {FactKind.ROW.value}, kinds.max >= _TABLE)
        for span in _spans(group, written):
            found |= span
    return found


def is_written(leaf: str) -> bool:
    """Whether a leaf of the raw layout that is of no key holds write times: of markers, deletions, cells, fields, elements.

    A part of a value may have that name too.

    >>> all(map(is_written, ("_live.written", "c.deletion.written", "c.cells.f.written", "c.cells.list.element.written")))
    True
    >>> any(map(is_written, ("c.value.written", "c.cells.f.value.written", "c.cells.list.element.value.written")))
    False
    """
    parts = leaf.split(".")
    match parts[1:]:
        case ["written"] | ["deletion", "written"] | ["cells", _, "written"]:
            return True
        case ["cells", _, inner, "written"]:
            return inner != "value"
    return False


def _spans(group: pq.RowGroupMetaData, columns: Iterable[int]) -> Iterator[Reach]:
    for index in columns:
        times = group.column(index).statistics
        if times is not None and times.has_min_max:
            yield Reach(oldest=int(times.min), newest=int(times.max))
        elif times is None or times.num_values:
            yield Reach(oldest=-LATEST, newest=LATEST)


__all__ = ["LATEST", "UNKNOWN", "Reach", "is_written", "reach_of"]
