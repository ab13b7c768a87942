"""Publications: creates, completes and checks them; a change that a publication leaves out is lost silently."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_producers.postgres.catalog import LeftOutError, PostgresTable
from cdc_producers.postgres.connections import identifier, rows
from cdc_views.landing.targets import ProducerLog

_INSERTS = "_inserts"
"""Suffix of the publication for tables whose changes name no row: any other would make them refuse UPDATE and DELETE."""
_LONGEST = 63
_KINDS = "insert, update, delete, truncate"
_INSERT_KINDS = "insert, truncate"
_PUBLICATION = """
SELECT puballtables, pubviaroot, pubinsert AND pubtruncate, pubupdate AND pubdelete FROM pg_publication WHERE pubname = %s"""
_TABLES = """
SELECT t.schemaname || '.' || t.tablename, {limits} FROM pg_publication_tables t
JOIN pg_publication p ON p.pubname = t.pubname
JOIN pg_namespace n ON n.nspname = t.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
WHERE t.pubname = %s"""
_LIMITS_SINCE = 150_000
"""The server version from which a publication may leave out columns and rows."""


@dataclass(frozen=True, slots=True)
class _Publication:
    """A publication, existing or to be created, and the tables that it must have.

    `inserts_alone`: their changes name no row, so it leaves out UPDATE and DELETE; otherwise the tables would refuse them.
    """

    name: str
    tables: list[PostgresTable]
    inserts_alone: bool = False

    def look(self, connection: Any) -> tuple[bool, list[PostgresTable]] | None:
        """Return whether it is for all tables, and the tables that it lacks; None if it does not exist.

        Raises `LeftOutError` if it leaves out kinds of changes, columns or rows, or publishes changes under other names.
        """
        found = rows(connection, _PUBLICATION, (self.name,), doing="looking for the publication")
        if not found:
            return None
        is_for_all, is_via_root, has_inserts, has_others = found[0]
        if not has_inserts or (not has_others and not self.inserts_alone):
            raise LeftOutError(
                f"publication {self.name} leaves out some of insert, update, delete and truncate; ALTER PUBLICATION "
                f"{identifier(self.name)} SET (publish = '{_INSERT_KINDS if self.inserts_alone else _KINDS}')",
                [table.full_name for table in self.tables],
            )
        has_limits = connection.info.server_version >= _LIMITS_SINCE
        limits = "r.prattrs IS NOT NULL, t.rowfilter IS NOT NULL" if has_limits else "false, false"
        listed = rows(connection, _TABLES.format(limits=limits), (self.name,), doing="reading the publication")
        limited = {table: (bool(columns), bool(filtered)) for table, columns, filtered in listed}
        for table in self.tables:
            self._check(table, limited.get(table.full_name, (False, False)), is_via_root=is_via_root)
        return is_for_all, [table for table in self.tables if table.full_name not in limited]

    def _check(self, table: PostgresTable, limited: tuple[bool, bool], *, is_via_root: bool) -> None:
        alter = f"ALTER PUBLICATION {identifier(self.name)}"
        if table.is_partitioned and not is_via_root:
            raise LeftOutError(
                f"{table.full_name}: publication {self.name} publishes its partitions' changes under their own names, and "
                f"they would be lost; {alter} SET (publish_via_partition_root = true)",
                [table.full_name],
            )
        if any(limited):
            what = " and ".join(what for what, lacks in zip(("some columns", "some rows"), limited, strict=True) if lacks)
            raise LeftOutError(
                f"{table.full_name}: publication {self.name} leaves out {what}; BEGIN; {alter} DROP TABLE "
                f"{table.sql_name}; {alter} ADD TABLE {table.sql_name}; COMMIT",
                [table.full_name],
            )

    def check_lost(self, missing: Sequence[PostgresTable], published: Collection[str]) -> None:
        gone = [table.full_name for table in missing if table.full_name in published]
        if gone:
            raise LeftOutError(f"publication {self.name} was dropped, or {', '.join(gone)} taken out of it; it is put back", gone)

    def ensure(self, connection: Any, published: Collection[str], log: ProducerLog) -> None:
        found = self.look(connection)
        is_for_all, missing = found or (False, self.tables)
        self.check_lost(missing, published)
        if not missing:
            return
        listed = ", ".join(table.sql_name for table in missing)
        if found is None:
            kinds = f"publish = '{_INSERT_KINDS}', " if self.inserts_alone else ""
            options = f"{kinds}publish_via_partition_root = true"
            text = f"CREATE PUBLICATION {identifier(self.name)} FOR TABLE {listed} WITH ({options})"
            rows(connection, text, doing=f"creating the publication (or have it done: {text})")
            log.info(f"publication {self.name} created", publication=self.name)
        elif not is_for_all:
            text = f"ALTER PUBLICATION {identifier(self.name)} ADD TABLE {listed}"
            rows(connection, text, doing=f"adding to the publication (or have it done: {text})")
            names = ", ".join(table.full_name for table in missing)
            log.info(f"publication {self.name}: added {names}", publication=self.name)
        _, missing = self.look(connection) or (False, [])
        for table in missing:
            raise LeftOutError(
                f"{table.full_name}: publication {self.name} publishes its changes under the name of the table it is a partition "
                "of, or not at all; name that one in the project file, or another publication with --publication",
                [table.full_name],
            )


def published_as(name: str) -> tuple[str, str]:
    """Return the names of the publications that a producer makes: of tables whose changes name their row, and of others."""
    return name, name[: _LONGEST - len(_INSERTS)] + _INSERTS


def _publications(name: str, tables: Sequence[PostgresTable]) -> list[_Publication]:
    named = _Publication(name, [table for table in tables if table.identity])
    unnamed = [table for table in tables if not table.identity]
    inserts = _Publication(published_as(name)[1], unnamed, inserts_alone=True)
    return [publication for publication in (named, inserts) if publication.tables]


def check_publications(connection: Any, name: str, tables: Sequence[PostgresTable]) -> None:
    """Raise `LeftOutError` if a publication lacks tables or changes by now."""
    for publication in _publications(name, tables):
        _, missing = publication.look(connection) or (False, publication.tables)
        publication.check_lost(missing, {table.full_name for table in publication.tables})


def ensure_publications(
    connection: Any, name: str, tables: Sequence[PostgresTable], *, published: Collection[str] = (), log: ProducerLog
) -> list[str]:
    """Create the publications of the tables, or add missing tables; return the publications' names.

    `published` names tables that have landed in their present form: if one is no longer published, changes are missing. Raises
    `LeftOutError` if an existing publication lacks something or lost a table, `UsageError` if the tables cannot be published.
    """
    publications = _publications(name, tables)
    for publication in publications:
        publication.ensure(connection, published, log)
    return [publication.name for publication in publications]
