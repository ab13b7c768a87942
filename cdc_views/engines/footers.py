"""What the footers of raw files tell of events of whole rows: the columns that some event leaves out (S4), and truncates (S6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.model.naming import physical_name
from cdc_views.plan import names
from cdc_views.plan.build import Ask
from cdc_views.plan.reduction import WholeEvents
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation
from cdc_views.storage.stores import is_url

_MOST_OPENED = 200
"""Opening more files costs more than a plan saves that knows their columns."""
_MARKER = "_live.rank"
Leaves = dict[str, Any]
"""The statistics of a row group's leaves, by path."""


@dataclass(slots=True)
class Told:
    """The columns that some event leaves out, and whether some fact may be about the whole table."""

    partial: set[str] = field(default_factory=set)
    has_truncates: bool = False


def with_footers(ask: Ask, files: Sequence[str]) -> Ask:
    """Return `ask` with what the footers of its files tell, if its facts are the events in `files`."""
    told = told_of(ask.relation, files) if ask.events is not None and files else None
    return ask if told is None else replace(ask, events=WholeEvents(frozenset(told.partial), told.has_truncates))


def told_of(relation: Relation, files: Sequence[str]) -> Told | None:
    """Return what the footers of local files tell; None if unknown.

    A cell stands only where its event's marker stands (S1), so equal numbers of nulls mean that each event has the cell.
    """
    if len(files) > _MOST_OPENED or any(map(is_url, files)):
        return None
    ranks = {c.name: f"{physical_name(c.name)}.rank" for c in relation.schema.regulars if not c.type.is_multicell}
    told = Told({c.name for c in relation.schema.regulars} - ranks.keys())
    try:
        for group in _row_groups(files, {names.KIND, _MARKER, *ranks.values()}):
            written = _nulls(group, _MARKER)
            told.partial |= {name for name, rank in ranks.items() if written is None or _nulls(group, rank) != written}
            told.has_truncates |= not _is_of_rows(group)
    except (pa.ArrowException, OSError, ValueError):  # the read itself says what is wrong
        return None
    return told


def _row_groups(files: Sequence[str], leaves: set[str]) -> Iterator[Leaves]:
    for file in files:
        footer = pq.read_metadata(file)
        places = [(n, path) for n in range(footer.num_columns) if (path := footer.schema.column(n).path) in leaves]
        for group in map(footer.row_group, range(footer.num_row_groups)):
            yield {path: group.column(n).statistics for n, path in places}


def _nulls(group: Leaves, leaf: str) -> int | None:
    told = group.get(leaf)
    return told.null_count if told is not None and told.has_null_count else None


def _is_of_rows(group: Leaves) -> bool:
    """Whether all facts are known to be about rows. Bounds of texts may be cut, but no text lies between a word and itself."""
    kinds = group.get(names.KIND)
    return kinds is not None and kinds.has_min_max and kinds.min == kinds.max == FactKind.ROW.value
