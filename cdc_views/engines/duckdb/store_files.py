"""Files of object stores for DuckDB, by ranges through our own client: no extension is downloaded, and credentials are ours."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

from fsspec import AbstractFileSystem

from cdc_views.storage.store_paths import ObjectStat, RangeReader, StorePath
from cdc_views.storage.stores import SCHEMES, is_url

_READERS = 32
"""The files that are kept open; small ones are kept in memory."""


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """What DuckDB needs of a file system: named files, which never change, so that each costs one look."""

    protocol = SCHEMES
    cachable = False

    def __init__(self) -> None:
        """Know no file yet."""
        super().__init__()
        self._reader = lru_cache(_READERS)(lambda path: RangeReader(self._place(path)))
        self._looked: dict[str, ObjectStat] = {}

    def _place(self, path: str) -> StorePath:
        place = StorePath.of(path if is_url(path) else f"s3://{path}")
        place = StorePath(place.root, place.key, self._looked.get(str(place)))
        self._looked[str(place)] = place.stat()
        return place

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
            self._place(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: str) -> bool:
        """Return false."""
        return False

    def size(self, path: str) -> int:
        """Return its bytes."""
        return self._place(path).stat().st_size

    def modified(self, path: str) -> datetime:
        """Return the time of writing."""
        return datetime.fromtimestamp(self._place(path).stat().st_mtime, timezone.utc)
