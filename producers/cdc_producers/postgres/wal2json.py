"""Messages of the plug-in `wal2json`, format version 2: one JSON object a change, turned back into values as PostgreSQL prints.

It writes NaN and infinities as null, and leaves an update's unchanged large values out, so the reader knows the tables' columns.

Source: wal2json 2.5, its README and its output on PostgreSQL 15.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from cdc_producers.postgres.catalog import PostgresColumn
from cdc_producers.postgres.connections import lsn_number
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
from cdc_producers.postgres.values import BYTEA
from cdc_views.errors import EngineError

_OPTIONS = ("include-xids", "include-timestamp", "include-lsn", "include-type-oids")
_SPECIAL = str.maketrans({mark: f"\\{mark}" for mark in " ',.*\\"})
"""In a list of tables these have a meaning of their own."""


@dataclass
class Wal2JsonReader:
    """Reads the changes of tables, of which it has the columns as they are at the source, in the catalog's order."""

    tables: Mapping[tuple[str, str], Sequence[RelationColumn | PostgresColumn]]
    _relations: dict[tuple[str, str, tuple[RelationColumn, ...]], Relation] = field(default_factory=dict)

    def options(self, *, reads_echoes: bool) -> str:
        """Return the format's version, what goes with a change, and the tables; messages of others come in any case."""
        listed = ",".join(f"{namespace.translate(_SPECIAL)}.{name.translate(_SPECIAL)}" for namespace, name in self.tables)
        told = ("\"format-version\" '2'", *(f"\"{name}\" 'true'" for name in _OPTIONS))
        return ", ".join([*told, quoted_option('"add-tables"', listed)])

    def read(self, payload: bytes) -> Message | None:
        """Return one message; raises `EngineError` for what is no object of format version 2."""
        try:
            return self._read(json.loads(payload, parse_int=str, parse_float=str))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineError(
                f"a wal2json message of {len(payload)} bytes is not as format version 2 has it ({error!r})"
            ) from error

    def _read(self, body: dict[str, Any]) -> Message | None:
        match body["action"]:
            case "B":
                return Begin(lsn_number(body["lsn"]), _micros(body["timestamp"]), int(body["xid"]))
            case "C":
                return Commit(lsn_number(body["lsn"]), lsn_number(body["nextlsn"]))
            case "M":
                return LogicalMessage(body["prefix"], body["content"].encode())
            case "T":
                return Truncate((self._relation(body, ()),))
            case "I":
                columns, values = self._cells(body, "columns")
                return Insert(self._relation(body, columns), values)
            case "U":
                return self._update(body)
            case "D":
                columns, values = self._cells(body, "identity")
                return Delete(self._relation(body, columns), values)
        return None

    def _relation(self, body: dict[str, Any], columns: tuple[RelationColumn, ...]) -> Relation:
        """The table with these columns; equal ones are one object, whose number stands for both."""
        key = body["schema"], body["table"], columns
        found = self._relations.get(key)
        if found is None:
            found = self._relations[key] = Relation(len(self._relations), *key[:2], "", columns)
        return found

    def _update(self, body: dict[str, Any]) -> Update:
        columns, values = self._cells(body, "columns")
        new = dict(zip((column.name for column in columns), values, strict=True))
        # what an update leaves out is stored apart, and did not change
        left_out = tuple(column for column in self._columns(body) if column.name not in new)
        relation = self._relation(body, (*columns, *left_out))
        identity, before = self._cells(body, "identity")
        old = dict(zip((column.name for column in identity), before, strict=True))
        has_moved = any(new.get(name, value) != value for name, value in old.items())
        is_whole = len(old) == len(relation.columns)
        told = tuple(old.get(column.name) for column in relation.columns) if has_moved or is_whole else None
        return Update(relation, told, (*values, *(UNCHANGED for _ in left_out)))

    def _columns(self, body: dict[str, Any]) -> list[RelationColumn]:
        known = self.tables.get((body["schema"], body["table"]), ())
        return [RelationColumn(column.name, column.type_id, column.modifier) for column in known]

    def _cells(self, body: dict[str, Any], image: str) -> tuple[tuple[RelationColumn, ...], tuple[Field, ...]]:
        """The columns of an image of a row, and their values as PostgreSQL prints them."""
        modifiers = {(column.name, column.type_id): column.modifier for column in self._columns(body)}
        named = [(str(one["name"]), int(one["typeoid"]), one["value"]) for one in body[image]]
        columns = tuple(RelationColumn(name, kind, modifiers.get((name, kind), -1)) for name, kind, _ in named)
        return columns, tuple(_printed(value, kind) for _, kind, value in named)


def _micros(text: str) -> int:
    """A time of UTC as PostgreSQL prints it, in µs since 1970."""
    clock, _, fraction = text.removesuffix("+00").partition(".")
    seconds = datetime.strptime(clock, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    return int(seconds) * 1_000_000 + int(fraction.ljust(6, "0"))


def _printed(value: Any, type_id: int) -> str | None:
    if isinstance(value, bool):
        return "t" if value else "f"
    if value is None or isinstance(value, str):
        return f"\\x{value}" if type_id == BYTEA and value is not None else value
    raise ValueError("a value is neither text, number nor boolean")
