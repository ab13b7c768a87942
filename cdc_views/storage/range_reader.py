"""Reads an object of a store by ranges, as a file: for Arrow, and for DuckDB's threads."""

from __future__ import annotations

import threading

from cdc_views.storage.store_paths import StorePath
from cdc_views.storage.stores import is_url
from cdc_views.storage.unchanging import SMALL, UNCHANGING

_BLOCK = 1 << 18


def remember_size(url: str, size: int) -> None:
    """Note the bytes of an object that never changes, such as a data file, so that no reader has to ask for them."""
    if is_url(url):
        UNCHANGING.remember(url, size)


def known_size(place: StorePath) -> int:
    """Return the bytes of an object; costs a request unless they were remembered."""
    known = UNCHANGING.size(str(place))
    return place.stat().st_size if known is None else known


def unchanging_part(place: StorePath, start: int, length: int) -> bytes:
    """Return some bytes of an object that never changes. A small object is read whole, once for all of its parts."""
    url = str(place)
    if start + length > SMALL or (UNCHANGING.size(url) or 0) > SMALL:
        return place.read_range(start, length)
    return UNCHANGING.content(url, place.read_bytes)[start : start + length]


class RangeReader:
    """A file-like view of an object, by ranges; any thread may use it, each with a position of its own.

    A small object is read at once, and of a large one a few bytes more than asked for: a footer is read in three steps.
    """

    mode = "rb"

    def __init__(self, place: StorePath, *, is_fresh: bool = False) -> None:
        """Costs the request of `place.stat`, unless the size was remembered; `is_fresh`: ask the store whatever is known."""
        self._url = "" if is_fresh else str(place)
        self._size = place.stat().st_size if is_fresh else known_size(place)
        self._place, self._at, self.closed = place, threading.local(), False
        self._whole = b""

    def size(self) -> int:
        """Return its bytes."""
        return self._size

    def readable(self) -> bool:
        """Return true."""
        return True

    def seekable(self) -> bool:
        """Return true."""
        return True

    def writable(self) -> bool:
        """Return false."""
        return False

    def tell(self) -> int:
        """Return this thread's position."""
        return int(getattr(self._at, "value", 0))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move this thread's position, as `io.IOBase.seek`."""
        self._at.value = offset + (0, self.tell(), self._size)[whence]
        return self.tell()

    def read(self, size: int = -1) -> bytes:
        """Return exactly so many bytes, or all to the end."""
        start = self.tell()
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        found = self._range(start, end) if start < end else b""
        self._at.value = start + len(found)
        return found

    def _range(self, start: int, end: int) -> bytes:
        if self._size <= SMALL:
            self._whole = self._whole or self._all()
            return self._whole[start:end]
        first, block = getattr(self._at, "block", (0, b""))
        if not (first <= start and end <= first + len(block)):
            # the end of a file is read backwards
            first = max(0, min(start, self._size - _BLOCK))
            block = self._place.read_range(first, max(end, min(first + _BLOCK, self._size)) - first)
            self._at.block = first, block if len(block) <= _BLOCK else b""
        return block[start - first : end - first]

    def _all(self) -> bytes:
        if UNCHANGING.size(self._url) is None:  # it may change, as a file that somebody hands over to `land`
            return self._place.read_bytes()
        return UNCHANGING.content(self._url, self._place.read_bytes)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close it."""
        self.closed = True
