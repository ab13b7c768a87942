"""What the tests' MariaDB and MySQL servers share: the users, statements, and how a running one ends."""

from __future__ import annotations

import subprocess
from typing import Any, ClassVar

import pymysql

from services.account import stop

USER, PASSWORD = "cdc", "s3cr3t"
"""The user that the producer is."""


class BinlogServer:
    """A running server on the loopback; `stop` and `kill` as often as wanted."""

    PREFIX: ClassVar[str]
    """The beginning of the names of the producer's variables."""
    port: int
    _server: subprocess.Popen[bytes] | None

    @property
    def environment(self) -> dict[str, str]:
        """What the producer needs to find it."""
        found = {"HOST": "127.0.0.1", "PORT": str(self.port), "USER": USER, "PASSWORD": PASSWORD}
        return {f"{self.PREFIX}{part}": value for part, value in found.items()}

    def connect(self, **options: Any) -> Any:
        """A connection of the administrator, each statement its own transaction."""
        given = {"user": "root", "autocommit": True, "charset": "utf8mb4", "connect_timeout": 5, **options}
        return pymysql.connect(host="127.0.0.1", port=self.port, **given)

    def sql(self, *statements: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement, values)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def stop(self) -> None:
        """Stop it, clients or not."""
        if self._server is not None:
            stop(self._server)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(20)
