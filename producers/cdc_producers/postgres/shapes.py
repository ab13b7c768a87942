"""Changes of a table that PostgreSQL's log does not contain, and what must be read from the table because of them.

Numbers in the catalog reveal them; the numbers that were read last are kept beside the rows. The log lacks the values that
`ALTER TABLE … ADD COLUMN … DEFAULT` gives to existing rows. A table that is dropped and created again is another table:
numbers of tables and columns only grow.

=====================  =================================================================================================
stream of the table    `Position.nth`
=====================  =================================================================================================
`SLOT:columns`         the number of the table, and the highest one of its columns
`SLOT:column:NUMBER`   31 bits of the column's name and type, 32 of the transaction that last wrote it into the catalog
`SLOT:file:NUMBER`     the file of the table, or of one of its partitions
`SLOT:partitions`      the numbers of all partitions that were read, folded into one: it differs once one of them is gone
=====================  =================================================================================================

`Position.at` is the LSN up to which these numbers are true.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_producers.postgres.catalog import PostgresColumn, PostgresTable, Storage
from cdc_producers.postgres.connections import current_lsn
from cdc_producers.row_log import WHOLE
from cdc_producers.source import Emit, Emitted
from cdc_views.landing import Position, StreamLander
from cdc_views.landing.targets import EventLander, ProducerLog, StreamTarget

_WRITTEN_BITS = 32
_PARTITIONS = "partitions"
_COLUMN_BITS = 16


@dataclass(frozen=True, slots=True)
class Covered:
    """The table that was read, by its number, and the highest number of its columns that was."""

    table: int
    column: int

    @classmethod
    def at(cls, position: Position) -> Covered:
        """Return what a position of `SLOT:columns` holds."""
        return cls(position.nth >> _COLUMN_BITS, position.nth & ((1 << _COLUMN_BITS) - 1))

    @classmethod
    def by(cls, table: PostgresTable) -> Covered:
        """Return what a snapshot of the table in its present form covers."""
        return cls(table.number, max((column.number for column in table.columns), default=0))

    def position(self, lsn: int) -> Position:
        """Return the position that holds this, of a snapshot at `lsn`."""
        return Position(lsn, self.table << _COLUMN_BITS | self.column)


@dataclass(frozen=True, slots=True)
class Landed:
    """What has landed of a table's snapshots: the position of the last one, and what it covered; None if nothing yet."""

    snapshot: Position | None
    covered: Covered | None

    @property
    def is_whole(self) -> bool:
        """Whether the last snapshot was read to its end."""
        return self.snapshot is not None and self.snapshot.nth == WHOLE


@dataclass(frozen=True, slots=True)
class Reading:
    """What must be read of a table.

    Attributes:
        why: The reason, for the log.
        empties: Delete first what has landed: it is of another table, or changes of it are missing.
        resumes: Read only rows after those that landed, if these can be determined.
        columns: Read only these and the key; empty: all.
        only_set: Read only rows where one of the columns is not null: the others cannot differ from what is shown.
        partitions: Read only rows of these partitions, named in SQL's form; empty: the whole table.
    """

    why: str
    empties: bool = False
    resumes: bool = False
    columns: tuple[str, ...] = ()
    only_set: bool = False
    partitions: tuple[str, ...] = ()


def needed(table: PostgresTable, landed: Landed, known: Collection[str]) -> Reading | None:
    """Return what must be read of a table, or None; `known` are the columns of the schema file.

    New columns are read once the schema file has all of them; until then their streamed values wait in quarantine.
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
    # a new column may have a dropped column's name: rows that show the old values are null now
    return Reading(f"new columns {', '.join(new)}", columns=new, only_set=not table.has_dropped)


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences between a table and what was last read of it.

    Attributes:
        columns: Columns with another name or type: their values may differ in rows that nobody wrote.
        came: Partitions that have not been read.
        emptied: Names of partitions with another file, whose rows nobody has counted: TRUNCATE.
        rewritten: Names of partitions with another file and counted rows: VACUUM FULL or CLUSTER, or a TRUNCATE of long ago.
        has_gone: Whether a partition was dropped or detached.
        is_noted: Whether everything was noted as it is now.
    """

    columns: tuple[str, ...] = ()
    came: tuple[Storage, ...] = ()
    emptied: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    has_gone: bool = False
    is_noted: bool = True


@dataclass
class Shapes:
    """The shapes of the tables of one slot."""

    slot: str
    targets: Mapping[str, StreamTarget]
    _known: dict[str, dict[str, int]] = field(default_factory=dict)
    _landers: dict[str, EventLander] = field(default_factory=dict)

    def difference(self, name: str, table: PostgresTable) -> Difference:
        """Return the differences; none if nothing was noted, because an earlier version read the table."""
        known = self._known.setdefault(name, {})
        for stream in _noted(table):
            if stream not in known and (noted := self._read(name, stream)) is not None:
                known[stream] = noted
        if _PARTITIONS not in known:
            return Difference(is_noted=False)
        other_files = [part for part in table.storages if known.get(_stream(part), part.file) != part.file]
        columns = tuple(c.name for c in table.columns if _has_changed(c, known.get(_stream(c)), is_rewritten=bool(other_files)))
        are_noted = all(known.get(_stream(column)) == _number(column) for column in table.columns)
        if not table.is_partitioned:
            return Difference(columns, is_noted=not other_files and are_noted)
        came = tuple(part for part in table.storages if _stream(part) not in known)
        gone = _folded(part for part in table.storages if _stream(part) in known) != known[_PARTITIONS]
        if columns and len(other_files) == len(table.storages):
            other_files = []  # changing a column's type rewrites all of them
        emptied = tuple(part.name for part in other_files if part.is_fresh)
        rewritten = tuple(part.name for part in other_files if not part.is_fresh)
        return Difference(columns, came, emptied, rewritten, gone, is_noted=not other_files and not came and are_noted)

    def note(self, name: str, table: PostgresTable, *, lsn: int, unread: Difference | None = None, emit: Emit) -> None:
        """Emit that the table is read as it is now, except for `unread`; None: all of it was read, and nothing else is shown."""
        known, noted = self._known.get(name, {}), _noted(table)
        if unread is not None and _PARTITIONS in known:
            left = [_stream(column) for column in table.columns if column.name in unread.columns]
            left += [_stream(part) for part in table.storages if part.name in unread.emptied]
            noted |= {stream: known[stream] for stream in left if stream in known}
            if unread.has_gone:
                new = _folded(part for part in table.storages if _stream(part) not in known)
                noted[_PARTITIONS] = known[_PARTITIONS] ^ new
        if noted != known:
            for stream, number in noted.items():
                emit(Emitted(name, f"{self.slot}:{stream}", Position(lsn, number)))
        self._known[name] = noted

    def _read(self, name: str, stream: str) -> int | None:
        stream = f"{self.slot}:{stream}"
        lander = self._landers.get(name)
        if isinstance(lander, StreamLander):
            lander.stream = stream  # opening a raw table for each stream takes long
        else:
            lander = self._landers[name] = self.targets[name].lander(stream)
        position = lander.position()
        return None if position is None else position.nth


def _noted(table: PostgresTable) -> dict[str, int]:
    columns = {_stream(column): _number(column) for column in table.columns}
    return columns | {_stream(part): part.file for part in table.storages} | {_PARTITIONS: _folded(table.storages)}


def _stream(part: PostgresColumn | Storage) -> str:
    return f"{'file' if isinstance(part, Storage) else 'column'}:{part.number}"


def _has_changed(column: PostgresColumn, noted: int | None, *, is_rewritten: bool) -> bool:
    """Return whether values may differ: the column has another name or type, or the column and the rows were rewritten."""
    now = _number(column)
    if noted is None or noted == now:
        return False
    return is_rewritten or noted >> _WRITTEN_BITS != now >> _WRITTEN_BITS


def _number(column: PostgresColumn) -> int:
    digest = _digest(f"{column.type_id} {column.name}") & ((1 << 31) - 1)
    return digest << _WRITTEN_BITS | column.written & ((1 << _WRITTEN_BITS) - 1)


def _folded(parts: Iterable[Storage]) -> int:
    """Return one number for partitions, each as it was attached; folding a partition in twice removes it."""
    folded = 0
    for part in parts:
        folded ^= _digest(f"{part.number} {part.attached}")
    return folded


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@dataclass
class Partitions:
    """Judges the differences of partitions, one look after another.

    A TRUNCATE of the whole table is in the log, and it empties each partition as well. Whether there was one is known once the
    log has been read up to the point where the partition was seen empty.

    Attributes:
        keeps: Whether rows of partitions that have gone stay shown.
        troubles: The problems, by table, until the table is read again.
        read_to: Returns how far the log has been read.
    """

    keeps: bool
    log: ProducerLog
    troubles: dict[str, str] = field(default_factory=dict)
    read_to: Callable[[], int] = lambda: 0
    _seen: dict[str, int] = field(default_factory=dict)
    _truncated: set[str] = field(default_factory=set)
    _accepted: set[str] = field(default_factory=set)

    def truncated(self, name: str) -> None:
        """Note that the log had a TRUNCATE of the whole table."""
        self._truncated.add(name)

    def accepts(self, name: str) -> bool:
        """Return whether emptied partitions of a table need no warning any more."""
        return self.keeps or name in self._accepted

    def is_to_be_noted(self, name: str, found: Difference, connection: Any) -> bool:
        """Judge a table's differences while its log is read; return whether to note the table as it is now."""
        gone = list(found.emptied)
        if gone and name not in self._accepted and not self.keeps:
            seen = self._seen.setdefault(name, current_lsn(connection))
            if self.read_to() < seen:
                return False
            if name in self._truncated:
                self._accepted.add(name)
                gone = []
        if not self.keeps and (gone or found.has_gone) and name not in self._accepted:
            self._tell(name, gone)
        return bool(found.rewritten) or (bool(found.emptied or found.has_gone) and self.accepts(name))

    def noted(self, name: str, found: Difference) -> None:
        """Forget a table's differences, which are noted now; warn of rewritten partitions."""
        for each in found.rewritten:
            self.log.warning(
                f"{name}: partition {each} has been rewritten: VACUUM FULL and CLUSTER leave its rows, but if it was emptied "
                "by a TRUNCATE of its own, start once with --snapshot-again",
                table=name,
            )
        self._accepted.discard(name)
        self._truncated.discard(name)
        self._seen.pop(name, None)

    def _tell(self, name: str, emptied: list[str]) -> None:
        what = f"{', '.join(emptied)} emptied" if emptied else "dropped or detached"
        trouble = (
            f"{name}: partitions were {what} at the source, and its log says nothing of the rows that went: the view still shows "
            "them. Start once with --snapshot-again, or with --keep-dropped-partitions to go on showing them"
        )
        if self.troubles.get(name) != trouble:
            self.troubles[name] = trouble
            self.log.warning(trouble, table=name)
