"""What the server's catalog says: types, tables and their keys, the publication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_producers.postgres.connections import identifier, rows
from cdc_producers.postgres.values import TypeFacts
from cdc_views.errors import UsageError, did_you_mean
from cdc_views.landing.targets import ProducerLog
from cdc_views.schema import TableSchema


class Types(Mapping[int, TypeFacts]):
    """The server's types; asked for again when one turns up that was not there."""

    def __init__(self, connection: Any) -> None:
        """Read them all."""
        self._connection = connection
        self._known: dict[int, TypeFacts] = {}
        self._missing: set[int] = set()
        self._load()

    def _load(self) -> None:
        # an array is what pg_type's typarray of its element names; oidvector and name have elements, too
        text = (
            "SELECT t.oid, t.typtype::text, CASE WHEN e.typarray = t.oid THEN e.oid ELSE 0 END, t.typbasetype, "
            "coalesce(e.typdelim, t.typdelim)::text FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem"
        )
        found = rows(self._connection, text, doing="reading its types")
        self._known = {number: TypeFacts(*facts) for number, *facts in found}

    def __getitem__(self, number: int) -> TypeFacts:
        if number not in self._known and number not in self._missing:
            self._load()
            self._missing |= {number} - self._known.keys()
        return self._known[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a table as it is now; `number` grows from column to column and is never used again."""

    number: int
    name: str
    type_id: int
    modifier: int


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as it is now.

    Attributes:
        number: Another one than before where the table was dropped and made anew.
        identity: The columns by which deletions name a row, none for no way to.
        has_dropped: Whether a column was ever dropped.
    """

    number: int
    namespace: str
    name: str
    columns: tuple[SourceColumn, ...]
    primary_key: tuple[str, ...]
    identity: frozenset[str]
    about_rows: int
    has_dropped: bool = False

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.namespace}.{self.name}"

    @property
    def sql_name(self) -> str:
        """The name as SQL writes it."""
        return f"{identifier(self.namespace)}.{identifier(self.name)}"


_TABLE = """
SELECT c.oid::bigint, c.relreplident::text, greatest(c.reltuples, 0)::bigint,
       EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attisdropped),
       coalesce((SELECT i.indkey::int2[] FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), '{}'),
       coalesce((SELECT i.indkey::int2[] FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident), '{}')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')"""
_COLUMNS = """
SELECT attnum, attname, atttypid::bigint, atttypmod FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""


def source_name(table: str) -> tuple[str, str]:
    """Return (schema, table) of a name of the project file: `schema.table` or `database.schema.table`."""
    *outer, name = table.split(".")
    if not outer:
        raise UsageError(f"{table}: schema.table was expected, as public.orders")
    return outer[-1], name


def read_table(connection: Any, table: str) -> SourceTable:
    """Return the table of that name of the project file; raises `UsageError` where the database has none."""
    namespace, name = source_name(table)
    found = rows(connection, _TABLE, (namespace, name), doing=f"looking for {table}")
    if not found:
        known = rows(connection, "SELECT schemaname || '.' || tablename FROM pg_tables", doing="listing tables")
        names = [row[0] for row in known if not row[0].startswith(("pg_catalog.", "information_schema."))]
        raise UsageError(f"{table}: the database has no such table{did_you_mean(table, names)}")
    number, identity, about, has_dropped, primary, chosen = found[0]
    attributes = rows(connection, _COLUMNS, (number,), doing=f"reading the columns of {table}")
    named = {attribute: column for attribute, column, *_ in attributes}
    columns = [SourceColumn(*column) for column in attributes]
    key = tuple(named[attribute] for attribute in primary)
    by = {"d": key, "i": tuple(named[a] for a in chosen), "f": tuple(named.values())}.get(identity, ())
    return SourceTable(number, namespace, name, tuple(columns), key, frozenset(by), about, has_dropped)


def check_key(table: SourceTable, schema: TableSchema, *, allows_unkeyed: bool) -> None:
    """Refuse a table whose deletions would not name the rows of the view."""
    wanted = [column.name for column in schema.row_key]
    missing = [name for name in wanted if name not in table.identity]
    if allows_unkeyed or not missing:
        return
    if not table.identity:
        raise UsageError(
            f"{schema.full_name} has no primary key, and once published it would refuse UPDATE and DELETE; give it one, or "
            f"ALTER TABLE {table.sql_name} REPLICA IDENTITY FULL, or take its inserts alone with --allow-unkeyed"
        )
    raise UsageError(
        f"{schema.full_name}: the schema file's key has {', '.join(missing)}, which the table's changes do not name (its replica "
        f"identity is {', '.join(sorted(table.identity))}); make the keys equal, or "
        f"ALTER TABLE {table.sql_name} REPLICA IDENTITY FULL"
    )


_PUBLICATION = "SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s"


def ensure_publication(connection: Any, name: str, tables: Sequence[SourceTable], *, log: ProducerLog) -> None:
    """Create the publication, or add to it what it lacks; raises `UsageError` where it leaves kinds of changes out."""
    found = rows(connection, _PUBLICATION, (name,), doing="looking for the publication")
    named = ", ".join(table.sql_name for table in tables)
    if not found:
        text = f"CREATE PUBLICATION {identifier(name)} FOR TABLE {named} WITH (publish_via_partition_root = true)"
        rows(connection, text, doing=f"creating the publication (or have it done: {text})")
        log.info(f"publication {name} created", publication=name)
        return
    is_for_all, is_whole = found[0]
    if not is_whole:
        raise UsageError(
            f"publication {name} leaves out some of insert, update, delete and truncate; "
            f"ALTER PUBLICATION {identifier(name)} SET (publish = 'insert, update, delete, truncate')"
        )
    if is_for_all:
        return
    text = "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s"
    published = {row[0] for row in rows(connection, text, (name,), doing="reading the publication")}
    missing = [table for table in tables if table.full_name not in published]
    if missing:
        text = f"ALTER PUBLICATION {identifier(name)} ADD TABLE {', '.join(table.sql_name for table in missing)}"
        rows(connection, text, doing=f"adding to the publication (or have it done: {text})")
        log.info(f"publication {name}: added {', '.join(table.full_name for table in missing)}", publication=name)
