"""Messages of PostgreSQL's `pgoutput` plugin, protocol version 1, with values as text.

Source: PostgreSQL 17, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_producers.postgres.connections import identifier
from cdc_producers.postgres.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Field,
    Insert,
    LogicalMessage,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    quoted_option,
)
from cdc_views.errors import EngineError

_POSTGRES_EPOCH_MICROS = 946_684_800_000_000
"""2000-01-01 in µs since 1970."""


@dataclass
class PgOutputReader:
    """Reads the messages of one connection in order: a table's description comes before its rows."""

    publications: Sequence[str] = ()
    _relations: dict[int, Relation] = field(default_factory=dict)

    def options(self, *, reads_echoes: bool) -> str:
        """Return the protocol's version, the publications, and whether others' messages come."""
        names = quoted_option("publication_names", ",".join(map(identifier, self.publications)))
        return f"proto_version '1', {names}" + ", messages 'true'" * reads_echoes

    def read(self, payload: bytes) -> Message | None:
        """Return one message, or None if it does not concern rows; raises `EngineError` for invalid bytes."""
        tag = payload[:1]
        try:
            return self._read(tag, _Bytes(payload))
        except (struct.error, IndexError, KeyError, ValueError) as error:
            raise EngineError(
                f"a pgoutput message of kind {tag!r} and {len(payload)} bytes is not as protocol version 1 has it ({error!r}); "
                "PostgreSQL 14 or newer was expected"
            ) from error

    def _read(self, tag: bytes, body: _Bytes) -> Message | None:
        match tag:
            case b"B":
                lsn, at, number = body.take(">QqI")
                return Begin(lsn, at + _POSTGRES_EPOCH_MICROS, number)
            case b"C":
                _, lsn, end, _ = body.take(">BQQq")
                return Commit(lsn, end)
            case b"R":
                return self._relation(body)
            case b"T":
                count, _ = body.take(">IB")
                return Truncate(tuple(self._relations[number] for number in body.take(f">{count}I")))
            case b"M":
                _, _, prefix, size = *body.take(">BQ"), body.text(), body.take(">I")[0]
                return LogicalMessage(prefix, body.take(f">{size}s")[0])
            case b"I" | b"U" | b"D":
                return self._row(tag, body, self._relations[body.take(">I")[0]])
        return None

    def _relation(self, body: _Bytes) -> Relation:
        number = body.take(">I")[0]
        namespace, name, identity = body.text() or "pg_catalog", body.text(), body.take(">c")[0].decode()
        columns = []
        for _ in range(body.take(">H")[0]):
            body.take(">B")  # whether it is of the replica identity
            columns.append(RelationColumn(body.text(), *body.take(">Ii")))
        found = self._relations[number] = Relation(number, namespace, name, identity, tuple(columns))
        return found

    @staticmethod
    def _row(tag: bytes, body: _Bytes, relation: Relation) -> Message:
        old, part = None, body.take(">c")[0]
        if part in b"KO":
            old = body.row()
            part = body.take(">c")[0] if tag == b"U" else b""
        if tag == b"D":
            if old is None:
                raise ValueError(f"part {part!r} of a deletion")
            return Delete(relation, old)
        if part != b"N":
            raise ValueError(f"part {part!r} of a write")
        new = body.row()
        return Insert(relation, new) if tag == b"I" else Update(relation, old, new)


class _Bytes:
    """A message being read, after its tag."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 1

    def take(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return found

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def row(self) -> tuple[Field, ...]:
        return tuple(self._field() for _ in range(self.take(">H")[0]))

    def _field(self) -> Field:
        kind = self._data[self._at]
        self._at += 1
        match kind:
            case 0x6E:  # n
                return None
            case 0x75:  # u
                return UNCHANGED
            case 0x74:  # t
                start = self._at + 4
                self._at = start + int.from_bytes(self._data[self._at : start], "big")
                if self._at > len(self._data):
                    raise ValueError("a value goes past the end")
                return self._data[start : self._at].decode()
        raise ValueError(f"a value of kind {kind:#x}")
