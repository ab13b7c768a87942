"""What this process knows of objects that never change, such as data files: their sizes, and the bytes of small ones.

A run opens a data file for its statistics, its schema and its rows, and a deletion vector for each file that it is of; a store
answers each request late. Bounded in objects and bytes; the oldest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

SMALL = 4 << 20
"""The most bytes of an object that is kept: a store sends them in the time of one more request."""
_MOST_SIZES = 200_000
_MOST_BYTES = 64 << 20
_LANES = 64


class Unchanging:
    """Sizes and bytes by URL; any thread may use it. Two threads that want the same bytes ask the store once."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        """Know nothing."""
        self._most, self._held = most_bytes, 0
        self._sizes, self._contents = OrderedDict[str, int](), OrderedDict[str, bytes]()
        self._lock, self._lanes = Lock(), [Lock() for _ in range(_LANES)]

    def size(self, url: str) -> int | None:
        """Return the bytes of an object; None if unknown, which also means that the object may change."""
        return self._sizes.get(url)

    def remember(self, url: str, size: int) -> None:
        """Note an object that never changes."""
        with self._lock:
            self._sizes[url] = size
            while len(self._sizes) > _MOST_SIZES:
                self._drop(next(iter(self._sizes)))

    def keep(self, url: str, content: bytes) -> None:
        """Note the bytes of an object that never changes; those of a large one are not kept."""
        self.remember(url, len(content))
        if len(content) > SMALL:
            return
        with self._lock:
            self._held += len(content) - len(self._contents.pop(url, b""))
            self._contents[url] = content
            while self._held > self._most:
                self._held -= len(self._contents.popitem(last=False)[1])

    def has(self, url: str) -> bool:
        """Whether its bytes are kept."""
        return url in self._contents

    def content(self, url: str, read: Callable[[], bytes]) -> bytes:
        """Return the bytes of an object that never changes, by `read` unless they are kept."""
        if (kept := self._contents.get(url)) is not None:
            return kept
        with self._lanes[hash(url) % _LANES]:
            if (kept := self._contents.get(url)) is not None:
                return kept
            found = read()
            self.keep(url, found)
            return found

    def forget(self, url: str) -> None:
        """Know nothing of an object: it was deleted or replaced."""
        with self._lock:
            self._drop(url)

    def clear(self) -> None:
        """Know nothing, as a new process."""
        with self._lock:
            self._sizes.clear()
            self._contents.clear()
            self._held = 0

    def _drop(self, url: str) -> None:
        self._sizes.pop(url, None)
        self._held -= len(self._contents.pop(url, b""))


UNCHANGING = Unchanging()
"""The objects that this process has met."""
