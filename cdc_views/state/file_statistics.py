"""Statistics of facts: whether any is about more than a row, and the span of write times.

They come from the footers of the files. The log of a state keeps those of its own files as tags, so that no read opens them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow.parquet as pq

from cdc_views.engines.snapshot import readable
from cdc_views.plan.names import FROM, KIND, TO, shown_as
from cdc_views.plan.parts import LATEST, UNKNOWN, Statistics
from cdc_views.rules.facts import FactKind
from cdc_views.storage.places import arrow_source
from cdc_views.storage.relation import Relation

_TABLE = FactKind.TABLE.value  # the last kind in text order: a file's greatest kind iff it has a fact about the table
assert max(kind.value for kind in FactKind) == _TABLE


_KEPT = 1 << 17  # a run opens its state several times

TAG = "cdc-views"
"""The tag of a state's file in Delta's log: JSON of its statistics and of its columns."""


def tags_of(footer: pq.FileMetaData, relation: Relation, *, is_merged: bool) -> dict[str, str]:
    """Return the tags of a file with this footer, written in the layout of `relation`; `is_merged`: by a merge."""
    known = _of_footer(footer, _keys(relation))
    # Delta's JSON has no integers of 128 bits
    span = {"oldest": str(known.oldest), "newest": str(known.newest)}
    told = {
        "scopes": known.has_scopes,
        "truncates": known.has_truncates,
        **span,
        "columns": columns_digest(relation),
        "merged": is_merged,
    }
    return {TAG: json.dumps(told)}


@dataclass(frozen=True, slots=True)
class FileTold:
    """What the tags of a file tell: its statistics, the `columns_digest` of its layout, and whether a merge wrote it."""

    statistics: Statistics
    columns: str
    is_merged: bool


def told_in(tags: Mapping[str, str]) -> FileTold | None:
    """Return what tags tell; None if they tell nothing."""
    return _told(tags[TAG]) if TAG in tags else None


@lru_cache(maxsize=_KEPT)
def _told(tag: str) -> FileTold:
    told = json.loads(tag)
    statistics = Statistics(told["scopes"], told["truncates"], int(told["oldest"]), int(told["newest"]))
    return FileTold(statistics, told["columns"], bool(told["merged"]))


def columns_digest(relation: Relation) -> str:
    """Return a digest of the names and types of a layout's columns."""
    return hashlib.sha256(str(relation.arrow_schema()).encode()).hexdigest()[:16]


def statistics_of(paths: Iterable[str], relation: Relation) -> Statistics:
    """Return the statistics of files in the layout of `relation`; `UNKNOWN` if any is remote, since those are not read."""
    keys, found = _keys(relation), Statistics()
    for path in paths:
        found |= _of_file(path, keys)
    return found


def _keys(relation: Relation) -> set[str]:
    return {FROM, TO, *(name for column in relation.schema.row_key for name in shown_as(column))}


def _of_file(path: str, keys: Container[str]) -> Statistics:
    with readable(path):
        return _of_footer(pq.read_metadata(arrow_source(path)), keys)


def _of_footer(footer: pq.FileMetaData, keys: Container[str]) -> Statistics:
    leaves = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    # W6: dropped columns count too, since they may be added again
    written = [index for leaf, index in leaves.items() if leaf.split(".")[0] not in keys and is_written(leaf)]
    found = Statistics()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        kinds = group.column(leaves[KIND]).statistics
        if kinds is None or not kinds.has_min_max:
            return UNKNOWN
        found |= Statistics(has_scopes={kinds.min, kinds.max} != {FactKind.ROW.value}, has_truncates=kinds.max >= _TABLE)
        for times in (group.column(index).statistics for index in written):
            if times is not None and times.has_min_max:
                found |= Statistics(oldest=int(times.min), newest=int(times.max))
            elif times is None or times.num_values:
                found |= Statistics(oldest=-LATEST, newest=LATEST)
    return found


def is_written(leaf: str) -> bool:
    """Whether a leaf of a non-key column in the raw layout holds write times; a field of a value may also be called `written`.

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
