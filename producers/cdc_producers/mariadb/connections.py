"""Connections to MariaDB: addresses from the environment only, fixed formats of values, errors without secrets."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql
from pymysql.constants import CR, ER
from pymysql.converters import conversions

from cdc_views.errors import CdcViewsError, EngineError, TransientError, UnsupportedError, UsageError

_PREFIX = "CDC_VIEWS_MARIADB_"
_DEFAULT_PORT = 3306
_CONNECT_WITHIN = 10
_SETTINGS = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', max_statement_time = 0, net_write_timeout = 86400, "
    "wait_timeout = 86400, sql_select_limit = DEFAULT, group_concat_max_len = DEFAULT"
)
"""`net_write_timeout`: the server drops a reader that is slow for longer, and ours waits while its queue is full."""
_ENCODERS = {kind: encode for kind, encode in conversions.items() if not isinstance(kind, int)}
"""No decoders: values come as the server prints them."""
_REFUSED = (ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.HOST_NOT_PRIVILEGED, 1698)
_DENIED = (ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)
_PASSING = (
    ER.CON_COUNT_ERROR, ER.SERVER_SHUTDOWN, ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.TABLE_DEF_CHANGED, ER.QUERY_INTERRUPTED,
    1927,
)  # fmt: skip
_LASTING = (
    ER.UNKNOWN_SYSTEM_VARIABLE, ER.PARSE_ERROR, ER.NOT_SUPPORTED_YET, ER.UNKNOWN_CHARACTER_SET, ER.BAD_DB_ERROR, 1524, 1275,
)  # fmt: skip
"""Errors that every attempt repeats: something unknown to the server; the last two: a way to sign in that either side lacks."""
GRANTS = "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO …"


@dataclass(frozen=True, slots=True)
class Access:
    """The server's address and the user, from the environment; of several hosts, the first that answers is read."""

    hosts: tuple[tuple[str, int], ...]
    user: str
    password: str = field(repr=False)
    tls: ssl.SSLContext | None = None

    @classmethod
    def of_environment(cls) -> Access:
        """Read `CDC_VIEWS_MARIADB_…`; raises `UsageError` for invalid values."""
        port = _port(_given("PORT") or str(_DEFAULT_PORT))
        names = [part.strip() for part in (_given("HOST") or "127.0.0.1").split(",") if part.strip()]
        hosts = tuple(_host(name, port) for name in names)
        if not hosts:
            raise UsageError(f"{_PREFIX}HOST names no host; db.example or db1:3306,db2:3306 was expected")
        return cls(hosts, _given("USER") or "cdc_views", _given("PASSWORD"), _tls())

    def turned(self) -> Access:
        """Return the same access, but with the first host last."""
        return replace(self, hosts=(*self.hosts[1:], self.hosts[0]))


def _given(name: str) -> str:
    return os.environ.get(_PREFIX + name) or ""


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise UsageError(f"{_PREFIX}PORT is {text!r}; a port's number was expected")
    return int(text)


def _host(text: str, port: int) -> tuple[str, int]:
    if text.startswith("["):  # [::1]:3306
        name, _, rest = text[1:].partition("]")
        return name, _port(rest[1:]) if rest else port
    name, colon, number = text.partition(":")
    return (name, _port(number)) if colon and ":" not in number else (text, port)


def _tls() -> ssl.SSLContext | None:
    """Read `TLS`: off (default), on (encrypted, server not checked), or verify (its certificate and name are checked)."""
    mode, authority = _given("TLS").lower() or "off", _given("TLS_CA")
    if mode not in ("off", "on", "verify"):
        raise UsageError(f"{_PREFIX}TLS is {mode!r}; off, on or verify was expected")
    if mode == "off":
        if authority:
            raise UsageError(f"{_PREFIX}TLS_CA is set, and {_PREFIX}TLS is off; set it to verify")
        return None
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate := _given("TLS_CERT"):
            context.load_cert_chain(certificate, _given("TLS_KEY") or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{_PREFIX}TLS_CA, _TLS_CERT or _TLS_KEY cannot be read: {error}") from error
    if mode == "on":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connect(access: Access, *, read_timeout: float | None = None) -> Any:
    """Connect to the first host that answers; raises `UsageError` if it refuses the user, `TransientError` if no host answers."""
    failure: CdcViewsError | None = None
    for host, port in access.hosts:
        try:
            with mariadb_errors(f"connecting to {host}:{port}"):
                connection = _connect(access, host, port, read_timeout)
                check_is_mariadb(connection)
                rows(connection, _SETTINGS, doing="setting up")
                return connection
        except TransientError as error:
            failure = error
    assert failure is not None
    raise failure


def check_is_mariadb(connection: Any) -> None:
    """Raise `UnsupportedError` for another server with the same protocol; call this before anything that only MariaDB knows."""
    if "mariadb" in str(connection.get_server_info()).lower():
        return
    ((version,),) = rows(connection, "SELECT version()", doing="asking its version")
    if "mariadb" not in str(version).lower():
        connection.close()
        raise not_mariadb(str(version))


def not_mariadb(version: str) -> UnsupportedError:
    """Return the error for a server that is MySQL or another one."""
    return UnsupportedError(
        f"the server is not MariaDB but {version}, whose GTIDs are others",
        remedy="let Debezium's MySQL connector read it, and land what it sends (`produce http`, `land debezium`)",
    )


def _connect(access: Access, host: str, port: int, read_timeout: float | None) -> Any:
    return pymysql.connect(
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


@contextmanager
def mariadb_errors(doing: str) -> Iterator[None]:
    """Turn pymysql's errors into this project's; an error that may pass becomes a `TransientError`."""
    try:
        yield
    except (pymysql.MySQLError, OSError, AttributeError) as error:
        # AttributeError: pymysql reads from a closed connection as from None
        raise translated(doing, error) from error


def translated(doing: str, error: Exception) -> CdcViewsError:
    """Return this project's error for one of pymysql's."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = " ".join(str(error.args[1] if len(error.args) > 1 else error).split()) or type(error).__name__
    if code in _REFUSED and not doing.startswith("connecting"):
        return UsageError(f"MariaDB refuses this user, {doing}: {said}; {GRANTS}")
    if code in _REFUSED:
        return UsageError(f"MariaDB refuses this user: {said}; set {_PREFIX}USER and {_PREFIX}PASSWORD")
    if code in _DENIED:
        return UsageError(f"MariaDB, {doing}: {said}; {GRANTS}")
    if code in _LASTING:
        return UsageError(f"MariaDB, {doing}: {said}")
    if isinstance(error, ssl.SSLError) or "certificate" in said:
        return UsageError(f"MariaDB's TLS: {said}; set {_PREFIX}TLS_CA to the certificate of who signed the server's")
    if code == CR.CR_SSL_CONNECTION_ERROR:
        return UsageError(f"MariaDB's TLS: {said}; give the server a certificate, or set {_PREFIX}TLS to off")
    is_away = not isinstance(error, pymysql.MySQLError) or isinstance(error, pymysql.err.InterfaceError)
    if is_away or code in _PASSING or CR.CR_ERROR_FIRST <= code <= CR.CR_ERROR_LAST:
        return TransientError(f"MariaDB is away, {doing}: {said}")
    return EngineError(f"MariaDB, {doing}: {said}")


def rows(connection: Any, text: str, *, doing: str) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows, if it has any, with values as printed."""
    with mariadb_errors(doing), connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall()) if cursor.description else []


def identifier(name: str) -> str:
    """Quote a name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: str | bytes) -> str:
    """Return a text or bytes as an SQL literal that is valid in every SQL mode."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return f"CONVERT(x'{value.encode().hex()}' USING utf8mb4)"
