"""Which buckets of a base to rewrite: those of which merges replaced or added the most rows.

A merge leaves hidden rows and small files behind. Rewriting everything at once would cost a run as much as a new base. So groups
of buckets are rewritten by themselves, the most worn first, and a run spends on it only a multiple of what it merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from cdc_views.engines.state_plan import digits_in
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import Part
from cdc_views.state import sizes
from cdc_views.state.file_statistics import told_in
from cdc_views.state.state_table import part_of_file
from cdc_views.storage.data_files import DataFile

_IN_BUCKETS = (Part.BASE, Part.PLAIN, Part.PURGED)


@dataclass(slots=True)
class _Group:
    """The files of the buckets that share their first digits."""

    files: list[DataFile] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def wear(self) -> float:
        """The rows that merges hid, or those that they added if these are more, as a share of all rows."""
        hidden = sum(file.rows - file.live for file in self.files)
        added = sum(file.live for file in self.files if (told := told_in(file.tags)) is not None and told.is_merged)
        return max(hidden, added) / max(1, sum(file.rows for file in self.files))


def worn_groups(files: Iterable[DataFile], *, budget: int) -> tuple[DataFile, ...]:
    """Return all files of the groups to rewrite after a merge that added `budget` bytes; nothing if no group is worn."""
    mine = [file for file in files if part_of_file(file) in _IN_BUCKETS]
    # no file spans two groups
    shared = min((len(_digits(file)) for file in mine), default=0)
    groups: dict[str, _Group] = defaultdict(_Group)
    for file in mine:
        groups[_digits(file)[:shared]].files.append(file)
    chosen: list[DataFile] = []
    left = sizes.SIZES.bytes_per_merged * budget
    for group in sorted(groups.values(), key=lambda group: -group.wear):
        if group.wear < sizes.SIZES.worn_share or (chosen and group.bytes > left):
            break
        chosen += group.files
        left -= group.bytes
    return tuple(chosen)


def _digits(file: DataFile) -> str:
    return digits_in(str(file.partition[PART]))
