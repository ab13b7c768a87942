"""Event files: plain or gzip, or standard input, read as lines with their place in the file."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol, cast

from cdc_views.errors import SourceFileError
from cdc_views.storage.places import Place, place_of, reading
from cdc_views.storage.stores import is_url

STANDARD_INPUT = "-"
_CHUNK = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


class Digest(Protocol):
    """The part of a `hashlib` hash that this module uses."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""

    def copy(self) -> Digest:
        """Return an independent copy."""

    def digest(self) -> bytes:
        """Return the digest of all bytes added."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line: `content` without its newline, from byte `start` up to `end` (newline included)."""

    content: bytes
    number: int
    start: int
    end: int

    @property
    def is_terminated(self) -> bool:
        """Whether a newline ends it; only the last line of a file may lack one."""
        return self.end - self.start > len(self.content)

    @property
    def is_blank(self) -> bool:
        """Whether it holds no event."""
        return not self.content.strip()


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first `size` bytes of a file: the number of newlines in them, and their running digest."""

    size: int = 0
    newlines: int = 0
    digest: Digest = field(default_factory=hashlib.sha256)


@dataclass(frozen=True, slots=True)
class EventFile:
    """An event file that exists and can be opened repeatedly. Offsets and digests are of its decompressed bytes."""

    name: str
    path: Place
    is_gzip: bool = False

    @property
    def size(self) -> int | None:
        """Size in bytes; None if only decompressing would show it."""
        return None if self.is_gzip else self.path.stat().st_size

    @property
    def stored_bytes(self) -> int:
        """Its bytes as they are stored, perhaps compressed."""
        return self.path.stat().st_size

    def head(self) -> bytes:
        """Return the first line that is not blank, without its newline; empty if the file has no events."""
        return next((line.content for line in self.lines(Prefix()) if not line.is_blank), b"")

    def lines(self, after: Prefix) -> Iterator[RawLine]:
        """Yield the lines that follow the prefix `after`."""
        with self._open() as stream:
            stream.seek(after.size)
            number, start = after.newlines, after.size
            for read in stream:
                number += 1
                end = start + len(read)
                yield RawLine(read[:-1] if read.endswith(b"\n") else read, number, start, end)
                start = end

    def prefixes(self, sizes: Iterable[int]) -> Iterator[Prefix]:
        """Yield the prefix of each of `sizes` that the file reaches, shortest first, in one pass."""
        size, newlines, digest = 0, 0, hashlib.sha256()
        with self._open() as stream:
            for wanted in sorted(set(sizes)):
                while size < wanted and (chunk := stream.read(min(_CHUNK, wanted - size))):
                    digest.update(chunk)
                    newlines += chunk.count(b"\n")
                    size += len(chunk)
                if size < wanted:
                    return
                yield Prefix(size, newlines, digest.copy())

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        try:
            with reading(self.path) as stored:
                yield cast(IO[bytes], gzip.GzipFile(fileobj=stored)) if self.is_gzip else stored
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(self.name, error) from error


def _unreadable(name: str, error: BaseException) -> SourceFileError:
    why = getattr(error, "strerror", None) or str(error)
    return SourceFileError(f"{name}: cannot be read ({why}); expected a file of events, one a line, plain or gzip")


def find(name: str | Path) -> EventFile:
    """Return the event file at a path or a URL; raises `SourceFileError` if it is missing, a directory or unreadable."""
    path = place_of(str(name))
    if not path.is_file() and path.is_dir():
        raise SourceFileError(f"{name}: is a directory; name the event files in it ({str(name).rstrip('/')}/*)")
    if not path.exists():
        where = "" if is_url(str(name)) else f"; FILE arguments are relative to the working directory ({Path.cwd()})"
        raise SourceFileError(f"{name}: no such file{where}")
    try:
        with reading(path) as stream:
            magic = stream.read(2)
    except OSError as error:
        raise _unreadable(str(name), error) from error
    return EventFile(str(name), path, is_gzip=magic == _GZIP_MAGIC)


def _named(name: str | Path) -> list[str | Path]:
    """Return the files of a name; no shell expands the `*` in the URL of a store, so this does."""
    url = str(name)
    if not (is_url(url) and "*" in url):
        return [name]
    above, _, pattern = url.partition("*")
    folder, _, begin = above.rpartition("/")
    found = sorted(str(place) for place in place_of(folder).glob(f"{begin}*{pattern}") if place.is_file())
    if not found:
        raise SourceFileError(f"{name}: no file has such a name")
    return list(found)


@contextmanager
def opened(names: Iterable[str | Path]) -> Iterator[tuple[EventFile, ...]]:
    """Find all files before any is landed; copy standard input to a temporary file, since a resumed read must read it again."""
    with tempfile.TemporaryDirectory(prefix="cdc-views-") as folder:
        copy = Path(folder) / "stdin"
        found = (one for name in names for one in _named(name))
        yield tuple(_spooled(copy) if str(name) == STANDARD_INPUT else find(name) for name in found)


def _spooled(path: Path) -> EventFile:
    if not path.exists():  # a second `-` is the same input
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy, _CHUNK)
    return replace(find(path), name=STANDARD_INPUT)
