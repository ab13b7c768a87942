"""PostgreSQL's tables as CREATE TABLE, for `init --from postgresql://…`: as `pg_dump --schema-only` writes columns and keys.

One query of the catalog tells of all tables; it reads no row and waits for no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import groupby

from cdc_producers.postgres.connections import connect, identifier, is_bare, rows
from cdc_views.schemas.live import SECONDS, Ddl, Described, is_wanted

_DOING = "reading its tables"
_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
       coalesce(array_position((SELECT (i.indkey::int2[])[0:i.indnkeyatts - 1] FROM pg_index i
                                WHERE i.indrelid = c.oid AND i.indisprimary), a.attnum), -1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY n.nspname, c.relname, a.attnum"""
"""Columns of all tables but partitions and those of extensions, with the place in the primary key; -1 outside it."""


def described(address: str, tables: Sequence[str]) -> Described:
    """See `Describe`; `postgresql://` alone: as the environment says."""
    with closing(connect(address="" if is_bare(address) else address)) as connection:
        # types outside pg_catalog get their schema's name, as in a dump
        rows(connection, "SELECT set_config('search_path', '', false)", doing=_DOING)
        rows(connection, f"SET statement_timeout = {round(SECONDS * 1000)}", doing=_DOING)
        ((version,),) = rows(connection, "SHOW server_version", doing=_DOING)
        found = rows(connection, _COLUMNS, doing=_DOING)
    statements, names = dict[str, str](), list[str]()
    for (namespace, name), columns in groupby(found, key=lambda row: (row[0], row[1])):
        names.append(f"{namespace}.{name}")
        if is_wanted(names[-1], tables):
            listed = [(column, kind, place) for _, _, column, kind, place in columns]
            statements[names[-1]] = _statement(namespace, name, listed)
    return Described(f"PostgreSQL {version.split()[0]}", "postgres", Ddl.POSTGRES, statements, names=names)


def _statement(namespace: str, name: str, columns: Sequence[tuple[str, str, int]]) -> str:
    lines = [f"    {identifier(column)} {kind}" for column, kind, _ in columns]
    key = [identifier(column) for place, column in sorted((place, column) for column, _, place in columns) if place >= 0]
    if key:
        lines.append(f"    PRIMARY KEY ({', '.join(key)})")
    body = ",\n".join(lines)
    return f"CREATE TABLE {identifier(namespace)}.{identifier(name)} (\n{body}\n);"
