"""What of each table has been read, and so what is still to be read: all of it, its rest, or columns that came later.

PostgreSQL writes no change for what `ALTER TABLE … ADD COLUMN … DEFAULT` gives the rows that are there, and a table
that is dropped and made anew is another one. Both show in numbers of its catalog that only grow, and the last ones that
were read stand beside the rows: position `slot:columns` of the table, the snapshot's LSN and these numbers in one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cdc_producers.postgres.catalog import PostgresTable
from cdc_producers.row_log import WHOLE
from cdc_views.landing import Position

_COLUMN_BITS = 16


@dataclass(frozen=True, slots=True)
class Covered:
    """The table that was read, by its number, and the highest number of its columns that was."""

    table: int
    column: int

    @classmethod
    def at(cls, position: Position) -> Covered:
        """Return what a position of `slot:columns` says."""
        return cls(position.nth >> _COLUMN_BITS, position.nth & ((1 << _COLUMN_BITS) - 1))

    @classmethod
    def by(cls, table: PostgresTable) -> Covered:
        """Return what a snapshot of the table as it is now covers."""
        return cls(table.number, max((column.number for column in table.columns), default=0))

    def position(self, lsn: int) -> Position:
        """Return the position that says so, for a snapshot at that LSN."""
        return Position(lsn, self.table << _COLUMN_BITS | self.column)


@dataclass(frozen=True, slots=True)
class Landed:
    """What has landed of a table's snapshots: how far the last one came, and what it covered; None: nothing yet."""

    snapshot: Position | None
    covered: Covered | None

    @property
    def is_whole(self) -> bool:
        """Whether the last snapshot was read to its end."""
        return self.snapshot is not None and self.snapshot.nth == WHOLE


@dataclass(frozen=True, slots=True)
class Reading:
    """What is to be read of a table.

    Attributes:
        why: For the log.
        empties: What had landed goes first: it is of another table, or changes of it are missing.
        resumes: Only rows after those that landed, as far as that can be told.
        columns: Only these, beside the key; none: all.
        only_set: Only rows where one of the columns is not null: the others cannot differ from what is shown.
        partitions: Only rows of these partitions, as SQL writes their names; none: of the table.
    """

    why: str
    empties: bool = False
    resumes: bool = False
    columns: tuple[str, ...] = ()
    only_set: bool = False
    partitions: tuple[str, ...] = ()


def needed(table: PostgresTable, landed: Landed, known: Collection[str]) -> Reading | None:
    """Return what is to be read of a table, None where nothing is.

    `known` are the columns of the schema file. New columns are read once it has all of them; until then what is
    streamed of them waits in quarantine.
    """
    covered = landed.covered
    if landed.snapshot is None:
        return Reading("")
    if covered is not None and covered.table != table.number:
        return Reading("it was dropped and made anew; what was shown goes", empties=True)
    if not landed.is_whole:
        return Reading("goes on after what has landed", resumes=True)
    if covered is None:
        return None
    new = tuple(column.name for column in table.columns if column.number > covered.column)
    if not new or not set(new) <= set(known):
        return None
    # a column may have the name of one that was dropped, and rows that show its values have none now
    return Reading(f"new columns {', '.join(new)}", columns=new, only_set=not table.has_dropped)
