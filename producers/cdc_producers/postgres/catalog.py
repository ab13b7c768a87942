"""The server's catalog: types, tables and their keys. Refuses a table whose changes would be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc_producers.postgres.connections import identifier, rows
from cdc_producers.postgres.values import TypeCatalog, TypeFacts
from cdc_views.errors import UsageError, did_you_mean
from cdc_views.model.schema import TableSchema


class MissingTableError(UsageError):
    """The database has no table of that name."""


class LeftOutError(UsageError):
    """The log or the publication lacks changes of `tables` (`schema.table`); the message says how to mend that from now on."""

    def __init__(self, message: str, tables: Sequence[str]) -> None:
        super().__init__(message)
        self.tables = tuple(tables)


def type_catalog(connection: Any) -> TypeCatalog:
    """Return a look-up of the server's types by oid; for an unknown oid it asks the server again."""
    # only `typarray` identifies an array: oidvector and name have an element type, too
    text = (
        "SELECT t.oid, t.typtype::text, CASE WHEN e.typarray = t.oid THEN e.oid ELSE 0 END, t.typbasetype, "
        "coalesce(e.typdelim, t.typdelim)::text FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem"
    )
    known: dict[int, TypeFacts | None] = {}

    def look(number: int) -> TypeFacts | None:
        if number not in known:
            found = rows(connection, text, doing="reading its types")
            known.update({each: TypeFacts(*facts) for each, *facts in found})
        return known.setdefault(number, None)

    return look


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column as it is now; `number` is never reused, `written` is the transaction that last wrote its row of the catalog."""

    number: int
    name: str
    type_id: int
    modifier: int
    written: int = 0


@dataclass(frozen=True, slots=True)
class Storage:
    """A relation (oid `number`) that keeps rows of a table: the table itself, or a partition that is not partitioned further.

    Attributes:
        name: `schema.table`; `sql_name` is the same in SQL's form.
        file: Its `relfilenode`, which changes when the relation is emptied or rewritten.
        is_fresh: Whether nobody has counted its rows since its file was made: a rewrite counts them, TRUNCATE does not.
        identity: The columns by which its UPDATEs and DELETEs name a row; empty if they name none.
        attached: The transaction that made it a partition; 0 if it is no partition.
    """

    number: int
    name: str
    sql_name: str
    file: int
    is_fresh: bool
    identity: frozenset[str]
    attached: int = 0


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table as it is now.

    Attributes:
        number: Its oid; a table that is dropped and created again has another one.
        has_deferred_key: Whether its primary key is DEFERRABLE; such a key names no row in the log.
        has_dropped: Whether a column was ever dropped.
        storages: The relations that keep its rows; none if it is partitioned and has no partition yet.
        generated: Names of generated columns, which are neither in the log nor in `columns`.
        heirs: Tables that INHERIT from it without being partitions; their rows are not its own.
    """

    number: int
    namespace: str
    name: str
    columns: tuple[PostgresColumn, ...]
    primary_key: tuple[str, ...]
    identity: frozenset[str]
    about_rows: int
    has_dropped: bool = False
    is_partitioned: bool = False
    has_deferred_key: bool = False
    storages: tuple[Storage, ...] = ()
    heirs: tuple[str, ...] = ()
    generated: frozenset[str] = frozenset()

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.namespace}.{self.name}"

    @property
    def sql_name(self) -> str:
        """The name in SQL's form."""
        return f"{identifier(self.namespace)}.{identifier(self.name)}"

    @property
    def sql_rows(self) -> str:
        """The FROM of a SELECT of its own rows; the log has changes of inheriting tables under their own names."""
        return self.sql_name if self.is_partitioned else f"ONLY {self.sql_name}"


_TABLE = """
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, greatest(c.reltuples, 0)::bigint,
       EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attisdropped),
       coalesce((SELECT (i.indkey::int2[])[0:i.indnkeyatts - 1] FROM pg_index i
                 WHERE i.indrelid = c.oid AND i.indisprimary), '{}'),
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND NOT i.indimmediate),
       ARRAY(SELECT h.inhrelid::regclass::text FROM pg_inherits h WHERE h.inhparent = c.oid AND c.relkind = 'r' ORDER BY 1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind NOT IN ('i', 'I', 'c', 'S', 't')"""
_COLUMNS = """
SELECT attgenerated <> '', attnum, attname, atttypid::bigint, atttypmod, xmin::text::bigint FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_STORAGES = """
SELECT c.oid::bigint, n.nspname || '.' || c.relname, format('%%I.%%I', n.nspname, c.relname), c.relkind::text,
       c.relpersistence::text, c.relfilenode::bigint, c.reltuples < 0,
       CASE WHEN c.relreplident = 'f'
            THEN ARRAY(SELECT a.attname::text FROM pg_attribute a
                       WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')
            ELSE ARRAY(SELECT a.attname::text FROM pg_index i
                       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
                       WHERE i.indrelid = c.oid AND i.indisvalid AND i.indisunique AND i.indimmediate AND i.indpred IS NULL
                         AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END)
       END,
       coalesce((SELECT h.xmin::text::bigint FROM pg_inherits h WHERE h.inhrelid = c.oid AND c.relispartition), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid IN (SELECT t.relid FROM pg_partition_tree(%s::oid) t WHERE t.isleaf UNION SELECT %s::oid) ORDER BY c.oid"""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


def source_name(table: str) -> tuple[str, str]:
    """Return (schema, table) of a table's name in the project file: `schema.table` or `database.schema.table`."""
    *outer, name = table.split(".")
    if not outer:
        raise UsageError(f"{table}: schema.table was expected, as public.orders")
    return outer[-1], name


def read_table(connection: Any, table: str) -> PostgresTable:
    """Return the table with this name from the project file; raises `MissingTableError` if the database has none.

    Raises `LeftOutError` if the log has no changes of it, or of a part of it: a view, a foreign table, one that is not logged.
    """
    namespace, name = source_name(table)
    found = rows(connection, _TABLE, (namespace, name), doing=f"looking for {table}")
    if not found:
        known = rows(connection, "SELECT schemaname || '.' || tablename FROM pg_tables", doing="listing tables")
        names = [row[0] for row in known if not row[0].startswith(("pg_catalog.", "information_schema."))]
        raise MissingTableError(f"{table}: the database has no such table{did_you_mean(table, names)}")
    number, kind, persistence, about, has_dropped, primary, has_deferred_key, heirs = found[0]
    _check_logged(table, "", f"{identifier(namespace)}.{identifier(name)}", kind, persistence)
    attributes = rows(connection, _COLUMNS, (number,), doing=f"reading the columns of {table}")
    named = {attribute: column for _, attribute, column, *_ in attributes}
    storages, identity = _read_storages(connection, table, number)
    return PostgresTable(
        number,
        namespace,
        name,
        tuple(PostgresColumn(*column) for is_generated, *column in attributes if not is_generated),
        tuple(named[attribute] for attribute in primary),
        identity,
        about,
        has_dropped=has_dropped,
        is_partitioned=kind == "p",
        has_deferred_key=has_deferred_key,
        storages=storages,
        heirs=tuple(heirs),
        generated=frozenset(column for is_generated, _, column, *_ in attributes if is_generated),
    )


def _read_storages(connection: Any, table: str, number: int) -> tuple[tuple[Storage, ...], frozenset[str]]:
    """Return the relations that keep the table's rows, and the columns that name a row in all of them."""
    found: list[Storage] = []
    own = frozenset[str]()
    parts = rows(connection, _STORAGES, (number, number), doing=f"reading the partitions of {table}")
    for part, name, sql_name, kind, persistence, file, is_fresh, identity, attached in parts:
        if kind == "p":
            own = frozenset(identity)
            continue
        _check_logged(table, name, sql_name, kind, persistence)
        found.append(Storage(part, name, sql_name, file, is_fresh, frozenset(identity), attached))
    common = frozenset.intersection(*(storage.identity for storage in found)) if found else own
    return tuple(found), common


def _check_logged(table: str, name: str, sql_name: str, kind: str, persistence: str) -> None:
    what = f"{table}: its partition {name}" if name else table
    problem = ""
    if kind in _KINDS:
        problem = f"{_KINDS[kind]}: this server's log has no changes of it; follow the tables that have its rows"
    elif persistence == "u":
        problem = f"UNLOGGED: no change of it is in the log; ALTER TABLE {sql_name} SET LOGGED"
    elif persistence == "t":
        problem = "TEMPORARY: no change of it is in the log; follow a table that stays"
    if problem:
        raise LeftOutError(f"{what} is {problem}", [".".join(source_name(table))])


def check_key(table: PostgresTable, schema: TableSchema, *, allows_unkeyed: bool) -> None:
    """Refuse a table whose deletions do not name the view's rows, or that would refuse deletions once it is published."""
    wanted = [column.name for column in schema.row_key]
    missing = [name for name in wanted if name not in table.identity]
    if allows_unkeyed or not missing:
        return
    weak = next((storage for storage in table.storages if not storage.identity >= set(wanted)), None)
    full = f"ALTER TABLE {table.sql_name if weak is None else weak.sql_name} REPLICA IDENTITY FULL"
    part = "" if weak is None or not table.is_partitioned else f": its partition {weak.name}"
    identity = table.identity if weak is None else weak.identity
    if not identity:
        raise UsageError(
            f"{schema.full_name}{part} {_unnamed(table)}, and once published it would refuse UPDATE and DELETE; give it one that "
            f"names a row, or {full}, or take its inserts alone with --allow-unkeyed"
        )
    raise UsageError(
        f"{schema.full_name}{part}: the schema file's key has {', '.join(missing)}, which the table's changes do not name (its "
        f"replica identity is {', '.join(sorted(identity))}); make the keys equal, or {full}"
    )


def _unnamed(table: PostgresTable) -> str:
    if not table.primary_key:
        return "has no primary key"
    return "has a DEFERRABLE primary key" if table.has_deferred_key else "has REPLICA IDENTITY NOTHING, or an index that is gone"
