"""MySQL's and MariaDB's tables by SHOW CREATE TABLE, for `init --from mysql://…`: columns and keys as the server writes them.

What follows the columns is left out: it changes by itself (AUTO_INCREMENT), and may hold a password (CONNECTION of a table
that is FEDERATED).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any
from urllib.parse import unquote, urlsplit

from cdc_producers.binlog.catalog import SYSTEM_DATABASES
from cdc_producers.binlog.connections import Access, Flavour, connect, identifier, literal, rows, version_of
from cdc_producers.binlog.verifying import access_of
from cdc_views.errors import EngineError
from cdc_views.schemas.live import SECONDS, Ddl, Described, is_wanted

_DOING = "reading its tables"


def described(address: str, tables: Sequence[str], *, flavour: Flavour) -> Described:
    """See `Describe`: `mysql://HOST/DATABASE`, or without a database for those of all but the server's own."""
    access: Access = access_of(address, flavour)
    database = unquote(urlsplit(address).path.strip("/"))
    with closing(connect(access, read_timeout=SECONDS)) as connection:
        rows(connection, "SET SESSION sql_quote_show_create = 1", doing=_DOING)
        names = [(schema, name) for schema, name in _names(connection) if database in ("", schema)]
        wanted = [(schema, name) for schema, name in names if is_wanted(f"{schema}.{name}", tables)]
        statements = {f"{schema}.{name}": _statement(connection, schema, name) for schema, name in wanted}
        version = version_of(connection).partition("-")[0]
    return Described(
        f"{flavour.name} {version}", flavour.connector, Ddl.MYSQL, statements, names=[".".join(both) for both in names]
    )


def _names(connection: Any) -> list[tuple[str, str]]:
    # MariaDB's tables WITH SYSTEM VERSIONING are of a type of their own; sequences and views are no tables
    system = ", ".join(map(literal, SYSTEM_DATABASES))
    asked = (
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') "
        f"AND table_schema NOT IN ({system}) ORDER BY table_schema, table_name"
    )
    return [(str(schema), str(name)) for schema, name in rows(connection, asked, doing=_DOING)]


def _statement(connection: Any, database: str, name: str) -> str:
    asked = f"SHOW CREATE TABLE {identifier(database)}.{identifier(name)}"
    ((_, text, *_),) = rows(connection, asked, doing=f"reading {database}.{name}")
    lines = str(text).split("\n")
    # columns and keys have a line each, which begins with a space
    end = next((number for number, line in enumerate(lines) if line.startswith(")")), None)
    if end is None:
        raise EngineError(f"{database}.{name}: SHOW CREATE TABLE gave no list of columns")
    return "\n".join([f"USE {identifier(database)};", *lines[:end], ");"])
