"""Changes of rows as Debezium's events: one JSON object each, exact, without a schema beside it.

`source.lsn` is the LSN of the transaction's commit and `transaction.total_order` the change's place in it: together
they order all writes of a key (rules S2, S3), and a snapshot's rows, whose `lsn` is where its slot begins and which
have no place, rank below whatever is streamed from there on (rule S5).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as quoted
from typing import NamedTuple

from cdc_producers.postgres.catalog import PostgresColumn
from cdc_producers.postgres.pgoutput import UNCHANGED, Begin, Field, RelationColumn
from cdc_producers.postgres.values import Encode, TypeCatalog, encoder
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import LogicalType

_UNAVAILABLE = '"__debezium_unavailable_value"'


class ChangePosition(NamedTuple):
    """Where a change stands: its transaction, and its number there from 1."""

    begin: Begin
    order: int


@dataclass
class PostgresEventWriter:
    """Writes the events of one table, as its columns are in `columns`; made anew when those change."""

    schema: TableSchema
    namespace: str
    table: str
    database: str
    stream: str
    columns: Sequence[RelationColumn | PostgresColumn]
    catalog: TypeCatalog
    _fields: list[tuple[str, Encode]] = field(init=False)
    _keys: list[int] = field(init=False)
    _origin: str = field(init=False)

    def __post_init__(self) -> None:
        wanted: dict[str, LogicalType] = {column.name: column.type for column in self.schema.columns}
        self._fields = [
            (f"{quoted(c.name)}:", encoder(c.type_id, c.modifier, catalog=self.catalog, wanted=wanted.get(c.name)))
            for c in self.columns
        ]
        names = [column.name for column in self.columns]
        self._keys = [names.index(column.name) for column in self.schema.row_key if column.name in names]
        named = [("connector", "postgresql"), ("version", "cdc-views"), ("name", self.stream), ("db", self.database)]
        named += [("schema", self.namespace), ("table", self.table)]
        self._origin = ",".join(f'"{name}":{quoted(value)}' for name, value in named)

    def event(
        self, op: str, place: ChangePosition, *, before: Sequence[Field] | None = None, after: Sequence[Field] | None = None
    ) -> bytes:
        """Return an event, by Debezium's `op`: c, u, d, t, or `r` for a row that a snapshot found, which has no transaction.

        Of an update `after` is to be `filled`.
        """
        begin, order = place
        snapshot, number, transaction = "true", "null", "null"
        if op != "r":
            snapshot, number = "false", str(begin.transaction)
            transaction = f'{{"id":"{number}:{begin.lsn}","total_order":{order}}}'
        micros, now = begin.committed_at, time.time_ns() // 1_000_000
        when = f'"ts_ms":{micros // 1000},"ts_us":{micros}'
        source = f'{{{self._origin},{when},"snapshot":"{snapshot}","txId":{number},"lsn":{begin.lsn}}}'
        images = f'"before":{self._image(before)},"after":{self._image(after)}'
        return f'{{{images},"source":{source},"transaction":{transaction},"op":"{op}","ts_ms":{now}}}'.encode()

    def has_moved(self, old: Sequence[Field], new: Sequence[Field]) -> bool:
        """Whether an update changed the row's key; a part of the key that was left out did not change."""
        return any(new[i] is not UNCHANGED and old[i] != new[i] for i in self._keys)

    @staticmethod
    def filled(new: Sequence[Field], old: Sequence[Field] | None) -> list[Field]:
        """Return a new row with what it leaves out taken from the old one, as far as that has it."""
        if old is None:
            return list(new)
        return [before if now is UNCHANGED and before is not None else now for now, before in zip(new, old, strict=True)]

    def key_of(self, row: Sequence[Field]) -> dict[str, Field]:
        """Return the key columns of a row, by name, as printed."""
        return {self.columns[i].name: row[i] for i in self._keys}

    def _image(self, row: Sequence[Field] | None) -> str:
        if row is None:
            return "null"
        parts = []
        for (prefix, encode), value in zip(self._fields, row, strict=True):
            if value is None:
                parts.append(f"{prefix}null")
            elif isinstance(value, str):
                try:
                    parts.append(prefix + encode(value))
                except ValueError:
                    # the adapter refuses it, and so it waits in quarantine as it came
                    parts.append(prefix + quoted(value))
            else:
                parts.append(prefix + _UNAVAILABLE)
        return f"{{{','.join(parts)}}}"
