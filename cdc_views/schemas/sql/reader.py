"""The reader of DDL of Postgres, MySQL and MariaDB. The keyspace of a table is its schema (Postgres) or database (MySQL).

CREATE, ALTER, RENAME and DROP TABLE apply in order; other statements are skipped. sqlglot only splits the text into tokens: its
parser gives up a whole CREATE TABLE for one unknown type (MariaDB's `inet6`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from cdc_views.schemas.catalog import Catalog, full_name
from cdc_views.schemas.slips import statement_slip, type_slip
from cdc_views.schemas.sql.columns import read_column, read_key_columns, read_type
from cdc_views.schemas.sql.lexer import tokenize
from cdc_views.schemas.sql.types import SqlType, known_types, logical_type
from cdc_views.schemas.table_draft import DraftedTables, TableDraft
from cdc_views.schemas.tokens import Cursor, Token

_COMMENTS_AND_STRINGS = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_MYSQL_MARKS = re.compile(
    r"`|\b(?:auto_increment|unsigned|zerofill|datetime|tinyint|mediumint|(?:tiny|medium|long)(?:text|blob)"
    r"|engine\s*=|charset|on\s+update\s+current_timestamp|year|modify|(?:enum|set)\s*\()",
    re.IGNORECASE,
)
_POSTGRES_MARKS = re.compile(
    r"::|\[\s*\]|\$\$|\b(?:bytea|jsonb|timestamptz|timetz|(?:big|small)?serial|with(?:out)?\s+time\s+zone|only|owner\s+to"
    r"|character\s+varying|tsvector|search_path|replica\s+identity|float8|int8|interval|inet)\b",
    re.IGNORECASE,
)
_NOT_ADDED_TWICE = "give the table's DDL as it is now (older values may then show), or a YAML schema with `dropped: [{name, at}]`"
_TABLE_PARTS = ("primary", "constraint", "unique", "foreign", "check", "like", "exclude")
_MYSQL_TABLE_PARTS = (*_TABLE_PARTS, "key", "index", "fulltext", "spatial")
_NOT_COLUMNS = (*_MYSQL_TABLE_PARTS, "partition", "period", "system")  # ALTER TABLE adds and drops these beside columns


def guess_dialect(text: str) -> str:
    """Return `mysql` if the text has more words of MySQL and MariaDB than of Postgres, else `postgres`."""
    bare = _COMMENTS_AND_STRINGS.sub(" ", text)
    return "mysql" if len(_MYSQL_MARKS.findall(bare)) > len(_POSTGRES_MARKS.findall(bare)) else "postgres"


def read_sql(text: str, *, keyspace: str = "", where: str = "", dialect: str = "") -> Catalog:
    """Return the tables of the SQL DDL in `text`, which messages call `where`. `keyspace` is for unqualified names before `USE`
    or `SET search_path`. `dialect` is `postgres` or `mysql` (also for MariaDB), guessed if empty. Raises `SchemaError` if a
    CREATE or ALTER TABLE cannot be read. A table without a key is in the catalog's `refused`.
    """
    dialect = dialect or guess_dialect(text)
    cursor = Cursor(tokenize(text, dialect=dialect, where=where), where=where, folds_case=dialect == "postgres")
    return _Reader(cursor, keyspace=keyspace, dialect=dialect).read()


class _Reader:
    """The tables after the statements read so far."""

    def __init__(self, cursor: Cursor, *, keyspace: str, dialect: str) -> None:
        self._cursor, self._keyspace, self._dialect = cursor, keyspace, dialect
        self._parts = _MYSQL_TABLE_PARTS if dialect == "mysql" else _TABLE_PARTS
        self._tables: DraftedTables[SqlType] = DraftedTables(
            cursor.where, readded_advice=_NOT_ADDED_TWICE, ignores_case=dialect == "mysql"
        )
        self._made: set[str] = set()
        self._passed_over: list[str] = []

    def read(self) -> Catalog:
        while not self._cursor.at_end:
            self._statement()
            self._cursor.skip_until(";")
            self._cursor.accept(";")
        found = self._tables.catalog(lambda draft: draft.finish(partial(logical_type, dialect=self._dialect)))
        return replace(found, notes=tuple(filter(None, (*self._passed_over, *self._type_slips()))))

    def _type_slips(self) -> list[str]:
        known = known_types(self._dialect)
        columns = (column for draft in self._tables.by_name.values() for column in draft.columns.values())
        return [
            type_slip(one.type.name, one.start, known, where=self._cursor.where)
            for one in columns
            if one.type.name not in self._made
        ]

    def _statement(self) -> None:
        cursor = self._cursor
        if cursor.accept("create"):
            self._create()
        elif cursor.accept("alter", "table"):
            self._alter()
        elif cursor.accept("drop", "table"):
            cursor.accept("if", "exists")
            cursor.list_of(self._drop_table)
        elif cursor.accept("rename", "table"):
            cursor.list_of(self._rename_table)
        elif cursor.accept("use"):
            self._keyspace = cursor.name("a database's name")
        elif cursor.accept("set", "search_path"):
            self._search_path()
        elif cursor.accept("comment", "on"):
            self._comment()
        else:
            self._passed_over.append(statement_slip(cursor.token, where=cursor.where))

    def _search_path(self) -> None:
        cursor = self._cursor
        if not cursor.accept("to"):
            cursor.accept("=")
        if cursor.token.text:  # the end has none
            self._keyspace = cursor.advance().text

    def _comment(self) -> None:
        """Read Postgres's COMMENT ON TABLE and COLUMN; those on other things are skipped."""
        cursor = self._cursor
        of_column = cursor.accept("column")
        if not of_column and not cursor.accept("table"):
            return
        names = [cursor.name("a name")]
        while cursor.accept("."):
            names.append(cursor.name("a name"))
        column = names.pop() if of_column else ""
        draft = self._known(names[-2] if len(names) > 1 else self._keyspace, names[-1]) if names else None
        cursor.expect("is")
        if draft is None:
            return  # of a view
        if of_column:
            draft.describe(column, cursor.text())
        else:
            draft.comment = cursor.text()

    def _create(self) -> None:
        cursor = self._cursor
        replaces = cursor.accept("or", "replace")
        while any(cursor.accept(word) for word in ("temporary", "temp", "unlogged", "global", "local", "foreign")):
            pass
        if cursor.accept("type") or cursor.accept("domain"):
            self._made.add(self._qualified()[1].lower())
            return
        if not cursor.accept("table"):
            self._passed_over.append(statement_slip(cursor.token, is_object=True, where=cursor.where))
            return
        may_exist = cursor.accept("if", "not", "exists")
        start = cursor.token
        draft = self._tables.new(*self._qualified())
        if cursor.sees("partition", "of"):
            return  # its rows are read through the parent
        if replaces:
            self._tables.by_name[draft.full_name] = draft
        if self._tables.add(draft, at=start, may_exist=may_exist):
            self._body(draft, start=start)

    def _qualified(self) -> tuple[str, str]:
        """Read the name of a table and return its keyspace and name, without a catalog before them."""
        names = [self._cursor.name("a table's name")]
        while self._cursor.accept("."):
            names.append(self._cursor.name("a table's name"))
        return (names[-2] if len(names) > 1 else self._keyspace), names[-1]

    def _body(self, draft: TableDraft[SqlType], *, start: Token) -> None:
        cursor = self._cursor
        if cursor.accept("like"):
            self._copy(draft, start=start)
            return
        if not cursor.accept("("):
            draft.refuse("CREATE TABLE without columns; write the columns out", at=start)
            return
        while not cursor.sees(")"):  # a trailing comma is harmless
            self._element(draft)
            if not cursor.accept(","):
                break
        cursor.expect(")")
        self._table_options(draft)

    def _table_options(self, draft: TableDraft[SqlType]) -> None:
        cursor = self._cursor
        while not (cursor.at_end or cursor.sees(";")):
            if cursor.accept("comment"):
                cursor.accept("=")
                draft.comment = cursor.text()
            else:
                cursor.skip_group()

    def _element(self, draft: TableDraft[SqlType]) -> None:
        cursor = self._cursor
        start = cursor.token
        if cursor.accept("like"):
            self._copy(draft, start=start)
        elif cursor.sees_any(*self._parts) or cursor.sees("period", "for"):
            draft.partition = read_key_columns(cursor) or draft.partition
        else:
            self._add_column(draft)

    def _add_column(self, draft: TableDraft[SqlType], *, may_exist: bool = False) -> None:
        column = read_column(self._cursor)
        draft.add(column, may_exist=may_exist)
        if column.is_key:
            draft.partition.append(column.name)

    def _copy(self, draft: TableDraft[SqlType], *, start: Token) -> None:
        source = self._known(*self._qualified())
        if source is None:
            draft.refuse("LIKE names a table that the file does not create before", at=start)
        else:
            draft.columns = {**draft.columns, **source.columns}
            draft.partition = list(source.partition)
        self._cursor.skip_until(",", ")", ";")

    def _known(self, keyspace: str, name: str) -> TableDraft[SqlType] | None:
        """Return the named table; an unqualified name also finds the file's only table of that name."""
        found = self._tables.by_name.get(full_name(keyspace, name))
        if found is not None or keyspace != self._keyspace:
            return found
        same = [draft for draft in self._tables.by_name.values() if draft.name == name]
        return same[0] if len(same) == 1 else None

    def _alter(self) -> None:
        cursor = self._cursor
        cursor.accept("if", "exists")
        cursor.accept("only")
        start = cursor.token
        keyspace, name = self._qualified()
        cursor.accept("*")
        draft = self._known(keyspace, name) or self._tables.add_unknown(keyspace, name, at=start)
        cursor.list_of(lambda: self._apply_action(draft))
        self._tables.by_name = {table.full_name: table for table in self._tables.by_name.values()}

    def _apply_action(self, draft: TableDraft[SqlType]) -> None:
        """Apply an action of ALTER TABLE on columns, key or name. Skip all else, even `FIRST` and `AFTER`: order is ignored."""
        cursor = self._cursor
        if cursor.accept("add"):
            self._add(draft)
        elif cursor.accept("drop"):
            self._drop(draft)
        elif cursor.accept("rename"):
            self._rename(draft)
        elif cursor.accept("change"):
            self._change(draft, has_old_name=True)
        elif cursor.accept("modify"):
            self._change(draft, has_old_name=False)
        elif cursor.accept("alter"):
            self._change_type(draft)
        elif cursor.accept("set", "schema"):
            draft.keyspace = cursor.name("a schema's name")
        cursor.skip_until(",", ";")

    def _add(self, draft: TableDraft[SqlType]) -> None:
        cursor = self._cursor
        says_column = cursor.accept("column")
        may_exist = cursor.accept("if", "not", "exists")
        if not says_column and cursor.sees_any(*_NOT_COLUMNS):
            draft.partition = read_key_columns(cursor) or draft.partition
        elif cursor.accept("("):
            cursor.list_of(lambda: self._add_column(draft, may_exist=may_exist))
            cursor.expect(")")
        else:
            self._add_column(draft, may_exist=may_exist)

    def _drop(self, draft: TableDraft[SqlType]) -> None:
        cursor = self._cursor
        if cursor.accept("primary", "key"):
            draft.partition = []
            return
        says_column = cursor.accept("column")
        may_miss = cursor.accept("if", "exists")
        if not says_column and cursor.sees_any(*_NOT_COLUMNS):
            return
        start = cursor.token
        name = cursor.name("a column's name")
        if name in draft.columns or not may_miss:
            draft.drop(name, at=start)

    def _rename(self, draft: TableDraft[SqlType]) -> None:
        cursor = self._cursor
        start = cursor.token
        if cursor.sees_any("index", "key", "constraint"):
            return
        if cursor.accept("to") or cursor.accept("as") or cursor.accept("="):
            draft.name = cursor.name("the table's new name")
            if cursor.accept("."):
                draft.keyspace, draft.name = draft.name, cursor.name("the table's new name")
            return
        cursor.accept("column")
        cursor.accept("if", "exists")
        old = cursor.name("a column's name")
        cursor.expect("to")
        draft.rename(old, cursor.name("the column's new name"), at=start)

    def _change(self, draft: TableDraft[SqlType], *, has_old_name: bool) -> None:
        cursor = self._cursor
        cursor.accept("column")
        cursor.accept("if", "exists")
        start = cursor.token
        old = cursor.name("a column's name") if has_old_name else ""
        column = read_column(cursor)
        if has_old_name and old != column.name:
            draft.rename(old, column.name, at=start)
        draft.change_type(column.name, column.type, at=start)
        draft.describe(column.name, column.comment)

    def _change_type(self, draft: TableDraft[SqlType]) -> None:
        cursor = self._cursor
        cursor.accept("column")
        start = cursor.token
        name = cursor.name("a column's name")
        if cursor.accept("type") or cursor.accept("set", "data", "type"):
            draft.change_type(name, read_type(cursor), at=start)

    def _drop_table(self) -> None:
        draft = self._known(*self._qualified())
        if draft is not None:
            del self._tables.by_name[draft.full_name]

    def _rename_table(self) -> None:
        draft = self._known(*self._qualified())
        self._cursor.expect("to")
        keyspace, name = self._qualified()
        if draft is not None:
            del self._tables.by_name[draft.full_name]
            draft.keyspace, draft.name = keyspace, name
            self._tables.by_name[draft.full_name] = draft
