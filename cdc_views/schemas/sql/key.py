"""Table-level parts of SQL DDL: of constraints and indexes only the primary key matters here."""

from __future__ import annotations

from cdc_views.schemas.tokens import Cursor


def read_key_columns(cursor: Cursor) -> tuple[str, ...]:
    """Read a constraint or index up to the comma or bracket after it; return the PRIMARY KEY's columns, else nothing.

    A MySQL key prefix (`name(10)`) and the order of an index column are left out.
    """
    if cursor.accept("constraint") and not cursor.sees("primary", "key"):
        cursor.advance()
    key: tuple[str, ...] = ()
    if cursor.accept("primary", "key"):
        while not (cursor.at_end or cursor.sees_symbol("(") or cursor.sees("using", "index")):
            cursor.advance()  # USING BTREE, an index name
        key = _names(cursor) if cursor.accept_symbol("(") else ()
    cursor.skip_until(",", ")", ";")
    return key


def _names(cursor: Cursor) -> tuple[str, ...]:
    names = [cursor.name("a key column's name")]
    cursor.skip_until(",", ")")
    while cursor.accept_symbol(","):
        names.append(cursor.name("a key column's name"))
        cursor.skip_until(",", ")")
    cursor.expect_symbol(")")
    return tuple(names)
