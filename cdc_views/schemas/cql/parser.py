"""Recursive descent over the statements of a CQL file; those that shape no table are skipped whole.

Source: Apache Cassandra 5.0, src/antlr/Parser.g, with the older forms (`COLUMNFAMILY`, `COMPACT STORAGE`,
`ALTER … TYPE`) that files of former clusters hold.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from cdc_views.schemas.cql.types import read_type
from cdc_views.schemas.tokens import Cursor, Token, TokenKind
from cdc_views.schemas.written_types import WrittenType

_SHELL_COMMANDS = ("capture", "clear", "consistency", "copy", "desc", "describe", "expand", "login", "paging", "source")
"""cqlsh's own commands, which end with their line."""


def parse_statements(cursor: Cursor) -> Iterator[Statement]:
    """Yield the statements that create, change or drop tables and types, in order.

    Raises:
        SchemaError: A statement of those is not CQL; the message says what was expected.
    """
    while not cursor.at_end:
        if cursor.accept_symbol(";"):
            continue
        found = _statement(cursor)
        if found is None:
            continue
        yield found
        if not cursor.at_end:
            cursor.expect_symbol(";")


def _statement(cursor: Cursor) -> Statement | None:
    if any(cursor.sees(word) for word in _SHELL_COMMANDS):
        _skip_line(cursor)
        return None
    for opening, read in _STATEMENTS.items():
        if cursor.accept(*opening):
            return read(cursor)
    cursor.skip_until(";")
    return None


def _skip_line(cursor: Cursor) -> None:
    line = cursor.token.line
    while not cursor.at_end and cursor.token.line == line and not cursor.sees_symbol(";"):
        cursor.advance()


def _use(cursor: Cursor) -> Statement:
    return UseKeyspace(cursor.name("a keyspace's name"))


def _drop_table(cursor: Cursor) -> Statement:
    cursor.accept("if", "exists")
    return DropTable(_qualified(cursor, "a table's name"))


def _drop_type(cursor: Cursor) -> Statement:
    cursor.accept("if", "exists")
    return DropType(_qualified(cursor, "a type's name"))


def _create_type(cursor: Cursor) -> Statement:
    cursor.accept("if", "not", "exists")
    name = _qualified(cursor, "a type's name")
    cursor.expect_symbol("(")
    fields = _fields(cursor)
    cursor.expect_symbol(")")
    return CreateType(name, fields)


def _fields(cursor: Cursor) -> tuple[tuple[str, WrittenType], ...]:
    fields = [_field(cursor)]
    while cursor.accept_symbol(","):
        fields.append(_field(cursor))
    return tuple(fields)


def _field(cursor: Cursor) -> tuple[str, WrittenType]:
    return cursor.name("a field's name"), read_type(cursor)


def _qualified(cursor: Cursor, what: str) -> QualifiedName:
    start = cursor.token
    name = cursor.name(what)
    if cursor.accept_symbol("."):
        return QualifiedName(start, name, cursor.name(what))
    return QualifiedName(start, "", name)


def _create_table(cursor: Cursor) -> Statement:
    if_not_exists = cursor.accept("if", "not", "exists")
    table = _qualified(cursor, "a table's name")
    if cursor.accept("like"):
        source = _qualified(cursor, "a table's name")
        cursor.skip_until(";")
        return CopyTable(table, source, if_not_exists)
    cursor.expect_symbol("(")
    columns: list[CqlColumn] = []
    partition: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    while True:
        if cursor.accept("primary", "key"):
            partition, clustering = _primary_key(cursor)
        else:
            columns.append(_column(cursor))
        if not cursor.accept_symbol(","):
            break
    if not cursor.accept_symbol(")"):
        raise cursor.error(f"expected ',' or ')' after a column of table {table.name!r}, found {cursor.token}")
    return CreateTable(
        table=table,
        columns=tuple(columns),
        partition=partition or tuple(column.name for column in columns if column.is_key),
        clustering=clustering,
        descending=_table_options(cursor),
        if_not_exists=if_not_exists,
    )


def _column(cursor: Cursor) -> CqlColumn:
    start = cursor.token
    name = cursor.name("a column's name")
    kind = read_type(cursor)
    is_static = is_key = False
    while cursor.token.kind is TokenKind.WORD:
        if cursor.accept("static"):
            is_static = True
        elif cursor.accept("primary", "key"):
            is_key = True
        elif cursor.sees("masked") or cursor.sees("check"):
            cursor.skip_until(",", ")", ";")
        else:
            raise cursor.error(f"expected ',', ')', STATIC or PRIMARY KEY after column {name!r}, found {cursor.token}")
    return CqlColumn(start, name, kind, is_static=is_static, is_key=is_key)


def _primary_key(cursor: Cursor) -> tuple[tuple[str, ...], tuple[str, ...]]:
    cursor.expect_symbol("(")
    if cursor.accept_symbol("("):
        partition = _names(cursor)
        cursor.expect_symbol(")")
    else:
        partition = (cursor.name("a key column's name"),)
    clustering = _names(cursor) if cursor.accept_symbol(",") else ()
    cursor.expect_symbol(")")
    return partition, clustering


def _names(cursor: Cursor) -> tuple[str, ...]:
    names = [cursor.name("a column's name")]
    while cursor.accept_symbol(","):
        names.append(cursor.name("a column's name"))
    return tuple(names)


def _table_options(cursor: Cursor) -> frozenset[str]:
    """Read `WITH …` if it is there, and return the columns its CLUSTERING ORDER BY makes descending."""
    descending: frozenset[str] = frozenset()
    if not cursor.accept("with"):
        return descending
    while True:
        if cursor.accept("clustering", "order", "by"):
            descending |= _clustering_order(cursor)
        else:
            _skip_option(cursor)
        if not cursor.accept("and"):
            return descending


def _clustering_order(cursor: Cursor) -> frozenset[str]:
    cursor.expect_symbol("(")
    descending = set()
    while True:
        name = cursor.name("a clustering column's name")
        if cursor.accept("desc"):
            descending.add(name)
        else:
            cursor.accept("asc")
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return frozenset(descending)


def _skip_option(cursor: Cursor) -> None:
    if cursor.accept("compact", "storage"):
        return
    option = cursor.name("a table option")
    cursor.expect_symbol("=")
    if cursor.at_end or cursor.sees_symbol(";"):
        raise cursor.error(f"expected the value of option {option!r}, found {cursor.token}")
    while not (cursor.at_end or cursor.sees_symbol(";") or cursor.sees("and")):
        if cursor.sees("create") or cursor.sees("alter"):
            raise cursor.error(f"expected ';' before {cursor.token}")
        cursor.skip_group()


def _alter_table(cursor: Cursor) -> Statement | None:
    cursor.accept("if", "exists")
    table = _qualified(cursor, "a table's name")
    if cursor.accept("add"):
        return _add_columns(cursor, table)
    if cursor.accept("drop"):
        return _drop_columns(cursor, table)
    if cursor.accept("rename"):
        cursor.accept("if", "exists")
        return RenameColumns(table, _renames(cursor))
    if cursor.accept("alter"):
        return _change_column(cursor, table)
    if not cursor.sees("with"):
        raise cursor.error(f"expected ADD, DROP, RENAME, ALTER or WITH, found {cursor.token}")
    _table_options(cursor)
    return None


def _add_columns(cursor: Cursor, table: QualifiedName) -> Statement:
    if_not_exists = cursor.accept("if", "not", "exists")
    in_brackets = cursor.accept_symbol("(")
    columns = [_column(cursor)]
    while cursor.accept_symbol(","):
        columns.append(_column(cursor))
    if in_brackets:
        cursor.expect_symbol(")")
    return AddColumns(table, tuple(columns), if_not_exists)


def _drop_columns(cursor: Cursor, table: QualifiedName) -> Statement | None:
    if cursor.accept("compact", "storage"):
        return None
    cursor.accept("if", "exists")
    in_brackets = cursor.accept_symbol("(")
    names = _names(cursor)
    if in_brackets:
        cursor.expect_symbol(")")
    at = _microseconds(cursor) if cursor.accept("using", "timestamp") else None
    return DropColumns(table, names, at)


def _microseconds(cursor: Cursor) -> int:
    token: Token = cursor.token
    if token.kind is not TokenKind.NUMBER or not token.text.lstrip("-").isdigit():
        raise cursor.error(f"expected a time in whole microseconds since 1970, found {token}")
    return int(cursor.advance().text)


def _renames(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    pairs = [_rename(cursor)]
    while cursor.accept("and"):
        pairs.append(_rename(cursor))
    return tuple(pairs)


def _rename(cursor: Cursor) -> tuple[str, str]:
    old = cursor.name("the name to change")
    cursor.expect("to")
    return old, cursor.name("the new name")


def _change_column(cursor: Cursor, table: QualifiedName) -> Statement | None:
    cursor.accept("if", "exists")
    column = cursor.name("a column's name")
    if cursor.accept("type"):
        return ChangeColumnType(table, column, read_type(cursor))
    cursor.skip_until(";")  # masks and constraints do not change what is stored
    return None


def _alter_type(cursor: Cursor) -> Statement | None:
    cursor.accept("if", "exists")
    name = _qualified(cursor, "a type's name")
    if cursor.accept("add"):
        cursor.accept("if", "not", "exists")
        return AddFields(name, _fields(cursor))
    if cursor.accept("rename"):
        cursor.accept("if", "exists")
        return RenameFields(name, _renames(cursor))
    if cursor.accept("alter"):
        field = cursor.name("a field's name")
        cursor.expect("type")
        return ChangeFieldType(name, field, read_type(cursor))
    raise cursor.error(f"expected ADD, RENAME or ALTER, found {cursor.token}")


_STATEMENTS = {
    ("create", "table"): _create_table,
    ("create", "columnfamily"): _create_table,
    ("create", "type"): _create_type,
    ("alter", "table"): _alter_table,
    ("alter", "columnfamily"): _alter_table,
    ("alter", "type"): _alter_type,
    ("drop", "table"): _drop_table,
    ("drop", "columnfamily"): _drop_table,
    ("drop", "type"): _drop_type,
    ("use",): _use,
}
