"""CQL files (`schema.cql`, the output of `DESCRIBE … WITH INTERNALS`) into tables, and CQL type text into types.

Statements are applied in order, as a cluster would; types are looked up at the end, so a file may create them in
any order. What shapes no table (keyspaces, indexes, views, functions, roles, inserts) is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cdc_views.errors import SchemaError
from cdc_views.model.naming import renamed_field
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import LogicalType, Udt
from cdc_views.schemas.catalog import Catalog, build_catalog, full_name
from cdc_views.schemas.cql.lexer import tokenize
from cdc_views.schemas.cql.parser import parse_statements
from cdc_views.schemas.cql.statements import (
    AddColumns,
    AddFields,
    ChangeColumnType,
    ChangeFieldType,
    CopyTable,
    CqlColumn,
    CreateTable,
    CreateType,
    DropColumns,
    DropTable,
    DropType,
    QualifiedName,
    RenameColumns,
    RenameFields,
    Statement,
    UseKeyspace,
)
from cdc_views.schemas.cql.types import TypeScope, read_type
from cdc_views.schemas.table_draft import DraftColumn, TableDraft
from cdc_views.schemas.tokens import Cursor
from cdc_views.schemas.written_types import WrittenType

_DROP_ADVICE = (
    "write `ALTER TABLE … DROP … USING TIMESTAMP <microseconds>`, or take the schema from `DESCRIBE TABLE … WITH INTERNALS`"
)

Fields = tuple[tuple[str, WrittenType], ...]


def read_cql(text: str, *, keyspace: str = "", where: str = "") -> Catalog:
    """Return the tables of a CQL text.

    Args:
        text: Any number of statements.
        keyspace: The keyspace of unqualified names before a `USE`.
        where: The file's name for error messages.

    Raises:
        SchemaError: The text is not CQL; a table that is CQL but unusable is in the catalog's `refused` instead.
    """
    reader = _Reader(keyspace, where=where)
    for statement in parse_statements(Cursor(tokenize(text, where=where), where=where)):
        reader.apply(statement)
    return reader.catalog()


def parse_type(
    text: str, *, udts: Mapping[str, Udt] | None = None, keyspace: str = "", where: str = "", line: int = 1, column: int = 1
) -> LogicalType:
    """Return the type that CQL text means; the inverse of `str(type)`.

    Collections and user types at the top are multi-cell unless written `frozen<…>`; nested ones are frozen. Our own
    `datetime`, `instant` and `json` are understood where no user type has that name.

    Args:
        text: The type, as `map<text, frozen<addr>>`.
        udts: User types by `name` or `keyspace.name`.
        keyspace: The keyspace of unqualified user types, looked for first.
        where: Place of the text for error messages: file, and the line and column of its first character.
        line: See `where`.
        column: See `where`.

    Raises:
        SchemaError: The text is no type, or names a user type that `udts` lacks.

    >>> str(parse_type("map<varchar, list<int>>"))
    'map<text, frozen<list<int>>>'
    """
    where = where or f"type {text!r}"
    written = read_type_text(text, where=where, line=line, column=column)
    scope = TypeScope(keyspace, resolved=dict(udts or {}), where=where, allows_relational=True)
    return scope.resolve(written)


def read_type_text(text: str, *, where: str, line: int = 1, column: int = 1) -> WrittenType:
    """Return the type `text` is, names of user types not looked up; raises `SchemaError` if it is more or less."""
    cursor = Cursor(tokenize(text, where=where, line=line, column=column), where=where)
    written = read_type(cursor)
    if not cursor.at_end:
        raise cursor.error(f"expected the end of the type, found {cursor.token}")
    return written


class _Reader:
    """The state of a keyspace's tables and types while statements are applied."""

    def __init__(self, keyspace: str, *, where: str) -> None:
        self._keyspace, self._where = keyspace, where
        self._tables: dict[str, TableDraft[WrittenType]] = {}
        self._types: dict[tuple[str, str], Fields] = {}
        self._appliers: dict[type, Callable[..., None]] = {
            CreateTable: self._create_table,
            CopyTable: self._copy_table,
            AddColumns: self._add_columns,
            DropColumns: self._drop_columns,
            RenameColumns: self._rename_columns,
            ChangeColumnType: self._change_column_type,
            CreateType: self._create_type,
            AddFields: self._add_fields,
            RenameFields: self._rename_fields,
            ChangeFieldType: self._change_field_type,
            DropTable: self._drop_table,
            DropType: self._drop_type,
            UseKeyspace: self._use,
        }

    def apply(self, statement: Statement) -> None:
        """Apply one statement."""
        self._appliers[type(statement)](statement)

    def catalog(self) -> Catalog:
        """Return the tables as they are after all statements."""
        builders = {name: partial(self._finish, draft) for name, draft in self._tables.items()}
        return build_catalog(builders, where=self._where)

    def _finish(self, draft: TableDraft[WrittenType]) -> TableSchema:
        scope = TypeScope(draft.keyspace, written=self._types, where=self._where)
        for name, column in draft.columns.items():
            if column.type.reversed:
                draft.descending.add(name)
        return draft.finish(scope.resolve)

    def _full_name(self, name: QualifiedName) -> str:
        return full_name(name.keyspace or self._keyspace, name.name)

    def _use(self, statement: UseKeyspace) -> None:
        self._keyspace = statement.keyspace

    def _new_table(self, table: QualifiedName, *, if_not_exists: bool) -> TableDraft[WrittenType] | None:
        known = self._tables.get(self._full_name(table))
        if known is not None:
            if not if_not_exists:
                known.refuse("created a second time; keep one CREATE TABLE", at=table.start)
            return None
        return self._added(table)

    def _added(self, table: QualifiedName) -> TableDraft[WrittenType]:
        draft: TableDraft[WrittenType] = TableDraft(
            table.keyspace or self._keyspace, table.name, self._where, readded_advice=_DROP_ADVICE
        )
        self._tables[draft.full_name] = draft
        return draft

    def _create_table(self, statement: CreateTable) -> None:
        draft = self._new_table(statement.table, if_not_exists=statement.if_not_exists)
        if draft is None:
            return
        for column in statement.columns:
            draft.add(_draft(column), at=column.start)
        draft.partition, draft.clustering = list(statement.partition), list(statement.clustering)
        draft.descending = set(statement.descending)
        for name in sorted(statement.descending.difference(statement.clustering)):
            draft.refuse(f"CLUSTERING ORDER BY names {name!r}, no clustering column", at=statement.table.start)

    def _copy_table(self, statement: CopyTable) -> None:
        source = self._tables.get(self._full_name(statement.source))
        draft = self._new_table(statement.table, if_not_exists=statement.if_not_exists)
        if draft is None:
            return
        if source is None:
            draft.refuse(f"LIKE names {statement.source.name!r}, no table of the file", at=statement.source.start)
            return
        draft.columns, draft.fault = dict(source.columns), source.fault
        draft.partition, draft.clustering = list(source.partition), list(source.clustering)
        draft.descending = set(source.descending)

    def _altered(self, table: QualifiedName) -> TableDraft[WrittenType]:
        known = self._tables.get(self._full_name(table))
        if known is not None:
            return known
        draft = self._added(table)
        draft.refuse("is altered but never created in this file; add its CREATE TABLE", at=table.start)
        return draft

    def _add_columns(self, statement: AddColumns) -> None:
        draft = self._altered(statement.table)
        for column in statement.columns:
            draft.add(_draft(column), at=column.start, may_exist=statement.if_not_exists)

    def _drop_columns(self, statement: DropColumns) -> None:
        draft = self._altered(statement.table)
        for name in statement.names:
            draft.drop(name, at=statement.table.start, time=statement.at)

    def _rename_columns(self, statement: RenameColumns) -> None:
        draft = self._altered(statement.table)
        for old, new in statement.pairs:
            draft.rename(old, new, at=statement.table.start)

    def _change_column_type(self, statement: ChangeColumnType) -> None:
        self._altered(statement.table).change_type(statement.column, statement.type, at=statement.table.start)

    def _drop_table(self, statement: DropTable) -> None:
        self._tables.pop(self._full_name(statement.table), None)

    def _place(self, name: QualifiedName) -> tuple[str, str]:
        return name.keyspace or self._keyspace, name.name

    def _create_type(self, statement: CreateType) -> None:
        # a second CREATE TYPE can only be IF NOT EXISTS, or Cassandra would refuse it: the first one stays
        self._types.setdefault(self._place(statement.type), statement.fields)

    def _fields(self, name: QualifiedName) -> Fields:
        fields = self._types.get(self._place(name))
        if fields is None:
            raise SchemaError(
                f"ALTER TYPE of {name.name!r}, which the file has not created before; add its CREATE TYPE",
                where=self._where,
                line=name.start.line,
                column=name.start.column,
            )
        return fields

    def _add_fields(self, statement: AddFields) -> None:
        fields = self._fields(statement.type)
        known = {name for name, _ in fields}
        added = tuple(field for field in statement.fields if field[0] not in known)
        self._types[self._place(statement.type)] = fields + added

    def _rename_fields(self, statement: RenameFields) -> None:
        renamed = dict(statement.pairs)
        fields = self._fields(statement.type)
        self._types[self._place(statement.type)] = tuple(
            (renamed_field(name, renamed[name]) if name in renamed else name, kind) for name, kind in fields
        )

    def _change_field_type(self, statement: ChangeFieldType) -> None:
        fields = self._fields(statement.type)
        self._types[self._place(statement.type)] = tuple(
            (name, statement.new_type if name == statement.field else kind) for name, kind in fields
        )

    def _drop_type(self, statement: DropType) -> None:
        self._types.pop(self._place(statement.type), None)


def _draft(column: CqlColumn) -> DraftColumn[WrittenType]:
    return DraftColumn(column.name, column.type, column.is_static)
