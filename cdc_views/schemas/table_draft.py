"""The tables of a DDL file while its statements are applied to them; each ends as a `TableSchema`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

from cdc_views.errors import SchemaError, UsageError, did_you_mean
from cdc_views.model.schema import Column, DroppedColumn, Role, TableSchema
from cdc_views.model.types import LogicalType
from cdc_views.schemas.catalog import Catalog, build_catalog, full_name
from cdc_views.schemas.tokens import Token

NEVER_SHOWS = 2**63 - 1  # the drop time of a column that was dropped for good, at a time that the file does not give

Written = TypeVar("Written")


@dataclass(frozen=True, slots=True)
class WrittenColumn(Generic[Written]):
    """A column as DDL writes it; a `PRIMARY KEY` after the column itself sets `is_key`."""

    start: Token
    name: str
    type: Written
    is_static: bool = False
    is_key: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Drop(Generic[Written]):
    """A column's last drop; `at` is None if the statement gives no time."""

    column: WrittenColumn[Written]
    at: int | None
    start: Token


@dataclass(slots=True)
class TableDraft(Generic[Written]):
    """A table under construction, with unquoted names. `fault` is the error of the first statement that does not fit; `finish`
    raises it, so that one bad table leaves the others of its file readable. `readded_advice` explains how to give the time of
    a drop in this format. With `ignores_case` (MySQL), `ID` also means the column `id`.
    """

    keyspace: str
    name: str
    where: str
    readded_advice: str
    ignores_case: bool = False
    columns: dict[str, WrittenColumn[Written]] = field(default_factory=dict)
    partition: list[str] = field(default_factory=list)
    clustering: list[str] = field(default_factory=list)
    descending: set[str] = field(default_factory=set)
    drops: dict[str, Drop[Written]] = field(default_factory=dict)
    fault: UsageError | None = None
    comment: str = ""

    @property
    def full_name(self) -> str:
        """`keyspace.table`, unquoted."""
        return full_name(self.keyspace, self.name)

    def refuse(self, message: str, *, at: Token) -> None:
        """Remember why this table cannot be used; the first reason stays."""
        if self.fault is None:
            self.fault = at.error(f"{self.full_name}: {message}", where=self.where)

    def add(self, column: WrittenColumn[Written], *, may_exist: bool = False) -> None:
        """Append a column. If it exists already, it stays if `may_exist`, else the table is refused."""
        if column.name not in self.columns:
            self.columns[column.name] = column
        elif not may_exist:
            self.refuse(f"column {column.name!r} is there already", at=column.start)

    def describe(self, name: str, comment: str) -> None:
        """Give a column another comment; one that is unknown decides nothing, so it is no fault."""
        name = self._actual(name)
        if name in self.columns:
            self.columns[name] = replace(self.columns[name], comment=comment)

    def drop(self, name: str, *, at: Token, time: int | None = None) -> None:
        """Remove a column, and remember its type and the time (µs) of the drop."""
        name = self._actual(name)
        if self._lacks(name, at=at):
            return
        if name in self.partition or name in self.clustering:
            self.refuse(f"column {name!r} is part of the key and cannot be dropped", at=at)
            return
        self.drops[name] = Drop(self.columns.pop(name), time, at)

    def rename(self, old: str, new: str, *, at: Token) -> None:
        """Rename a column wherever it occurs."""
        old = self._actual(old)
        if self._lacks(old, at=at):
            return
        if self._actual(new) in self.columns and self._actual(new) != old:
            self.refuse(f"cannot rename {old!r} to {new!r}: that name is taken", at=at)
            return
        names = {name: new if name == old else name for name in self.columns}
        self.columns = {names[name]: replace(column, name=names[name]) for name, column in self.columns.items()}
        self.partition = [names.get(name, name) for name in self.partition]
        self.clustering = [names.get(name, name) for name in self.clustering]
        self.descending = {names.get(name, name) for name in self.descending}

    def change_type(self, name: str, kind: Written, *, at: Token) -> None:
        """Give a column another type."""
        name = self._actual(name)
        if not self._lacks(name, at=at):
            self.columns[name] = replace(self.columns[name], type=kind)

    def _actual(self, name: str) -> str:
        """Return the column's name as declared, if the source ignores case."""
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
            SchemaError: A statement does not fit, a type or key column is unknown, or a re-added column has no drop time (W6).
            UnsupportedError: The table has counters.
        """
        if self.fault is not None:
            raise self.fault
        self._check_drops()
        self.partition = [self._actual(name) for name in self.partition]
        roles = [(name, Role.PARTITION) for name in self.partition] + [(name, Role.CLUSTERING) for name in self.clustering]
        for name, column in self.columns.items():
            if name not in self.partition and name not in self.clustering:
                roles.append((name, Role.STATIC if column.is_static else Role.REGULAR))
        columns = tuple(self._column(name, role=role, resolve=resolve) for name, role in roles)
        dropped = tuple(_dropped(drop, resolve=resolve) for drop in self.drops.values())
        return TableSchema(self.keyspace, self.name, columns, dropped, self.comment)

    def _column(self, name: str, *, role: Role, resolve: Callable[[Written], LogicalType]) -> Column:
        if name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise SchemaError(f"{self.full_name}: the key names {name!r}, which is no column{hint}", where=self.where)
        written = self.columns[name]
        try:
            kind = resolve(written.type)
        except SchemaError as error:
            raise error.about(f"column {name!r} of {self.full_name}") from error
        return Column(name, kind, role, descending=name in self.descending, description=written.comment)

    def _check_drops(self) -> None:
        for name, drop in self.drops.items():
            if name in self.columns and drop.at is None:
                raise drop.start.error(
                    f"{self.full_name}: column {name!r} is dropped and added again, so the time of the drop decides "
                    f"which of its values show (rule W6), and the file does not tell it; {self.readded_advice}",
                    where=self.where,
                )


def _dropped(drop: Drop[Written], *, resolve: Callable[[Written], LogicalType]) -> DroppedColumn:
    try:
        kind = resolve(drop.column.type)
    except SchemaError:
        kind = None  # the column's user type may be gone too; its cells are then read without their value
    return DroppedColumn(drop.column.name, NEVER_SHOWS if drop.at is None else drop.at, kind)


@dataclass(slots=True)
class DraftedTables(Generic[Written]):
    """All tables of a DDL file by full name; `readded_advice` and `ignores_case` are as in `TableDraft`."""

    where: str
    readded_advice: str
    ignores_case: bool = False
    by_name: dict[str, TableDraft[Written]] = field(default_factory=dict)

    def new(self, keyspace: str, name: str) -> TableDraft[Written]:
        """Return a table without columns, which is not yet among the file's tables."""
        return TableDraft(keyspace, name, self.where, self.readded_advice, self.ignores_case)

    def add(self, draft: TableDraft[Written], *, at: Token, may_exist: bool = False) -> bool:
        """Add a table; return False if one of that name exists. That one stays, and is refused unless it `may_exist`."""
        known = self.by_name.setdefault(draft.full_name, draft)
        if known is not draft and not may_exist:
            known.refuse("created a second time; keep one CREATE TABLE", at=at)
        return known is draft

    def add_unknown(self, keyspace: str, name: str, *, at: Token) -> TableDraft[Written]:
        """Add and refuse a table that is altered before the file creates it."""
        draft = self.by_name[full_name(keyspace, name)] = self.new(keyspace, name)
        draft.refuse("is altered but never created in this file; add its CREATE TABLE", at=at)
        return draft

    def catalog(self, finish: Callable[[TableDraft[Written]], TableSchema]) -> Catalog:
        """Return the tables as they are after all statements."""
        return build_catalog({name: partial(finish, draft) for name, draft in self.by_name.items()}, where=self.where)
