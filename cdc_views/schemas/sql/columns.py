"""One column definition of SQL DDL: its name, its type, and whether it is the key."""

from __future__ import annotations

from cdc_views.schemas.sql.types import SqlType
from cdc_views.schemas.table_draft import WrittenColumn
from cdc_views.schemas.tokens import Cursor, TokenKind

_SECOND_WORDS = {
    "bit": ("varying",),
    "char": ("byte", "varying"),
    "character": ("varying",),
    "double": ("precision",),
    "long": ("varbinary", "varchar"),
    "national": ("char", "character", "varchar"),
}


def read_column(cursor: Cursor) -> WrittenColumn[SqlType]:
    """Read a column's name, type and key, and skip its other parts; raises `SchemaError` if no name and type come next."""
    start = cursor.token
    name = cursor.name("a column's name")
    kind = read_type(cursor)
    is_key, comment = False, ""
    while not (cursor.at_end or cursor.sees_any(",", ")", ";")):
        # MySQL reads a bare KEY after a column as PRIMARY KEY
        if cursor.accept("primary", "key") or (cursor.sees("key") and not is_key):
            is_key = True
            cursor.accept("key")
        elif cursor.accept("comment"):
            comment = cursor.text()
        elif not (cursor.accept("unique", "key") or cursor.accept("references")):
            cursor.skip_group()
    return WrittenColumn(start, name, kind, is_key=is_key, comment=comment)


def read_type(cursor: Cursor) -> SqlType:
    """Read a type with arguments, array brackets, `UNSIGNED` and `WITH TIME ZONE`; raises `SchemaError` if none comes next."""
    name = _type_name(cursor)
    arguments = _arguments(cursor)
    is_unsigned = has_zone = False
    while True:
        if cursor.accept("unsigned") or cursor.accept("zerofill"):
            is_unsigned = True  # ZEROFILL implies it
        elif cursor.accept("with", "time", "zone"):
            has_zone = True
        elif not (cursor.accept("without", "time", "zone") or cursor.accept("signed")):
            break
    return SqlType(name, arguments, is_unsigned, has_zone, dimensions=_dimensions(cursor))


def _type_name(cursor: Cursor) -> str:
    first = cursor.token.text.lower()
    for second in _SECOND_WORDS.get(first, ()):
        if cursor.accept(first, second):
            return f"{first} {second}"
    name = cursor.name("the column's type")
    while cursor.accept("."):  # pg_catalog.int4, public.mood
        name = cursor.name("the column's type")
    return name.lower()


def _arguments(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.accept("("):
        return ()
    found: list[str] = []
    sign = ""
    while not (cursor.at_end or cursor.sees(")")):
        token = cursor.advance()
        if token.kind is not TokenKind.SYMBOL:
            found.append(sign + token.text)
        sign = "-" if token.kind is TokenKind.SYMBOL and token.text == "-" else ""  # numeric(5, -2)
    cursor.expect(")")
    return tuple(found)


def _dimensions(cursor: Cursor) -> int:
    dimensions = 0
    if cursor.accept("array"):  # `int ARRAY[4]` is one dimension
        dimensions = 0 if cursor.sees("[") else 1
    while cursor.sees("["):
        cursor.skip_group()
        dimensions += 1
    return dimensions


def read_key_columns(cursor: Cursor) -> list[str]:
    """Read a constraint or index; return the columns of a PRIMARY KEY, without MySQL's key prefixes (`name(10)`) and orders."""
    if cursor.accept("constraint") and not cursor.sees("primary", "key"):
        cursor.advance()
    key: list[str] = []
    if cursor.accept("primary", "key"):
        while not (cursor.at_end or cursor.sees("(") or cursor.sees("using", "index")):
            cursor.advance()  # USING BTREE, an index name
        if cursor.accept("("):
            key = cursor.list_of(lambda: _key_column(cursor))
            cursor.expect(")")
    cursor.skip_until(",", ")", ";")
    return key


def _key_column(cursor: Cursor) -> str:
    name = cursor.name("a key column's name")
    cursor.skip_until(",", ")")
    return name
