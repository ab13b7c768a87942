"""MySQL servers of the tests' own, 9.7 and 5.6, row binlog with GTIDs: fetched once, no root, no package manager."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from services import mysql_programs
from services.account import Account, free_port, started
from services.binlog_server import PASSWORD, USER, BinlogServer

_READY_WITHIN = 60.0
_SETTINGS = {
    "bind-address": "127.0.0.1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "gtid-mode": "ON",
    "enforce-gtid-consistency": "ON",
    "character-set-server": "utf8mb4",
    "innodb-buffer-pool-size": "32M",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-flush-method": "fsync",
    "performance-schema": "OFF",
    "max-allowed-packet": "64M",
}
_NEW = {"innodb-redo-log-capacity": "32M", "binlog-row-metadata": "FULL", "mysqlx": "OFF", "secure-file-priv": "NULL"}
_OLD = {
    "innodb-log-file-size": "16M", "log-slave-updates": "1", "innodb-use-native-aio": "0", "explicit-defaults-for-timestamp": "1",
    "innodb-file-per-table": "1", "binlog-checksum": "CRC32",
}  # fmt: skip
_BOOTSTRAP = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


@dataclass
class MySql(BinlogServer):
    """A running server; `stop`, `start` and `kill` as often as wanted."""

    PREFIX = "CDC_VIEWS_MYSQL_"

    release: str
    folder: Path
    programs: Path
    account: Account
    port: int
    number: int = 1
    settings: dict[str, str] = field(default_factory=dict)
    _server: subprocess.Popen[bytes] | None = None

    @property
    def is_old(self) -> bool:
        return self.release == "5.6"

    def gtids(self) -> str:
        """The GTIDs of everything that is committed."""
        return str(self.sql("SELECT @@global.gtid_executed")[0][0])

    def _command(self) -> tuple[list[str], dict[str, Any]]:
        options: dict[str, Any] = self.account.options()
        if self.is_old:
            program, base = [str(self.programs / "bin" / "mysqld")], self.programs
            options["env"] = {**os.environ, "LD_LIBRARY_PATH": str(self.programs / "lib")}
        else:
            base = self.programs / "usr"
            (loader,) = base.glob("lib/*/ld-linux-x86-64.so.2")
            program = [str(loader), "--library-path", f"{loader.parent}:{base / 'lib'}", str(base / "sbin" / "mysqld")]
        command = [*program, "--no-defaults", f"--basedir={base}", f"--datadir={self.folder / 'data'}"]
        share = self.programs / "share" if self.is_old else base / "share" / "mysql"
        command += [f"--lc-messages-dir={share}", f"--character-sets-dir={share / 'charsets'}"]
        return command, options

    def start(self) -> None:
        """Start it and wait until it answers."""
        command, options = self._command()
        given = {**_SETTINGS, **(_OLD if self.is_old else _NEW), "server-id": str(self.number), **self.settings}
        given |= {"socket": str(self.folder / "s"), "pid-file": str(self.folder / "pid"), "port": str(self.port)}
        if not self.is_old:
            given["plugin-dir"] = str(self.programs / "usr" / "lib" / "mysql" / "plugin")
        self._server = started(
            [*command, *(f"--{name}={value}" for name, value in given.items())],
            lambda: self.connect().close(),
            log=self.folder / "log",
            within=_READY_WITHIN,
            failure=pymysql.MySQLError,
            **options,
        )

    def initialize(self) -> None:
        """Make the server's folder."""
        command, options = self._command()
        given: dict[str, Any] = {"check": False, "capture_output": True, "timeout": 120, "cwd": self.folder, **options}
        if self.is_old:
            (self.folder / "data").mkdir()
            self.account.give(self.folder / "data")
            share = self.programs / "share"
            text = b"CREATE DATABASE mysql;\nUSE mysql;\n" + b"\n".join((share / name).read_bytes() for name in _BOOTSTRAP)
            text += b"\nDELETE FROM mysql.user WHERE user = '';\n"
            extra = [f"--{name}={value}" for name, value in _OLD.items() if name != "log-slave-updates"]
            done = subprocess.run([*command, "--bootstrap", *extra], input=text, **given)
        else:
            done = subprocess.run([*command, "--initialize-insecure"], **given)
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr).decode()[-3000:])


@contextmanager
def running(number: int = 1, *, release: str = "9.7", **settings: str) -> Iterator[MySql]:
    """A server with an empty database `shop`, gone at the end; settings are those of its command line, `_` for `-`."""
    account = Account.unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-mysql-"))
    try:
        found = mysql_programs.old() if release == "5.6" else mysql_programs.current()
        programs = account.reachable(found, copy_to=folder / "programs")
        account.give(folder)
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        server = MySql(release, folder, programs, account, free_port(), number, given)
        server.initialize()
        try:
            server.start()
            server.sql(
                f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {USER}@'%'",
                "CREATE DATABASE shop",
            )
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
