"""What a slot says of changes, whichever plug-in writes it, and who reads that."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol


class Unchanged(Enum):
    """The type of `UNCHANGED`: an enum, so that it stays one object."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
"""A value kept out of line (TOAST) that the write did not change: the log does not have it."""
Field = str | None | Unchanged
"""One value as PostgreSQL prints it; None is null."""


class RelationColumn(NamedTuple):
    """A column at the time of the change; `modifier` is its type's modifier (a numeric's precision), or -1."""

    name: str
    type_id: int
    modifier: int


class Relation(NamedTuple):
    """A table at the time of the changes that follow; `identity` is its replica identity (`d n f i`)."""

    number: int
    namespace: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.namespace}.{self.name}"


class Begin(NamedTuple):
    """A transaction starts; `lsn` is the LSN of its commit, `committed_at` is in µs since 1970."""

    lsn: int
    committed_at: int
    transaction: int


class Commit(NamedTuple):
    """A transaction ends; `end` is the first byte of the log after it."""

    lsn: int
    end: int


class Insert(NamedTuple):
    """A row was inserted."""

    relation: Relation
    new: tuple[Field, ...]


class Update(NamedTuple):
    """A row was updated; `old` is set only if its identity changed, or if the identity is the whole row."""

    relation: Relation
    old: tuple[Field, ...] | None
    new: tuple[Field, ...]


class Delete(NamedTuple):
    """A row was deleted; `old` has the values of its identity, and nulls."""

    relation: Relation
    old: tuple[Field, ...]


class Truncate(NamedTuple):
    """Tables were emptied."""

    relations: tuple[Relation, ...]


class LogicalMessage(NamedTuple):
    """A message that somebody wrote into the log by `pg_logical_emit_message`; `prefix` names its owner."""

    prefix: str
    content: bytes


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | LogicalMessage


class MessageReader(Protocol):
    """Reads the messages of one connection in order."""

    def options(self, *, reads_echoes: bool) -> str:
        """Return what `START_REPLICATION` tells the plug-in; `reads_echoes`: also what others wrote into the log."""

    def read(self, payload: bytes) -> Message | None:
        """Return one message, or None if it does not concern rows; raises `EngineError` for what the plug-in does not write."""


def quoted_option(name: str, value: str) -> str:
    """Return an option as `START_REPLICATION` takes it."""
    return f"{name} '{value.replace(chr(39), chr(39) * 2)}'"
