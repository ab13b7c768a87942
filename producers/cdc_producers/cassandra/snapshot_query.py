"""The SELECT of a snapshot: every column with the write times and the seconds left of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_producers.cassandra.node_schema import quoted
from cdc_producers.cassandra.snapshot_ranges import TokenRange
from cdc_views.model.schema import Column, Role, TableSchema

RawRow = tuple[bytes | None, ...]
"""A row as the protocol carries it: each column serialized, None where null."""
_NO_ELEMENT = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class Selected:
    """Where a column's value is in a row; `written` and `ttl` follow it where the server tells them (`has_times`)."""

    column: Column
    place: int
    has_times: bool

    @property
    def written(self) -> int:
        """Where its write time is, or that of each element."""
        return self.place + 1

    @property
    def ttl(self) -> int:
        """Where the seconds left are, or those of each element."""
        return self.place + 2


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected of one table.

    Grain: one row per row of the table, and one per partition that has static columns only; column 0 is the token,
    column 1 the coordinator's clock (ms), then the keys, then the cells.
    """

    table: TableSchema
    keys: tuple[Column, ...]
    statics: tuple[Selected, ...]
    regulars: tuple[Selected, ...]
    select: str
    token: str

    @classmethod
    def of(cls, table: TableSchema, *, tells_elements: bool) -> Selection:
        """Select everything; `tells_elements`: the server has write times of the elements of collections (5.0)."""
        keys = table.row_key
        token = f"token({', '.join(quoted(column.name) for column in table.partition)})"
        parts = [token, "toUnixTimestamp(now())", *(quoted(column.name) for column in keys)]
        chosen: dict[Role, list[Selected]] = {Role.STATIC: [], Role.REGULAR: []}
        for column in (*table.statics, *table.regulars):
            has_times = tells_elements or not column.type.is_multicell
            chosen[column.role].append(Selected(column, len(parts), has_times))
            name = quoted(column.name)
            parts += [name, f"WRITETIME({name})", f"TTL({name})"] if has_times else [name]
        select = f"SELECT {', '.join(parts)} FROM {quoted(table.keyspace, table.name)}"
        return cls(table, keys, tuple(chosen[Role.STATIC]), tuple(chosen[Role.REGULAR]), select, token)

    def over(self, tokens: TokenRange) -> str:
        """Return the text for a range."""
        return f"{self.select} WHERE {self.token} > {tokens.after} AND {self.token} <= {tokens.through}"

    def has_expiring(self, rows: Sequence[RawRow]) -> bool:
        """Whether any cell of these rows expires."""
        return any(
            _is_expiring(row[found.ttl], is_multicell=found.column.type.is_multicell)
            for found in (*self.statics, *self.regulars)
            if found.has_times
            for row in rows
        )


def _is_expiring(ttl: bytes | None, *, is_multicell: bool) -> bool:
    if ttl is None or not is_multicell:
        return ttl is not None
    return ttl[4:] != _NO_ELEMENT * ((len(ttl) - 4) // 4)
