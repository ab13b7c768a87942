"""Connections to a server: addresses from the environment only, fixed formats of values, errors without secrets."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql
from pymysql.constants import CR, ER
from pymysql.converters import conversions

from cdc_producers.tls import tls_of_environment
from cdc_views.errors import CdcViewsError, EngineError, TransientError, UsageError

DEFAULT_PORT = 3306
_CONNECT_WITHIN = 10
_ENCODERS = {kind: encode for kind, encode in conversions.items() if not isinstance(kind, int)}
"""No decoders: values come as the server prints them."""
_REFUSED = (ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.HOST_NOT_PRIVILEGED, 1698)
_DENIED = (ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)
_PASSING = (
    ER.CON_COUNT_ERROR, ER.SERVER_SHUTDOWN, ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.QUERY_INTERRUPTED,
    1927,
)  # fmt: skip
_LASTING = (
    ER.UNKNOWN_SYSTEM_VARIABLE, ER.PARSE_ERROR, ER.NOT_SUPPORTED_YET, ER.UNKNOWN_CHARACTER_SET, ER.BAD_DB_ERROR, 1524, 1275,
)  # fmt: skip
"""Errors that every attempt repeats: something unknown to the server; the last two: a way to sign in that either side lacks."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """What tells one kind of server from another that has the same protocol.

    Attributes:
        name: As people write it.
        connector: As Debezium names its connector.
        prefix: Of the environment's variables.
        settings: The statement that sets up a session.
        grants: What the user needs.
        check: Called on each new connection, before anything that only this flavour knows; raises `UnsupportedError`.
    """

    name: str
    connector: str
    prefix: str
    settings: str
    grants: str
    check: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Access:
    """The server's address and the user, from the environment; of several hosts, the first that answers is read."""

    flavour: Flavour
    hosts: tuple[tuple[str, int], ...]
    user: str
    password: str = field(repr=False)
    tls: ssl.SSLContext | None = None

    @classmethod
    def of_environment(cls, flavour: Flavour) -> Access:
        """Read `CDC_VIEWS_MYSQL_…` or `CDC_VIEWS_MARIADB_…`; raises `UsageError` for invalid values."""
        given = _Given(flavour.prefix)
        port = given.port(given("PORT") or str(DEFAULT_PORT))
        names = [part.strip() for part in (given("HOST") or "127.0.0.1").split(",") if part.strip()]
        hosts = tuple(given.host(name, port) for name in names)
        if not hosts:
            raise UsageError(f"{given.prefix}HOST names no host; db.example or db1:3306,db2:3306 was expected")
        return cls(flavour, hosts, given("USER") or "cdc_views", given("PASSWORD"), tls_of_environment(flavour.prefix))

    def turned(self) -> Access:
        """Return the same access, but with the first host last."""
        return replace(self, hosts=(*self.hosts[1:], self.hosts[0]))


@dataclass(frozen=True, slots=True)
class _Given:
    """The environment's variables that begin with `prefix`."""

    prefix: str

    def __call__(self, name: str) -> str:
        return os.environ.get(self.prefix + name) or ""

    def port(self, text: str) -> int:
        if not text.isdecimal() or not 0 < int(text) < 1 << 16:
            raise UsageError(f"{self.prefix}PORT is {text!r}; a port's number was expected")
        return int(text)

    def host(self, text: str, port: int) -> tuple[str, int]:
        if text.startswith("["):  # [::1]:3306
            name, _, rest = text[1:].partition("]")
            return name, self.port(rest[1:]) if rest else port
        name, colon, number = text.partition(":")
        return (name, self.port(number)) if colon and ":" not in number else (text, port)


def connect(access: Access, *, read_timeout: float | None = None) -> Any:
    """Connect to the first host that answers; raises `UsageError` if it refuses the user, `TransientError` if no host answers."""
    failure: CdcViewsError | None = None
    for host, port in access.hosts:
        try:
            with server_errors(access.flavour, f"connecting to {host}:{port}"):
                connection = _connect(access, host, port, read_timeout)
                access.flavour.check(connection)
                rows(connection, access.flavour.settings, doing="setting up")
                return connection
        except TransientError as error:
            failure = error
    assert failure is not None
    raise failure


def version_of(connection: Any) -> str:
    """Return the server's version; the greeting has it, unless a proxy answers."""
    greeted = str(connection.get_server_info())
    if "mariadb" in greeted.lower():
        return greeted
    ((version,),) = rows(connection, "SELECT version()", doing="asking its version")
    return str(version)


def _connect(access: Access, host: str, port: int, read_timeout: float | None) -> Any:
    connection = pymysql.connect(
        host=host,
        port=port,
        user=access.user,
        password=access.password,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=_CONNECT_WITHIN,
        read_timeout=read_timeout,
        ssl=access.tls,
        ssl_disabled=access.tls is None,
        conv=_ENCODERS,
        program_name="cdc-views",
    )
    connection.flavour = access.flavour
    return connection


class TableChangedError(TransientError):
    """A table was truncated or altered since the snapshot began; a new snapshot can be read."""


@contextmanager
def server_errors(flavour: Flavour, doing: str) -> Iterator[None]:
    """Turn pymysql's errors into this project's; an error that may pass becomes a `TransientError`."""
    try:
        yield
    except (pymysql.MySQLError, OSError, AttributeError) as error:
        # AttributeError: pymysql reads from a closed connection as from None
        raise translated(flavour, doing, error) from error
    except RuntimeError as error:
        if "cryptography" not in str(error):
            raise
        raise UsageError(
            f"{flavour.name}: this user signs in by caching_sha2_password: pip install 'cdc-views[producers]'"
        ) from error


def translated(flavour: Flavour, doing: str, error: Exception) -> CdcViewsError:
    """Return this project's error for one of pymysql's."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = " ".join(str(error.args[1] if len(error.args) > 1 else error).split()) or type(error).__name__
    name, prefix = flavour.name, flavour.prefix
    if code in _REFUSED and not doing.startswith("connecting"):
        return UsageError(f"{name} refuses this user, {doing}: {said}; {flavour.grants}")
    if code in _REFUSED:
        return UsageError(f"{name} refuses this user: {said}; set {prefix}USER and {prefix}PASSWORD")
    if code in _DENIED:
        return UsageError(f"{name}, {doing}: {said}; {flavour.grants}")
    if code in _LASTING:
        return UsageError(f"{name}, {doing}: {said}")
    if isinstance(error, ssl.SSLError) or "certificate" in said:
        return UsageError(f"{name}'s TLS: {said}; set {prefix}TLS_CA to the certificate of who signed the server's")
    if code == CR.CR_SSL_CONNECTION_ERROR:
        return UsageError(f"{name}'s TLS: {said}; give the server a certificate, or set {prefix}TLS to off")
    if code == ER.TABLE_DEF_CHANGED:
        return TableChangedError(f"{name}, {doing}: {said}")
    is_away = not isinstance(error, pymysql.MySQLError) or isinstance(error, pymysql.err.InterfaceError)
    if is_away or code in _PASSING or CR.CR_ERROR_FIRST <= code <= CR.CR_ERROR_LAST:
        advice = "; is it up, and is its address right?" if doing.startswith("connecting") else ""
        return TransientError(f"{name} is away, {doing}: {said}{advice}")
    return EngineError(f"{name}, {doing}: {said}")


def rows(connection: Any, text: str, *, doing: str) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows, if it has any, with values as printed."""
    with server_errors(connection.flavour, doing), connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall()) if cursor.description else []


def identifier(name: str) -> str:
    """Quote a name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: str | bytes) -> str:
    """Return a text or bytes as an SQL literal that is valid in every SQL mode."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    # a column's collation wins over that of a constant with an introducer, and clashes with that of CONVERT
    return f"_utf8mb4 x'{value.encode().hex()}'"
