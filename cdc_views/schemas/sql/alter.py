"""The actions of ALTER TABLE that change columns or the key; the others are skipped.

`FIRST` and `AFTER` are skipped too: the order of columns has no meaning here.
"""

from __future__ import annotations

from cdc_views.schemas.sql.columns import read_column, read_key_columns, read_type
from cdc_views.schemas.sql.types import SqlType
from cdc_views.schemas.table_draft import TableDraft
from cdc_views.schemas.tokens import Cursor

_NOT_COLUMNS = (
    "constraint",
    "primary",
    "unique",
    "index",
    "key",
    "fulltext",
    "spatial",
    "foreign",
    "check",
    "exclude",
    "partition",
    "period",
    "system",
)


def apply_action(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    """Apply one action of ALTER TABLE to `draft`, and read up to the comma or semicolon after it.

    Raises:
        SchemaError: The action names no column or type where it must.
    """
    for word, apply in _ACTIONS.items():
        if cursor.accept(word):
            apply(cursor, draft)
            break
    cursor.skip_until(",", ";")


def _add(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    says_column = cursor.accept("column")
    may_exist = cursor.accept("if", "not", "exists")
    if not says_column and any(cursor.sees(word) for word in _NOT_COLUMNS):
        draft.partition = read_key_columns(cursor) or draft.partition
    elif cursor.accept_symbol("("):
        cursor.list_of(lambda: add_column(cursor, draft, may_exist=may_exist))
        cursor.expect_symbol(")")
    else:
        add_column(cursor, draft, may_exist=may_exist)


def add_column(cursor: Cursor, draft: TableDraft[SqlType], *, may_exist: bool = False) -> None:
    """Read a column into `draft`, and into its key where the column itself says so."""
    column = read_column(cursor)
    draft.add(column, may_exist=may_exist)
    if column.is_key:
        draft.partition.append(column.name)


def _drop(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    if cursor.accept("primary", "key"):
        draft.partition = []
        return
    says_column = cursor.accept("column")
    may_miss = cursor.accept("if", "exists")
    if not says_column and any(cursor.sees(word) for word in _NOT_COLUMNS):
        return
    start = cursor.token
    name = cursor.name("a column's name")
    if name in draft.columns or not may_miss:
        draft.drop(name, at=start)


def _rename(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    start = cursor.token
    if cursor.sees("index") or cursor.sees("key") or cursor.sees("constraint"):
        return
    if cursor.accept("to") or cursor.accept("as") or cursor.accept_symbol("="):
        _rename_table(cursor, draft)
        return
    cursor.accept("column")
    cursor.accept("if", "exists")
    old = cursor.name("a column's name")
    cursor.expect("to")
    draft.rename(old, cursor.name("the column's new name"), at=start)


def _rename_table(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    name = cursor.name("the table's new name")
    if cursor.accept_symbol("."):
        draft.keyspace, name = name, cursor.name("the table's new name")
    draft.name = name


def _change(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    cursor.accept("column")
    cursor.accept("if", "exists")
    start = cursor.token
    old = cursor.name("a column's name")
    column = read_column(cursor)
    if column.name != old:
        draft.rename(old, column.name, at=start)
    draft.change_type(column.name, column.type, at=start)


def _modify(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    cursor.accept("column")
    cursor.accept("if", "exists")
    column = read_column(cursor)
    draft.change_type(column.name, column.type, at=column.start)


def _alter(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    cursor.accept("column")
    start = cursor.token
    name = cursor.name("a column's name")
    if cursor.accept("type") or cursor.accept("set", "data", "type"):
        draft.change_type(name, read_type(cursor), at=start)


def _set(cursor: Cursor, draft: TableDraft[SqlType]) -> None:
    if cursor.accept("schema"):
        draft.keyspace = cursor.name("a schema's name")


_ACTIONS = {"add": _add, "drop": _drop, "rename": _rename, "change": _change, "modify": _modify, "alter": _alter, "set": _set}
