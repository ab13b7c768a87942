"""The server's settings and its catalog; refuses an unsuitable set-up before anything is read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_producers.binlog.connections import identifier, literal, rows
from cdc_views.errors import UsageError, did_you_mean
from cdc_views.landing.targets import ProducerLog
from cdc_views.model.schema import TableSchema

SYSTEM_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")
"""The databases of the server itself."""
_FULL_IMAGES = ("FULL", "FULL_NODUP")


@dataclass(frozen=True, slots=True)
class Server:
    """The settings of a server that matter here.

    `identity` tells it from other servers; `logs_cascades`: the log has the rows that foreign keys change.
    """

    row_image: str
    ignores_case: bool
    identity: str
    asks_end_by: str = "SHOW MASTER STATUS"
    logs_cascades: bool = False

    @property
    def has_full_images(self) -> bool:
        """Whether the log has every column of a row that changed."""
        return self.row_image in _FULL_IMAGES


def read_variables(connection: Any, variables: Sequence[str]) -> dict[str, str]:
    """Return the server's global variables, those that it knows."""
    names = ", ".join(literal(name) for name in variables)
    asked = f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})"
    return {str(name).lower(): str(value) for name, value in rows(connection, asked, doing="asking for its settings")}


def check_variables(found: Mapping[str, str], expected: Mapping[str, tuple[str, str]]) -> None:
    """Raise `UsageError` for the first variable that has another value than expected; the second text says what to do."""
    for name, (value, what) in expected.items():
        if found.get(name, "").upper() != value:
            raise UsageError(f"{name} is {found.get(name) or 'unknown'} where {value} was expected: {what}")


def row_image(found: Mapping[str, str], *, log: ProducerLog) -> str:
    """Return `binlog_row_image`; warn if it is not a full one."""
    image = found.get("binlog_row_image", "FULL").upper()
    if image not in _FULL_IMAGES:
        log.warning(
            f"binlog_row_image is {image}: what an INSERT leaves to its default has no value in the view; FULL has it",
            binlog_row_image=image,
        )
    return image


def check_filters(connection: Any, databases: Iterable[str], *, asked: str) -> None:
    """Raise `UsageError` if the server's filters keep a database out of its binlog."""
    found = rows(connection, asked, doing=f"asking for its binlog ({connection.flavour.grants})")
    if not found:
        raise UsageError("the server writes no binlog; set log_bin in its configuration and restart it")
    _, _, only, ignored = (str(part or "") for part in found[0][:4])
    for database in databases:
        if database in ignored.split(",") or (only and database not in only.split(",")):
            raise UsageError(f"{database} is kept out of the binlog by binlog_do_db or binlog_ignore_db; remove that filter")


@dataclass(frozen=True, slots=True)
class BinlogColumn:
    """A column in the present catalog: `type` is `varchar`, `full_type` is `varchar(20)`; `charset` is empty for bytes."""

    name: str
    type: str
    full_type: str
    charset: str = ""


@dataclass(frozen=True, slots=True)
class BinlogTable:
    """A table as it is now; `unique` has the keys that name one row each, the primary key first."""

    database: str
    name: str
    engine: str
    columns: tuple[BinlogColumn, ...]
    primary_key: tuple[str, ...]
    unique: tuple[frozenset[str], ...]
    about_rows: int

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"

    @property
    def types(self) -> dict[str, str]:
        """The catalog's name of each column's type."""
        return {column.name: column.type for column in self.columns}


def source_name(table: str) -> tuple[str, str]:
    """Return (database, table) of a table's name in the project file."""
    database, _, name = table.partition(".")
    if not name:
        raise UsageError(f"{table}: database.table was expected, as shop.orders")
    return database, name


def read_table(connection: Any, table: str) -> BinlogTable:
    """Return the table with this name from the project file; raises `UsageError` if the server shows none."""
    database, name = source_name(table)
    asked = "SELECT engine, coalesce(table_rows, 0), table_type FROM information_schema.tables WHERE "
    found = rows(connection, asked + _named(table), doing=f"looking for {table}")
    if not found or "TABLE" not in str(found[0][2]) or str(found[0][2]) == "SYSTEM VIEW":
        asked = "SELECT concat(table_schema, '.', table_name), table_schema FROM information_schema.tables LIMIT 10000"
        names = [
            str(name) for name, schema in rows(connection, asked, doing="listing tables") if str(schema) not in SYSTEM_DATABASES
        ]
        meant, grants = did_you_mean(table, names), connection.flavour.grants
        raise UsageError(f"{table}: the server has no such table, or this user may not SELECT from it{meant} ({grants})")
    columns = read_columns(connection, table)
    primary, unique = _keys(connection, table)
    return BinlogTable(database, name, str(found[0][0]), columns, primary, unique, int(found[0][1]))


def read_columns(connection: Any, table: str) -> tuple[BinlogColumn, ...]:
    """Return a table's columns as they are now; none if the table is gone."""
    asked = "SELECT column_name, data_type, column_type, character_set_name FROM information_schema.columns WHERE "
    found = rows(connection, f"{asked}{_named(table)} ORDER BY ordinal_position", doing=f"reading the columns of {table}")
    return tuple(BinlogColumn(str(c), str(t).lower(), str(full), str(charset or "")) for c, t, full, charset in found)


def _named(table: str) -> str:
    database, name = source_name(table)
    return f"table_schema = {literal(database)} AND table_name = {literal(name)}"


def _keys(connection: Any, table: str) -> tuple[tuple[str, ...], tuple[frozenset[str], ...]]:
    asked = (
        "SELECT index_name, column_name, coalesce(sub_part, 0), nullable FROM information_schema.statistics WHERE "
        f"{_named(table)} AND non_unique = 0 ORDER BY index_name = 'PRIMARY' DESC, index_name, seq_in_index"
    )
    parts: dict[str, list[str]] = defaultdict(list)
    unfit = set()
    for index, column, prefix, nullable in rows(connection, asked, doing=f"reading the keys of {table}"):
        parts[str(index)].append(str(column))
        # an expression is no column
        if column is None or int(prefix) or str(nullable).upper() == "YES":
            unfit.add(str(index))
    fitting = tuple(frozenset(columns) for index, columns in parts.items() if index not in unfit)
    return tuple(parts.get("PRIMARY", ())), fitting


def check_table(table: BinlogTable, schema: TableSchema, server: Server, *, allows_unkeyed: bool) -> None:
    """Refuse a table whose changes do not name the rows of the view."""
    wanted = {column.name for column in schema.row_key}
    if missing := sorted(wanted - table.types.keys()):
        raise UsageError(f"{schema.full_name}: the table has no column {', '.join(missing)}, which is the schema file's key")
    if allows_unkeyed:
        return
    if not any(key <= wanted for key in table.unique):
        raise UsageError(
            f"{schema.full_name}: {', '.join(sorted(wanted))}, the schema file's key, does not name one row of the table; "
            "give it a primary key, or a UNIQUE one of NOT NULL columns, and the schema file the same; or let rows of one key "
            "become one with --allow-unkeyed"
        )
    if not server.has_full_images and not wanted <= set(table.primary_key):
        raise UsageError(
            f"{schema.full_name}: with binlog_row_image = {server.row_image} changes name rows by the primary key, and the "
            f"schema file's is {', '.join(sorted(wanted))}; make them equal, or SET GLOBAL binlog_row_image = 'FULL'"
        )


def read_collations(connection: Any) -> Mapping[int, str]:
    """Return the character set of each collation, by the collation's number."""
    ask = "SELECT id, character_set_name FROM information_schema.{} WHERE id IS NOT NULL AND character_set_name IS NOT NULL"
    columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'information_schema' AND "
    columns += "table_name = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND column_name = 'ID'"
    # from 10.10 on, only this table lists the newer collations
    ((has_ids,),) = rows(connection, columns, doing="asking for its collations")
    table = "collation_character_set_applicability" if int(has_ids) else "collations"
    found = rows(connection, ask.format(table), doing="asking for its collations")
    return {int(number): str(charset) for number, charset in found}


_CASCADING = re.compile(
    r"CONSTRAINT `((?:[^`]|``)*)` FOREIGN KEY [^\n]*?\bON (?:DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)\b", re.IGNORECASE
)


def warn_of_cascades(connection: Any, table: BinlogTable, *, log: ProducerLog) -> None:
    """Warn if InnoDB's foreign keys change rows of a table without a trace in the binlog."""
    # information_schema hides constraints from a user who may only SELECT
    asked = f"SHOW CREATE TABLE {identifier(table.database)}.{identifier(table.name)}"
    ((_, text, *_),) = rows(connection, asked, doing=f"reading the foreign keys of {table.full_name}")
    for name, rule in _CASCADING.findall(str(text)):
        log.warning(
            f"{table.full_name}: foreign key {name} changes rows by itself ({rule.upper()}), and InnoDB writes nothing of that "
            "into the binlog: the view keeps them as they were",
            table=table.full_name,
        )
