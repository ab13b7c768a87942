"""The reader of CQL files (`schema.cql`, the output of `DESCRIBE … WITH INTERNALS`). Statements apply in order, as in a cluster,
but types are looked up at the end, in any order. All else (keyspaces, indexes, views, functions, roles, inserts) is skipped.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_views.model.naming import renamed_field
from cdc_views.model.schema import TableSchema
from cdc_views.schemas.catalog import Catalog, full_name
from cdc_views.schemas.cql.lexer import tokenize
from cdc_views.schemas.cql.types import Fields, TypeScope
from cdc_views.schemas.cql.written import WrittenType, read_type
from cdc_views.schemas.slips import statement_slip
from cdc_views.schemas.table_draft import DraftedTables, TableDraft, WrittenColumn
from cdc_views.schemas.tokens import Cursor, Token, TokenKind

_DROP_ADVICE = (
    "write `ALTER TABLE … DROP … USING TIMESTAMP <microseconds>`, or take the schema from `DESCRIBE TABLE … WITH INTERNALS`"
)

_SHELL_COMMANDS = ("capture", "clear", "consistency", "copy", "desc", "describe", "expand", "login", "paging", "source")
"""cqlsh's own commands, which end with their line."""


def read_cql(text: str, *, keyspace: str = "", where: str = "") -> Catalog:
    """Return the tables of the CQL statements in `text`, which messages call `where`. `keyspace` is for unqualified names before
    a `USE`. Raises `SchemaError` if the text is not CQL. A table that is CQL but unusable is in the catalog's `refused`.
    """
    return _Reader(Cursor(tokenize(text, where=where), where=where), keyspace=keyspace).read()


class _Reader:
    """The tables and types after the statements read so far. Source: Apache Cassandra 5.0, src/antlr/Parser.g, with the older
    forms (`COLUMNFAMILY`, `COMPACT STORAGE`, `ALTER … TYPE`) in files of former clusters.
    """

    def __init__(self, cursor: Cursor, *, keyspace: str) -> None:
        self._cursor, self._keyspace = cursor, keyspace
        self._tables: DraftedTables[WrittenType] = DraftedTables(cursor.where, _DROP_ADVICE)
        self._types: dict[tuple[str, str], Fields] = {}
        self._passed_over: list[str] = []
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
            if cursor.sees_any(*_SHELL_COMMANDS):
                self._skip_line()
                continue
            for opening, apply in self._statements.items():
                if cursor.accept(*opening):
                    apply()
                    break
            else:
                self._pass_over()
            if not cursor.at_end:
                cursor.expect(";")
        return replace(self._tables.catalog(self._finish), notes=tuple(filter(None, self._passed_over)))

    def _pass_over(self) -> None:
        cursor = self._cursor
        is_object = any(cursor.accept(verb) for verb in ("create", "alter", "drop"))
        self._passed_over.append(statement_slip(cursor.token, is_object=is_object, where=cursor.where))
        cursor.skip_until(";")

    def _skip_line(self) -> None:
        cursor = self._cursor
        line = cursor.token.line
        while not cursor.at_end and cursor.token.line == line and not cursor.sees(";"):
            cursor.advance()

    def _finish(self, draft: TableDraft[WrittenType]) -> TableSchema:
        draft.descending |= {name for name, column in draft.columns.items() if column.type.reversed}
        return draft.finish(TypeScope(draft.keyspace, written=self._types, where=self._cursor.where).resolve)

    def _use(self) -> None:
        self._keyspace = self._cursor.name("a keyspace's name")

    def _qualified(self, what: str) -> tuple[str, str]:
        name = self._cursor.name(what)
        return (name, self._cursor.name(what)) if self._cursor.accept(".") else (self._keyspace, name)

    def _create_table(self) -> None:
        cursor = self._cursor
        may_exist = cursor.accept("if", "not", "exists")
        start = cursor.token
        draft = self._tables.new(*self._qualified("a table's name"))
        if cursor.accept("like"):
            self._copy_table(draft)
        else:
            _read_table(cursor, draft, start=start)
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
            _read_options(cursor, self._tables.by_name.get(full_name(*place)))
        elif cursor.accept("drop", "compact", "storage"):
            pass  # changes no column
        elif cursor.accept("add"):
            self._add_columns(self._altered(place, start))
        elif cursor.accept("drop"):
            self._drop_columns(self._altered(place, start), start)
        elif cursor.accept("rename"):
            cursor.accept("if", "exists")
            draft = self._altered(place, start)
            for old, new in _read_renames(cursor):
                draft.rename(old, new, at=start)
        elif cursor.accept("alter"):
            cursor.accept("if", "exists")
            name = cursor.name("a column's name")
            if cursor.accept("type"):
                self._altered(place, start).change_type(name, read_type(cursor), at=start)
            else:
                cursor.skip_until(";")  # masks and constraints do not change stored values
        else:
            raise cursor.error(f"expected ADD, DROP, RENAME, ALTER or WITH, found {cursor.token}")

    def _altered(self, place: tuple[str, str], start: Token) -> TableDraft[WrittenType]:
        return self._tables.by_name.get(full_name(*place)) or self._tables.add_unknown(*place, at=start)

    def _add_columns(self, draft: TableDraft[WrittenType]) -> None:
        cursor = self._cursor
        may_exist = cursor.accept("if", "not", "exists")
        in_brackets = cursor.accept("(")
        for column in cursor.list_of(lambda: _read_column(cursor)):
            draft.add(column, may_exist=may_exist)
        if in_brackets:
            cursor.expect(")")

    def _drop_columns(self, draft: TableDraft[WrittenType], start: Token) -> None:
        cursor = self._cursor
        cursor.accept("if", "exists")
        in_brackets = cursor.accept("(")
        names = _read_names(cursor)
        if in_brackets:
            cursor.expect(")")
        time = _read_microseconds(cursor) if cursor.accept("using", "timestamp") else None
        for name in names:
            draft.drop(name, at=start, time=time)

    def _drop_table(self) -> None:
        self._cursor.accept("if", "exists")
        self._tables.by_name.pop(full_name(*self._qualified("a table's name")), None)

    def _create_type(self) -> None:
        cursor = self._cursor
        cursor.accept("if", "not", "exists")
        place = self._qualified("a type's name")
        cursor.expect("(")
        # Cassandra accepts a second CREATE TYPE only with IF NOT EXISTS, so the first one stays
        self._types.setdefault(place, _read_fields(cursor))
        cursor.expect(")")

    def _alter_type(self) -> None:
        cursor = self._cursor
        cursor.accept("if", "exists")
        start = cursor.token
        place = self._qualified("a type's name")
        if cursor.accept("add"):
            cursor.accept("if", "not", "exists")
            added, fields = _read_fields(cursor), self._fields(place, start)
            known = {name for name, _ in fields}
            fields += tuple(field for field in added if field[0] not in known)
        elif cursor.accept("rename"):
            cursor.accept("if", "exists")
            new = dict(_read_renames(cursor))
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


def _read_table(cursor: Cursor, draft: TableDraft[WrittenType], *, start: Token) -> None:
    """Read the rest of a CREATE TABLE, from its opening bracket on, into `draft`; `start` is the table's name."""

    def read_part() -> None:
        if cursor.accept("primary", "key"):
            draft.partition, draft.clustering = _read_primary_key(cursor)
        else:
            draft.add(_read_column(cursor))

    cursor.expect("(")
    cursor.list_of(read_part)
    if not cursor.accept(")"):
        raise cursor.error(f"expected ',' or ')' after a column of table {draft.name!r}, found {cursor.token}")
    draft.partition = draft.partition or [column.name for column in draft.columns.values() if column.is_key]
    draft.descending = _read_options(cursor, draft)
    for name in sorted(draft.descending.difference(draft.clustering)):
        draft.refuse(f"CLUSTERING ORDER BY names {name!r}, no clustering column", at=start)


def _read_column(cursor: Cursor) -> WrittenColumn[WrittenType]:
    start = cursor.token
    name = cursor.name("a column's name")
    kind = read_type(cursor)
    is_static = is_key = False
    while cursor.token.kind is TokenKind.WORD:
        if cursor.accept("static"):
            is_static = True
        elif cursor.accept("primary", "key"):
            is_key = True
        elif cursor.sees_any("masked", "check"):
            cursor.skip_until(",", ")", ";")
        else:
            raise cursor.error(f"expected ',', ')', STATIC or PRIMARY KEY after column {name!r}, found {cursor.token}")
    return WrittenColumn(start, name, kind, is_static=is_static, is_key=is_key)


def _read_primary_key(cursor: Cursor) -> tuple[list[str], list[str]]:
    cursor.expect("(")
    if cursor.accept("("):
        partition = _read_names(cursor)
        cursor.expect(")")
    else:
        partition = [cursor.name("a key column's name")]
    clustering = _read_names(cursor) if cursor.accept(",") else []
    cursor.expect(")")
    return partition, clustering


def _read_names(cursor: Cursor) -> list[str]:
    return cursor.list_of(lambda: cursor.name("a column's name"))


def _read_options(cursor: Cursor, draft: TableDraft[WrittenType] | None) -> set[str]:
    """Read an optional `WITH …`, and the table's comment; return the columns that its CLUSTERING ORDER BY makes descending."""
    descending: set[str] = set()
    if not cursor.accept("with"):
        return descending
    while True:
        if cursor.accept("clustering", "order", "by"):
            descending |= _read_clustering_order(cursor)
        else:
            _read_option(cursor, draft)
        if not cursor.accept("and"):
            return descending


def _read_clustering_order(cursor: Cursor) -> set[str]:
    descending: set[str] = set()

    def read_part() -> None:
        name = cursor.name("a clustering column's name")
        if cursor.accept("desc"):
            descending.add(name)
        else:
            cursor.accept("asc")

    cursor.expect("(")
    cursor.list_of(read_part)
    cursor.expect(")")
    return descending


def _read_option(cursor: Cursor, draft: TableDraft[WrittenType] | None) -> None:
    if cursor.accept("compact", "storage"):
        return
    option = cursor.name("a table option")
    cursor.expect("=")
    if cursor.at_end or cursor.sees(";"):
        raise cursor.error(f"expected the value of option {option!r}, found {cursor.token}")
    if draft is not None and option == "comment":
        draft.comment = cursor.text()
    while not (cursor.at_end or cursor.sees_any(";", "and")):
        if cursor.sees_any("create", "alter"):
            raise cursor.error(f"expected ';' before {cursor.token}")
        cursor.skip_group()


def _read_microseconds(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind is not TokenKind.NUMBER or not token.text.lstrip("-").isdigit():
        raise cursor.error(f"expected a time in whole microseconds since 1970, found {token}")
    return int(cursor.advance().text)


def _read_renames(cursor: Cursor) -> list[tuple[str, str]]:
    renames = []
    while True:
        old = cursor.name("the name to change")
        cursor.expect("to")
        renames.append((old, cursor.name("the new name")))
        if not cursor.accept("and"):
            return renames


def _read_fields(cursor: Cursor) -> Fields:
    return tuple(cursor.list_of(lambda: (cursor.name("a field's name"), read_type(cursor))))
