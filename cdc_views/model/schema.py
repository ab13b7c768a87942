"""`TableSchema`: the result of every reader of schemas."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from cdc_views.errors import SchemaError, UnknownColumnError, UnsupportedError
from cdc_views.model.types import Kind, LogicalType, contains


class Role(str, Enum):
    """The role of a column; the members are in the order in which Cassandra lists columns."""

    PARTITION = "partition"
    CLUSTERING = "clustering"
    STATIC = "static"
    REGULAR = "regular"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `descending` matters for clustering columns only. `description` is the schema's comment, which decides nothing:
    columns that differ in it alone are equal, and digests of a schema do not have it.
    """

    name: str
    type: LogicalType
    role: Role = Role.REGULAR
    descending: bool = False
    description: str = field(default="", compare=False, repr=False)

    @property
    def is_key(self) -> bool:
        """Whether the column is part of the row key."""
        return self.role in (Role.PARTITION, Role.CLUSTERING)


@dataclass(frozen=True, slots=True)
class DroppedColumn:
    """A dropped column: cells written at or before `dropped_at` (µs) never show (rule W6). `type` is None if the source does not
    declare it; its cells are then read without their value.
    """

    name: str
    dropped_at: int
    type: LogicalType | None = None


@dataclass(frozen=True)
class TableSchema:
    """A table, with its columns in declared order. A relational table's primary key is its partition key. `description` is as in
    `Column`. Raises `SchemaError` for a schema that can have no view, and `UnsupportedError` for counters (rule W5).

    >>> from cdc_views.model.types import Scalar
    >>> number, text = Scalar(Kind.INT), Scalar(Kind.TEXT)
    >>> orders = TableSchema("shop", "orders", (Column("id", number, Role.PARTITION), Column("state", text)))
    >>> orders.full_name, [column.name for column in orders.row_key], str(orders.column("state").type)
    ('shop.orders', ['id'], 'text')
    """

    keyspace: str
    name: str
    columns: tuple[Column, ...]
    dropped: tuple[DroppedColumn, ...] = ()
    description: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        twice = [name for name, n in Counter(c.name for c in self.columns).items() if n > 1]
        if twice:
            raise SchemaError(f"{self.full_name} declares column {twice[0]!r} twice; keep one of them")
        if not self.partition:
            raise SchemaError(
                f"{self.full_name} has no key, so there is no row to show the latest state of; "
                "declare a PRIMARY KEY (or `role: partition` on a column of a YAML schema)"
            )
        if self.statics and not self.clustering:
            raise SchemaError(f"{self.full_name} has static columns but no clustering column; Cassandra refuses that too")
        self._refuse_counters()
        for column in self.columns:
            if column.is_key and column.type.is_multicell:
                raise SchemaError(f"{self.full_name}: key column {column.name!r} must be frozen, not {column.type}")

    def _refuse_counters(self) -> None:
        for column in self.columns:
            if contains(column.type, Kind.COUNTER):
                raise UnsupportedError(
                    f"{self.full_name}: column {column.name!r} is a counter, whose replicas merge by clock and not "
                    "by rule C2 (rule W5), and a counter mutation holds one replica's context",
                    remedy="leave counter tables out of the project",
                )

    @property
    def full_name(self) -> str:
        """`keyspace.table`, unquoted."""
        return f"{self.keyspace}.{self.name}" if self.keyspace else self.name

    @cached_property
    def _by_role(self) -> dict[Role, tuple[Column, ...]]:
        # cached: decoders ask once per event
        return {role: tuple(c for c in self.columns if c.role is role) for role in Role}

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def of_role(self, role: Role) -> tuple[Column, ...]:
        """The columns of one role, in declared order."""
        return self._by_role[role]

    @property
    def partition(self) -> tuple[Column, ...]:
        """The partition key columns, in key order."""
        return self.of_role(Role.PARTITION)

    @property
    def clustering(self) -> tuple[Column, ...]:
        """The clustering columns, in key order."""
        return self.of_role(Role.CLUSTERING)

    @property
    def statics(self) -> tuple[Column, ...]:
        """The static columns."""
        return self.of_role(Role.STATIC)

    @property
    def regulars(self) -> tuple[Column, ...]:
        """The columns that are neither key nor static."""
        return self.of_role(Role.REGULAR)

    @cached_property
    def row_key(self) -> tuple[Column, ...]:
        """Partition key, then clustering key."""
        return self.partition + self.clustering

    def has(self, name: str) -> bool:
        """Whether a column is called exactly `name`."""
        return name in self._by_name

    def column(self, name: str) -> Column:
        """Return the column called exactly `name`; raises `UnknownColumnError` with a suggestion."""
        if (column := self._by_name.get(name)) is not None:
            return column
        raise UnknownColumnError(table=self.full_name, column=name, known=[c.name for c in self.columns])

    def drop_time(self, name: str) -> int | None:
        """Return when the column called `name` was last dropped (µs); None if it never was."""
        times = [d.dropped_at for d in self.dropped if d.name == name]
        return max(times, default=None)
