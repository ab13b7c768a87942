"""A table while the statements of a DDL file are applied to it, and the `TableSchema` it ends as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cdc_views.errors import SchemaError, UsageError, did_you_mean
from cdc_views.model.schema import Column, DroppedColumn, Role, TableSchema
from cdc_views.model.types import LogicalType
from cdc_views.schemas.catalog import full_name
from cdc_views.schemas.tokens import Token

NEVER_SHOWS = 2**63 - 1
"""Drop time of a column that was dropped for good, at a time the file does not tell."""

Written = TypeVar("Written")


@dataclass(frozen=True, slots=True)
class DraftColumn(Generic[Written]):
    """A column whose type is still as written."""

    name: str
    type: Written
    is_static: bool = False


@dataclass(frozen=True, slots=True)
class Drop(Generic[Written]):
    """A column's last drop; `at` is None where the statement gives no time."""

    column: DraftColumn[Written]
    at: int | None
    start: Token


@dataclass(slots=True)
class TableDraft(Generic[Written]):
    """A table under construction; names unquoted, columns in declared order.

    The first statement that does not fit is remembered in `fault` and raised by `finish`, so that one bad table
    leaves the others of its file readable. `readded_advice` says how to give the time of a drop in this format;
    with `ignores_case` (MySQL) `ID` also means the column `id`.
    """

    keyspace: str
    name: str
    where: str
    columns: dict[str, DraftColumn[Written]] = field(default_factory=dict)
    partition: list[str] = field(default_factory=list)
    clustering: list[str] = field(default_factory=list)
    descending: set[str] = field(default_factory=set)
    drops: dict[str, Drop[Written]] = field(default_factory=dict)
    fault: UsageError | None = None
    readded_advice: str = ""
    ignores_case: bool = False

    @property
    def full_name(self) -> str:
        """`keyspace.table`, unquoted."""
        return full_name(self.keyspace, self.name)

    def refuse(self, message: str, *, at: Token) -> None:
        """Remember why this table cannot be used; the first reason stays."""
        if self.fault is None:
            self.fault = SchemaError(f"{self.full_name}: {message}", where=self.where, line=at.line, column=at.column)

    def add(self, column: DraftColumn[Written], *, at: Token, may_exist: bool = False) -> None:
        """Append a column; an existing one stays as it is when `may_exist`, else the table is refused."""
        if column.name not in self.columns:
            self.columns[column.name] = column
        elif not may_exist:
            self.refuse(f"column {column.name!r} is there already", at=at)

    def drop(self, name: str, *, at: Token, time: int | None = None) -> None:
        """Take a column away, and remember its type and the time (µs) of the drop."""
        name = self._actual(name)
        if self._lacks(name, at=at):
            return
        if name in self.partition or name in self.clustering:
            self.refuse(f"column {name!r} is part of the key and cannot be dropped", at=at)
            return
        self.drops[name] = Drop(self.columns.pop(name), time, at)

    def rename(self, old: str, new: str, *, at: Token) -> None:
        """Change a column's name, wherever it occurs."""
        old = self._actual(old)
        if self._lacks(old, at=at):
            return
        if self._actual(new) in self.columns and self._actual(new) != old:
            self.refuse(f"cannot rename {old!r} to {new!r}: that name is taken", at=at)
            return
        self.columns = {
            (new if name == old else name): DraftColumn(new if name == old else name, c.type, c.is_static)
            for name, c in self.columns.items()
        }
        self.partition = [new if name == old else name for name in self.partition]
        self.clustering = [new if name == old else name for name in self.clustering]
        self.descending = {new if name == old else name for name in self.descending}

    def change_type(self, name: str, kind: Written, *, at: Token) -> None:
        """Give a column another type."""
        name = self._actual(name)
        if not self._lacks(name, at=at):
            self.columns[name] = DraftColumn(name, kind, self.columns[name].is_static)

    def _actual(self, name: str) -> str:
        """Return the column's name as declared, where the source does not tell case apart."""
        if name in self.columns or not self.ignores_case:
            return name
        return next((known for known in self.columns if known.lower() == name.lower()), name)

    def _lacks(self, name: str, *, at: Token) -> bool:
        if name in self.columns:
            return False
        self.refuse(f"has no column {name!r}{did_you_mean(name, self.columns)}", at=at)
        return True

    def finish(self, resolve: Callable[[Written], LogicalType]) -> TableSchema:
        """Return the table; `resolve` turns a written type into a logical one.

        Raises:
            SchemaError: A statement did not fit, a type is unknown, the key names no column, or rule W6 needs the
                drop time of a column that was added again.
            UnsupportedError: The table has counters.
        """
        if self.fault is not None:
            raise self.fault
        self._check_drops()
        self.partition = [self._actual(name) for name in self.partition]
        columns = [self._column(name, role=Role.PARTITION, resolve=resolve) for name in self.partition]
        columns += [self._column(name, role=Role.CLUSTERING, resolve=resolve) for name in self.clustering]
        for name, column in self.columns.items():
            if name not in self.partition and name not in self.clustering:
                role = Role.STATIC if column.is_static else Role.REGULAR
                columns.append(self._column(name, role=role, resolve=resolve))
        dropped = tuple(_dropped(drop, resolve=resolve) for drop in self.drops.values())
        return TableSchema(self.keyspace, self.name, tuple(columns), dropped)

    def _column(self, name: str, *, role: Role, resolve: Callable[[Written], LogicalType]) -> Column:
        if name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise SchemaError(f"{self.full_name}: the key names {name!r}, which is no column{hint}", where=self.where)
        return Column(name, resolve(self.columns[name].type), role, descending=name in self.descending)

    def _check_drops(self) -> None:
        for name, drop in self.drops.items():
            if name in self.columns and drop.at is None:
                raise SchemaError(
                    f"{self.full_name}: column {name!r} is dropped and added again, so the time of the drop decides "
                    f"which of its values show (rule W6), and the file does not tell it; {self.readded_advice}",
                    where=self.where,
                    line=drop.start.line,
                    column=drop.start.column,
                )


def _dropped(drop: Drop[Written], *, resolve: Callable[[Written], LogicalType]) -> DroppedColumn:
    try:
        kind = resolve(drop.column.type)
    except SchemaError:
        # the column's user type may be gone too: then its cells are read without their value
        return DroppedColumn(drop.column.name, NEVER_SHOWS if drop.at is None else drop.at)
    return DroppedColumn(drop.column.name, NEVER_SHOWS if drop.at is None else drop.at, kind)
