"""The parts of a state: their content, the statistics of their files, and the parts that a scan reads.

The base holds reduced rows: each row key once, with every deletion applied. A merge adds the new version of a row, and a deletion
vector hides the old one. Runs and tail hold newer facts, any of which may beat any other fact (rule M1).
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
    """A part of a table's facts. `_part`, the partition column of a state, is the part's value and digits of a digest.

    Plain rows show the stored values at any time (`plan.compact`). Each read must judge the other facts of the base: rows that
    may expire or are deleted, and facts about more than a row.
    """

    BASE = "judged"
    PLAIN = "rows"
    RUN = "run"
    """Newer facts, reduced run by run."""
    PURGED = "purged"
    """The newest write time that each partition has purged (rule M2). Views do not read it."""
    LATE = "too_late"
    """Facts in quarantine because they landed too late (rule M2)."""
    TAIL = "tail"
    """Raw facts that the state does not have yet; never stored in a state."""


STORED = frozenset(Part) - {Part.TAIL}


class Source(Enum):
    """The parts that a scan reads, in this order. A raw table without a state has only `ALL`."""

    ALL = (Part.BASE, Part.PLAIN, Part.RUN, Part.TAIL)
    BASE = (Part.BASE, Part.PLAIN)
    PLAIN = (Part.PLAIN,)
    JUDGED = (Part.BASE,)
    FRESH = (Part.RUN, Part.TAIL)
    """Everything newer than the base."""
    OTHERS = (Part.BASE, Part.RUN, Part.TAIL)
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
        return self is Source.PLAIN


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
    """The files of parts, the number of live facts in them (None: unknown), their bytes (0 for raw files), and their statistics.

    `masked`: the files of which a deletion vector hides rows.
    """

    paths: tuple[str, ...] = ()
    rows: int | None = 0
    bytes: int = 0
    statistics: Statistics = UNKNOWN
    masked: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.paths)

    def __or__(self, other: FileSet) -> FileSet:
        if not other:
            return self
        if not self:
            return other
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        paths, size, masked = self.paths + other.paths, self.bytes + other.bytes, self.masked | other.masked
        return FileSet(paths, rows, size, self.statistics | other.statistics, masked)

    def only(self, keeps: Callable[[str], bool]) -> FileSet:
        """Return the files that `keeps` accepts; `rows` and `bytes` stay upper bounds."""
        return replace(self, paths=tuple(filter(keeps, self.paths)), masked=frozenset(filter(keeps, self.masked)))


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
        """Return the sources of the base's rows: the plain ones, then the judged ones."""
        return [place for place in (Source.PLAIN, Source.JUDGED) if self.has(place)]

    def is_small(self, source: Source, *, columns: int = 1) -> bool:
        """Return whether a join may broadcast this number of columns of the source's facts."""
        rows = self.of(source).rows
        return rows is not None and rows * columns < MOST_BROADCAST

    @property
    def is_fresh_newer(self) -> bool:
        """Whether every fact of runs and tail was written after every fact of the base."""
        return self.of(Source.BASE).statistics.newest < self.of(Source.FRESH).statistics.oldest

    def without(self, *parts: Part) -> Parts:
        """Return all parts except these."""
        return Parts({part: files for part, files in self.files.items() if part not in parts})

    def as_runs(self, source: Source) -> Parts:
        """Return the same facts, with the facts of `source` among the runs; any facts may be a run (rule M1)."""
        runs = self.of([*source.value, Part.RUN])
        return Parts({**self.without(*source.value).files, Part.RUN: runs})

    def only(self, keeps: Callable[[str], bool]) -> Parts:
        """Return the parts without the state's files that `keeps` rejects; `rows` stays an upper bound."""
        state = {*Source.BASE.value, Part.RUN}
        return Parts({part: files.only(keeps) if part in state else files for part, files in self.files.items()})
