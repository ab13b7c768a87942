"""Connections to PostgreSQL: addresses from the environment only, fixed formats of values, errors without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from typing import Any

import psycopg
from psycopg import conninfo, sql

from cdc_views.errors import CdcViewsError, EngineError, TransientError, UsageError

_DSN_VARIABLE = "CDC_VIEWS_POSTGRES_DSN"
CONNECTING = "connecting"
_HINT = " Is the server running "
"""The beginning of libpq's advice, which is of one server and of TCP alone."""
_SETTINGS = {
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # a policy hides rows silently; with "off" it raises an error
    "row_security": "off",
}
_WRONG_CREDENTIALS = ("28000", "28P01")
_REFUSED = re.compile(
    r'authentication failed|no pg_hba\.conf entry|no password|role ".*" does not exist|not permitted to log in|start WAL sender|'
    r"does not support SSL|certificate|private key file|sslmode"
)
"""Parts of the server's English messages when it refuses a connection; such errors have no code."""
_LASTING = ("0A", "22", "25", "3F", "42")
"""Classes of errors that every attempt repeats: features, values, read-only sessions, schemas, rights and syntax."""
_LASTING_CODES = ("53400",)
"""All slots or all senders are taken: `max_replication_slots`, `max_wal_senders`."""
_UNDEFINED = ("42P01", "42703", "42704")
"""An object has just disappeared: the next attempt looks for it again, and names what is missing."""
_SHUTTING_DOWN = ("57P01", "57P02", "57P03", "53300", "55006")
"""Problems that pass: stopping, starting or recovering, no connection left, an object in use."""


def connect(*, is_replication: bool = False, address: str = "") -> psycopg.Connection[Any]:
    """Return a connection from `address` (a DSN), else `CDC_VIEWS_POSTGRES_DSN`, else libpq's `PG…` variables; each statement
    commits.

    The client puts values into statements, as literals without a type: they take the type of their column. Raises `UsageError`
    for an invalid DSN or refused credentials, and `TransientError` if the server cannot be reached now.
    """
    options: dict[str, Any] = {"application_name": "cdc-views", "connect_timeout": 10, "keepalives_idle": 30}
    if is_replication:
        options["replication"] = "database"
    dsn = _checked(address, "the source's address") if address else _dsn()
    with postgres_errors(CONNECTING):
        connection = psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.ClientCursor, **options)
        for name, value in _SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'")
    return connection


def is_bare(address: str) -> bool:
    """Whether an address names no server, as `postgresql://`: the environment does then."""
    return not address.partition("://")[2].strip("/")


def _dsn() -> str:
    return _checked(os.environ.get(_DSN_VARIABLE) or "", _DSN_VARIABLE)


def _checked(dsn: str, what: str) -> str:
    try:
        conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # psycopg's message would quote the DSN
        raise UsageError(f"{what} is no connection string; postgresql://user@host/database was expected") from None
    return dsn


@contextmanager
def postgres_errors(doing: str) -> Iterator[None]:
    """Turn psycopg's errors into this project's; an error that may pass becomes a `TransientError`."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(doing, error) from error


def refusal(doing: str, said: str, code: str) -> UsageError | None:
    """Return the error if every attempt would fail alike, else None; `code` is the SQLSTATE, empty if there is none."""
    if code in _WRONG_CREDENTIALS or (not code and _REFUSED.search(said)):
        return UsageError(f"PostgreSQL refuses this user: {said}; set PGUSER and PGPASSWORD, or {_DSN_VARIABLE}")
    if code == "3D000" or ("does not exist" in said and not code and "database" in said):
        return UsageError(f"PostgreSQL: {said}; set PGDATABASE, or {_DSN_VARIABLE}")
    if code == "42501" and "row-level security" in said:
        return UsageError(f"PostgreSQL, {doing}: {said}, and would hide rows; ALTER ROLE {_user()} BYPASSRLS")
    if code == "42501":
        return UsageError(f"PostgreSQL, {doing}: {said}; grant this user REPLICATION, SELECT on the tables, and what this names")
    if code in _LASTING_CODES or (code[:2] in _LASTING and code not in _UNDEFINED):
        return UsageError(f"PostgreSQL, {doing}: {said}")
    return None


def _translated(doing: str, error: psycopg.Error) -> CdcViewsError:
    said = " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__
    code = error.sqlstate or ""
    if (refused := refusal(doing, said, code)) is not None:
        return refused
    is_away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or code[:2] in ("08", "57", "53")
    if is_away or code in _SHUTTING_DOWN or type(error) is psycopg.DatabaseError:
        advice = "; is it up, and is its address right?" if doing == CONNECTING else ""
        return TransientError(f"PostgreSQL is away, {doing}: {said.split(_HINT)[0]}{advice}")
    return EngineError(f"PostgreSQL, {doing}: {said}")


def _user() -> str:
    given = str(conninfo.conninfo_to_dict(_dsn()).get("user") or os.environ.get("PGUSER") or getuser())
    return given if given.isidentifier() and given == given.lower() else identifier(given)


def rows(
    connection: psycopg.Connection[Any], text: str, values: tuple[Any, ...] | None = None, *, doing: str
) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows, if it has any."""
    with postgres_errors(doing), connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []


LOG_END = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
"""The end of a server's log; of a standby's, of what it has replayed, and so shows."""


def current_lsn(connection: Any) -> int:
    """Return the LSN up to which the server's log is written, and a standby's replayed."""
    ((found,),) = rows(connection, f"SELECT pg_wal_lsn_diff({LOG_END}, '0/0')::bigint", doing="asking its LSN")
    return int(found)


def identifier(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(connection: Any, value: object) -> str:
    """Return a text as an SQL literal without a type: it takes the type of its column."""
    return sql.Literal(value).as_string(connection)


def lsn_number(text: str) -> int:
    """Return an LSN as a number: `0/16B3748` is 23803720."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(number: int) -> str:
    """Return an LSN in PostgreSQL's own form."""
    return f"{number >> 32:X}/{number & 0xFFFF_FFFF:X}"
