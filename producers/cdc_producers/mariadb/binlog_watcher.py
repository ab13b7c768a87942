"""Watching how much of the binlog has not been read, while it is followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc_producers.log_watcher import EVERY, LogWatcher
from cdc_producers.mariadb.connections import Access, connect, rows


@dataclass
class BinlogWatcher(LogWatcher):
    """How many bytes of the log come after the place that `read_to` returns; None before the first look."""

    access: Access
    read_to: Callable[[], tuple[str, int]]
    behind_bytes: int | None = None

    def look_until_stopped(self) -> None:
        connection = connect(self.access)
        try:
            while not self._stop.is_set():
                found = rows(connection, "SHOW BINARY LOGS", doing="asking for its binlog")
                self.behind_bytes = behind([(str(row[0]), int(row[1])) for row in found], *self.read_to())
                self._stop.wait(EVERY)
        finally:
            connection.close()


def behind(files: list[tuple[str, int]], file: str, position: int) -> int | None:
    """Return the bytes after a place in a log of these files, oldest first; None where it is in none of them."""
    names = [name for name, _ in files]
    if file not in names:
        return None
    place = names.index(file)
    return max(0, files[place][1] - position) + sum(size for _, size in files[place + 1 :])
