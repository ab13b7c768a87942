"""What the footers of raw files tell of events of whole rows: which columns some event leaves out (rule S4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.model.naming import physical_name
from cdc_views.plan.build import Ask
from cdc_views.storage.relation import Relation

_MOST_OPENED = 200
"""Opening more files costs more than a plan saves that knows their columns."""
_MARKER = "_live.rank"


def with_partial(ask: Ask, files: Sequence[str]) -> Ask:
    """Return `ask` of the events in `files`, with the columns that some event leaves out."""
    return replace(ask, partial=partial_columns(ask.relation, files)) if ask.is_of_events and files else ask


def partial_columns(relation: Relation, files: Sequence[str]) -> frozenset[str] | None:
    """Return the columns that some event in local files leaves out; None if unknown.

    A cell stands only where its event's marker stands (S1), so equal numbers of nulls mean that each event has the cell.
    """
    if len(files) > _MOST_OPENED or any("://" in file for file in files):
        return None
    leaves = {c.name: f"{physical_name(c.name)}.rank" for c in relation.schema.regulars if not c.type.is_multicell}
    found = {c.name for c in relation.schema.regulars} - leaves.keys()
    try:
        for nulls in _nulls(files, {_MARKER, *leaves.values()}):
            found |= {name for name, leaf in leaves.items() if nulls.get(leaf) is None or nulls[leaf] != nulls.get(_MARKER)}
    except (pa.ArrowException, OSError, ValueError):  # the read itself says what is wrong
        return None
    return frozenset(found)


def _nulls(files: Iterable[str], leaves: set[str]) -> Iterator[dict[str, int]]:
    """Yield the number of nulls of each leaf, for each row group; a leaf without statistics is missing."""
    for file in files:
        footer = pq.read_metadata(file)
        places = [(n, path) for n in range(footer.num_columns) if (path := footer.schema.column(n).path) in leaves]
        for group in map(footer.row_group, range(footer.num_row_groups)):
            known = ((path, group.column(n).statistics) for n, path in places)
            yield {path: told.null_count for path, told in known if told is not None and told.has_null_count}
