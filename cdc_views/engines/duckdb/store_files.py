"""Files of object stores for DuckDB, by ranges through our own client: no extension is downloaded, and credentials are ours."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

from fsspec import AbstractFileSystem

from cdc_views.storage.range_reader import RangeReader
from cdc_views.storage.store_paths import StorePath
from cdc_views.storage.stores import SCHEMES

_NEVER = datetime(2000, 1, 1, tzinfo=timezone.utc)
_READERS = 32
"""The files that are kept open; small ones are kept in memory."""


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """What DuckDB needs of a file system: named files, which never change, so that each costs one look."""

    protocol = SCHEMES
    cachable = False

    def __init__(self) -> None:
        """Have no file open."""
        super().__init__()
        self._reader = lru_cache(_READERS)(lambda path: RangeReader(StorePath.of(path)))

    def glob(self, path: str, **_: object) -> list[str]:
        """Return the path itself: it is that of a file, never a pattern."""
        return [path]

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path, which is one."""
        return name

    def open(self, path: str, mode: str = "rb", **_: object) -> RangeReader:
        """Open a file for reading; DuckDB opens one several times, and closes none that others read."""
        return self._reader(path)

    def exists(self, path: str, **_: object) -> bool:
        """Whether there is such a file."""
        try:
            self._reader(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: str) -> bool:
        """Return false."""
        return False

    def size(self, path: str) -> int:
        """Return its bytes."""
        return self._reader(path).size()

    def modified(self, path: str) -> datetime:
        """Return one instant for all: a file that never changes is as good as it was."""
        return _NEVER
