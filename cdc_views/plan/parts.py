"""The parts of a state: their content, the statistics of their files, and the parts that a scan reads.

Base and overlay hold reduced rows: each row key once, with every deletion applied. A row of the overlay replaces the base's
row of the same key. Runs and tail hold newer facts, any of which may beat any other fact (rule M1).

Four modules implement the overlay: `plan.reduction` reads it, `plan.compact` writes it, `engines.duckdb.covered` skips the
base's rows that it replaces, and `state.run` decides when to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

LATEST = 1 << 127
"""Larger than every write time; its negative is smaller than every one (rule S2: 38 decimal digits)."""
MOST_BROADCAST = 2_000_000
"""A join broadcasts a side with fewer values (rows times columns) instead of shuffling it: about 100 MB."""


class Part(Enum):
    """A part of a table's facts. The `_part` of a stored part's rows begins with its value.

    Plain rows show the stored values at any time (`plan.compact`). Each read must judge the other facts of base and overlay:
    rows that may expire or are deleted, and facts about more than a row.
    """

    BASE = "b"
    PLAIN = "p"
    OVERLAY = "q"
    OVERLAY_PLAIN = "s"
    COVERED = "t_"
    """The file and position of each row of the base that the overlay replaces (`engines.duckdb.covered`). No facts."""
    RUN = "r"
    """Newer facts, reduced run by run."""
    PURGED = "g"
    """The newest write time that each partition has purged (rule M2). Views do not read it."""
    LATE = "too_late"
    """Facts in quarantine because they landed too late (rule M2)."""
    TAIL = "tail"
    """Raw facts that the state does not have yet; never stored in a state."""


COVERS = "_covers"
"""The column of `COVERED` that lists rows; null in all facts."""
STORED = frozenset(Part) - {Part.TAIL}
OVERLAID = frozenset({Part.OVERLAY, Part.OVERLAY_PLAIN, Part.COVERED})
SINCE_BASE = OVERLAID | {Part.RUN}
"""Stored parts newer than the base; a new overlay replaces them."""
PLAIN_OF = {Part.BASE: Part.PLAIN, Part.OVERLAY: Part.OVERLAY_PLAIN}


class Source(Enum):
    """The parts that a scan reads, in this order. A raw table without a state has only `ALL`."""

    ALL = (Part.BASE, Part.PLAIN, Part.OVERLAY, Part.OVERLAY_PLAIN, Part.RUN, Part.TAIL)
    SETTLED = (Part.BASE, Part.PLAIN, Part.OVERLAY, Part.OVERLAY_PLAIN)
    BASE = (Part.BASE, Part.PLAIN)
    PLAIN = (Part.PLAIN,)
    JUDGED = (Part.BASE,)
    OVERLAY = (Part.OVERLAY, Part.OVERLAY_PLAIN)
    OVERLAY_PLAIN = (Part.OVERLAY_PLAIN,)
    OVERLAY_JUDGED = (Part.OVERLAY,)
    FRESH = (Part.RUN, Part.TAIL)
    """Everything newer than base and overlay."""
    SINCE = (Part.OVERLAY, Part.OVERLAY_PLAIN, Part.RUN, Part.TAIL)
    """Everything but the base."""
    OTHERS = (Part.BASE, Part.OVERLAY, Part.RUN, Part.TAIL)
    """Everything but plain rows: all facts about more than a row."""
    TAIL = (Part.TAIL,)
    PURGED = (Part.PURGED,)
    LATE = (Part.LATE,)

    @property
    def label(self) -> str:
        """The source's name in the steps of a plan."""
        return self.name.lower()

    @property
    def is_plain(self) -> bool:
        """Whether the source holds only plain rows."""
        return self in (Source.PLAIN, Source.OVERLAY_PLAIN)


LEVELS = {"base_rows": (Source.PLAIN, Source.JUDGED), "overlay_rows": (Source.OVERLAY_PLAIN, Source.OVERLAY_JUDGED)}
"""The sources of reduced rows by level; the same facts touch all sources of a level."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of some facts, whose write times are `oldest` to `newest`; the default describes no facts.

    `has_scopes`: some facts may be about more than a row (statics, deletions of ranges, partitions or the table).
    `has_truncates`: some may be about the whole table.
    """

    has_scopes: bool = False
    has_truncates: bool = False
    oldest: int = LATEST
    newest: int = -LATEST

    def __or__(self, other: Statistics) -> Statistics:
        return Statistics(
            has_scopes=self.has_scopes or other.has_scopes,
            has_truncates=self.has_truncates or other.has_truncates,
            oldest=min(self.oldest, other.oldest),
            newest=max(self.newest, other.newest),
        )


ROWS_ALONE = Statistics(oldest=-LATEST, newest=LATEST)
"""The statistics of plain rows, known without reading footers."""
UNKNOWN = replace(ROWS_ALONE, has_scopes=True, has_truncates=True)


@dataclass(frozen=True, slots=True)
class FileSet:
    """The files of parts, the number of facts in them (None: unknown), their bytes (0 for raw files), and their statistics."""

    paths: tuple[str, ...] = ()
    rows: int | None = 0
    bytes: int = 0
    statistics: Statistics = UNKNOWN

    def __bool__(self) -> bool:
        return bool(self.paths)

    def __or__(self, other: FileSet) -> FileSet:
        if not other:
            return self
        if not self:
            return other
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return FileSet(self.paths + other.paths, rows, self.bytes + other.bytes, self.statistics | other.statistics)


NO_FILES = FileSet(statistics=Statistics())
"""The files of a part that does not exist."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of each part of a table's facts; a missing part has no files."""

    files: Mapping[Part, FileSet] = field(default_factory=dict)

    def of(self, parts: Source | Iterable[Part]) -> FileSet:
        """Return the files of several parts as one set."""
        found = NO_FILES
        for part in parts.value if isinstance(parts, Source) else parts:
            found |= self.files.get(part, NO_FILES)
        return found

    def has(self, source: Source) -> bool:
        """Return whether the source has any files."""
        return any(self.files.get(part) for part in source.value)

    def places(self) -> list[Source]:
        """Return the sources of reduced rows: the plain ones of base and overlay, then the judged ones."""
        return [place for places in zip(*LEVELS.values(), strict=True) for place in places if self.has(place)]

    def is_small(self, source: Source, *, columns: int = 1) -> bool:
        """Return whether a join may broadcast this number of columns of the source's facts."""
        rows = self.of(source).rows
        return rows is not None and rows * columns < MOST_BROADCAST

    @property
    def is_fresh_newer(self) -> bool:
        """Whether every fact of runs and tail was written after every fact of base and overlay."""
        return self.of(Source.SETTLED).statistics.newest < self.of(Source.FRESH).statistics.oldest

    def without(self, *parts: Part) -> Parts:
        """Return all parts except these."""
        return Parts({part: files for part, files in self.files.items() if part not in parts})

    def as_runs(self, source: Source) -> Parts:
        """Return the same facts, with the facts of `source` among the runs; any facts may be a run (rule M1)."""
        runs = self.of([*source.value, Part.RUN])
        return Parts({**self.without(*source.value, Part.COVERED).files, Part.RUN: runs})

    def only(self, keeps: Callable[[str], bool]) -> Parts:
        """Return the parts without the state's files that `keeps` rejects; `rows` stays an upper bound.

        Leaves out `COVERED`: its positions hold only for all files of the base together.
        """
        state = {*Source.SETTLED.value, Part.RUN}
        kept = dict(self.without(Part.COVERED).files)
        for part in state & kept.keys():
            kept[part] = replace(kept[part], paths=tuple(filter(keeps, kept[part].paths)))
        return Parts(kept)
