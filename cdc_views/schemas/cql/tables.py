"""What the CQL statements that shape tables and types are made of: columns, keys, options.

Source: Apache Cassandra 5.0, src/antlr/Parser.g, with the older forms (`COMPACT STORAGE`) that files of former clusters
hold. Each function reads forward from the cursor and raises `SchemaError`, which says what was expected.
"""

from __future__ import annotations

from cdc_views.schemas.cql.types import Fields
from cdc_views.schemas.cql.written import WrittenType, read_type
from cdc_views.schemas.table_draft import TableDraft, WrittenColumn
from cdc_views.schemas.tokens import Cursor, Token, TokenKind


def read_table(cursor: Cursor, draft: TableDraft[WrittenType], *, start: Token) -> None:
    """Read the rest of a CREATE TABLE, from its opening bracket on, into `draft`; `start` is the table's name."""

    def read_part() -> None:
        if cursor.accept("primary", "key"):
            draft.partition, draft.clustering = _read_primary_key(cursor)
        else:
            draft.add(read_column(cursor))

    cursor.expect_symbol("(")
    cursor.list_of(read_part)
    if not cursor.accept_symbol(")"):
        raise cursor.error(f"expected ',' or ')' after a column of table {draft.name!r}, found {cursor.token}")
    draft.partition = draft.partition or [column.name for column in draft.columns.values() if column.is_key]
    draft.descending = read_options(cursor)
    for name in sorted(draft.descending.difference(draft.clustering)):
        draft.refuse(f"CLUSTERING ORDER BY names {name!r}, no clustering column", at=start)


def read_column(cursor: Cursor) -> WrittenColumn[WrittenType]:
    """Read one column's definition."""
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
    return WrittenColumn(start, name, kind, is_static=is_static, is_key=is_key)


def _read_primary_key(cursor: Cursor) -> tuple[list[str], list[str]]:
    cursor.expect_symbol("(")
    if cursor.accept_symbol("("):
        partition = read_names(cursor)
        cursor.expect_symbol(")")
    else:
        partition = [cursor.name("a key column's name")]
    clustering = read_names(cursor) if cursor.accept_symbol(",") else []
    cursor.expect_symbol(")")
    return partition, clustering


def read_names(cursor: Cursor) -> list[str]:
    """Read names of columns."""
    return cursor.list_of(lambda: cursor.name("a column's name"))


def read_options(cursor: Cursor) -> set[str]:
    """Read `WITH …` if it is there, and return the columns its CLUSTERING ORDER BY makes descending."""
    descending: set[str] = set()
    if not cursor.accept("with"):
        return descending
    while True:
        if cursor.accept("clustering", "order", "by"):
            descending |= _read_clustering_order(cursor)
        else:
            _skip_option(cursor)
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

    cursor.expect_symbol("(")
    cursor.list_of(read_part)
    cursor.expect_symbol(")")
    return descending


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


def read_microseconds(cursor: Cursor) -> int:
    """Read the time of USING TIMESTAMP."""
    token = cursor.token
    if token.kind is not TokenKind.NUMBER or not token.text.lstrip("-").isdigit():
        raise cursor.error(f"expected a time in whole microseconds since 1970, found {token}")
    return int(cursor.advance().text)


def read_renames(cursor: Cursor) -> list[tuple[str, str]]:
    """Read `old TO new AND …`."""
    renames = []
    while True:
        old = cursor.name("the name to change")
        cursor.expect("to")
        renames.append((old, cursor.name("the new name")))
        if not cursor.accept("and"):
            return renames


def read_fields(cursor: Cursor) -> Fields:
    """Read the fields of a user type."""
    return tuple(cursor.list_of(lambda: (cursor.name("a field's name"), read_type(cursor))))
