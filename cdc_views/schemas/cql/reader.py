"""CQL files (`schema.cql`, the output of `DESCRIBE … WITH INTERNALS`) into tables, and CQL type text into types.

Statements are applied in order, as a cluster would; types are looked up at the end, so a file may create them in
any order. What shapes no table (keyspaces, indexes, views, functions, roles, inserts) is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc_views.model.naming import renamed_field
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import LogicalType, Udt
from cdc_views.schemas.catalog import Catalog, full_name
from cdc_views.schemas.cql.lexer import tokenize
from cdc_views.schemas.cql.tables import (
    read_column,
    read_fields,
    read_microseconds,
    read_names,
    read_options,
    read_renames,
    read_table,
)
from cdc_views.schemas.cql.types import Fields, TypeScope
from cdc_views.schemas.cql.written import WrittenType, read_type
from cdc_views.schemas.table_draft import DraftedTables, TableDraft
from cdc_views.schemas.tokens import Cursor, Token

_DROP_ADVICE = (
    "write `ALTER TABLE … DROP … USING TIMESTAMP <microseconds>`, or take the schema from `DESCRIBE TABLE … WITH INTERNALS`"
)

_SHELL_COMMANDS = ("capture", "clear", "consistency", "copy", "desc", "describe", "expand", "login", "paging", "source")
"""cqlsh's own commands, which end with their line."""


def read_cql(text: str, *, keyspace: str = "", where: str = "") -> Catalog:
    """Return the tables of a CQL text, any number of statements; error messages call it `where`.

    `keyspace` is that of unqualified names before a `USE`.

    Raises:
        SchemaError: The text is not CQL; a table that is CQL but unusable is in the catalog's `refused` instead.
    """
    return _Reader(Cursor(tokenize(text, where=where), where=where), keyspace=keyspace).read()


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
    scope = TypeScope(keyspace, resolved=udts or {}, where=where, allows_relational=True)
    return scope.resolve(read_type_text(text, where, line, column))


def read_type_text(text: str, where: str, line: int, column: int) -> WrittenType:
    """Return the type `text` is, names of user types not looked up; raises `SchemaError` if it is more or less.

    `where`, `line` and `column` are as in `parse_type`.
    """
    cursor = Cursor(tokenize(text, where=where, line=line, column=column), where=where)
    written = read_type(cursor)
    if not cursor.at_end:
        raise cursor.error(f"expected the end of the type, found {cursor.token}")
    return written


class _Reader:
    """The state of a keyspace's tables and types while statements are applied.

    Source: Apache Cassandra 5.0, src/antlr/Parser.g, with the older forms (`COLUMNFAMILY`, `ALTER … TYPE`) that files
    of former clusters hold.
    """

    def __init__(self, cursor: Cursor, *, keyspace: str) -> None:
        self._cursor, self._keyspace = cursor, keyspace
        self._tables: DraftedTables[WrittenType] = DraftedTables(cursor.where, _DROP_ADVICE)
        self._types: dict[tuple[str, str], Fields] = {}
        self._statements = {
            ("create", "table"): self._create_table,
            ("create", "columnfamily"): self._create_table,
            ("create", "type"): self._create_type,
            ("alter", "table"): self._alter_table,
            ("alter", "columnfamily"): self._alter_table,
            ("alter", "type"): self._alter_type,
            ("drop", "table"): self._drop_table,
            ("drop", "columnfamily"): self._drop_table,
            ("drop", "type"): self._drop_type,
            ("use",): self._use,
        }

    def read(self) -> Catalog:
        cursor = self._cursor
        while not cursor.at_end:
            if any(cursor.sees(word) for word in _SHELL_COMMANDS):
                self._skip_line()
                continue
            self._statement()
            if not cursor.at_end:
                cursor.expect_symbol(";")
        return self._tables.catalog(self._finish)

    def _skip_line(self) -> None:
        cursor = self._cursor
        line = cursor.token.line
        while not cursor.at_end and cursor.token.line == line and not cursor.sees_symbol(";"):
            cursor.advance()

    def _statement(self) -> None:
        for opening, apply in self._statements.items():
            if self._cursor.accept(*opening):
                apply()
                return
        self._cursor.skip_until(";")

    def _finish(self, draft: TableDraft[WrittenType]) -> TableSchema:
        draft.descending |= {name for name, column in draft.columns.items() if column.type.reversed}
        return draft.finish(TypeScope(draft.keyspace, written=self._types, where=self._cursor.where).resolve)

    def _use(self) -> None:
        self._keyspace = self._cursor.name("a keyspace's name")

    def _qualified(self, what: str) -> tuple[str, str]:
        """Read the name of a table or type and return its keyspace and name."""
        name = self._cursor.name(what)
        return (name, self._cursor.name(what)) if self._cursor.accept_symbol(".") else (self._keyspace, name)

    def _create_table(self) -> None:
        cursor = self._cursor
        may_exist = cursor.accept("if", "not", "exists")
        start = cursor.token
        draft = self._tables.new(*self._qualified("a table's name"))
        if cursor.accept("like"):
            self._copy_table(draft)
        else:
            read_table(cursor, draft, start=start)
        self._tables.add(draft, at=start, may_exist=may_exist)

    def _copy_table(self, draft: TableDraft[WrittenType]) -> None:
        start = self._cursor.token
        keyspace, name = self._qualified("a table's name")
        self._cursor.skip_until(";")
        source = self._tables.by_name.get(full_name(keyspace, name))
        if source is None:
            draft.refuse(f"LIKE names {name!r}, no table of the file", at=start)
            return
        draft.columns, draft.fault = dict(source.columns), source.fault
        draft.partition, draft.clustering = list(source.partition), list(source.clustering)
        draft.descending = set(source.descending)

    def _alter_table(self) -> None:
        cursor = self._cursor
        cursor.accept("if", "exists")
        start = cursor.token
        place = self._qualified("a table's name")
        if cursor.sees("with"):
            read_options(cursor)
        elif cursor.accept("drop", "compact", "storage"):
            pass  # no column
        elif cursor.accept("add"):
            self._add_columns(self._altered(place, start))
        elif cursor.accept("drop"):
            self._drop_columns(self._altered(place, start), start)
        elif cursor.accept("rename"):
            self._rename_columns(self._altered(place, start), start)
        elif cursor.accept("alter"):
            cursor.accept("if", "exists")
            name = cursor.name("a column's name")
            if cursor.accept("type"):
                self._altered(place, start).change_type(name, read_type(cursor), at=start)
            else:
                cursor.skip_until(";")  # masks and constraints do not change what is stored
        else:
            raise cursor.error(f"expected ADD, DROP, RENAME, ALTER or WITH, found {cursor.token}")

    def _altered(self, place: tuple[str, str], start: Token) -> TableDraft[WrittenType]:
        return self._tables.by_name.get(full_name(*place)) or self._tables.add_unknown(*place, at=start)

    def _add_columns(self, draft: TableDraft[WrittenType]) -> None:
        cursor = self._cursor
        may_exist = cursor.accept("if", "not", "exists")
        in_brackets = cursor.accept_symbol("(")
        for column in cursor.list_of(lambda: read_column(cursor)):
            draft.add(column, may_exist=may_exist)
        if in_brackets:
            cursor.expect_symbol(")")

    def _rename_columns(self, draft: TableDraft[WrittenType], start: Token) -> None:
        self._cursor.accept("if", "exists")
        for old, new in read_renames(self._cursor):
            draft.rename(old, new, at=start)

    def _drop_columns(self, draft: TableDraft[WrittenType], start: Token) -> None:
        cursor = self._cursor
        cursor.accept("if", "exists")
        in_brackets = cursor.accept_symbol("(")
        names = read_names(cursor)
        if in_brackets:
            cursor.expect_symbol(")")
        time = read_microseconds(cursor) if cursor.accept("using", "timestamp") else None
        for name in names:
            draft.drop(name, at=start, time=time)

    def _drop_table(self) -> None:
        self._cursor.accept("if", "exists")
        self._tables.by_name.pop(full_name(*self._qualified("a table's name")), None)

    def _create_type(self) -> None:
        cursor = self._cursor
        cursor.accept("if", "not", "exists")
        place = self._qualified("a type's name")
        cursor.expect_symbol("(")
        # a second CREATE TYPE can only be IF NOT EXISTS, or Cassandra would refuse it: the first one stays
        self._types.setdefault(place, read_fields(cursor))
        cursor.expect_symbol(")")

    def _alter_type(self) -> None:
        cursor = self._cursor
        cursor.accept("if", "exists")
        start = cursor.token
        place = self._qualified("a type's name")
        if cursor.accept("add"):
            cursor.accept("if", "not", "exists")
            added, fields = read_fields(cursor), self._fields(place, start)
            known = {name for name, _ in fields}
            fields += tuple(field for field in added if field[0] not in known)
        elif cursor.accept("rename"):
            cursor.accept("if", "exists")
            new = dict(read_renames(cursor))
            fields = self._fields(place, start)
            fields = tuple((renamed_field(name, new[name]) if name in new else name, kind) for name, kind in fields)
        elif cursor.accept("alter"):
            changed = cursor.name("a field's name")
            cursor.expect("type")
            new_type = read_type(cursor)
            fields = tuple((name, new_type if name == changed else kind) for name, kind in self._fields(place, start))
        else:
            raise cursor.error(f"expected ADD, RENAME or ALTER, found {cursor.token}")
        self._types[place] = fields

    def _fields(self, place: tuple[str, str], start: Token) -> Fields:
        if place not in self._types:
            message = f"ALTER TYPE of {place[1]!r}, which the file has not created before; add its CREATE TYPE"
            raise self._cursor.error(message, at=start)
        return self._types[place]

    def _drop_type(self) -> None:
        self._cursor.accept("if", "exists")
        self._types.pop(self._qualified("a type's name"), None)
