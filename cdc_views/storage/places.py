"""Places of files: `Path` for this machine, `StorePath` for an object store, with the same verbs.

So code that keeps a table's folder is the same for both.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import IO, Any, Protocol, TypeVar, cast
from urllib.parse import unquote, urlsplit

from cdc_views.model.whole_files import whole_file
from cdc_views.model.whole_files import write_new as write_new_file
from cdc_views.model.whole_files import write_whole as write_whole_file
from cdc_views.storage.range_reader import RangeReader, known_size, unchanging_part
from cdc_views.storage.store_paths import StorePath, StoreWriter
from cdc_views.storage.stores import is_url, store_errors
from cdc_views.storage.unchanging import UNCHANGING

_READ_AT_ONCE = 8 << 20
_AT_ONCE = 16
"""Requests to a store at a time."""
_T = TypeVar("_T")
_R = TypeVar("_R")


class Stat(Protocol):
    """What is known of a file without reading it; `st_ino` differs for another file in the same place."""

    @property
    def st_size(self) -> int:
        """Its bytes."""

    @property
    def st_mtime(self) -> float:
        """The time of writing, in seconds since the epoch."""

    @property
    def st_mtime_ns(self) -> int:
        """The same in nanoseconds."""

    @property
    def st_ino(self) -> object:
        """What another file in the same place has differently."""


class Place(Hashable, Protocol):
    """A file or a folder: the part of `pathlib.Path` that code of tables may use. `Path` and `StorePath` have it."""

    @property
    def name(self) -> str: ...

    @property
    def stem(self) -> str: ...

    @property
    def suffix(self) -> str: ...

    @property
    def parent(self) -> Place: ...

    def __truediv__(self, key: str, /) -> Place: ...

    def __lt__(self, other: Any, /) -> bool: ...

    def with_name(self, name: str) -> Place: ...

    def with_suffix(self, suffix: str) -> Place: ...

    def relative_to(self, other: Any, /) -> PurePath: ...

    def stat(self) -> Stat: ...

    def is_file(self) -> bool: ...

    def is_dir(self) -> bool: ...

    def exists(self) -> bool: ...

    def mkdir(self, *, parents: bool = ..., exist_ok: bool = ...) -> None: ...

    def iterdir(self) -> Iterator[Place]: ...

    def glob(self, pattern: str, /) -> Iterator[Place]: ...

    def rglob(self, pattern: str, /) -> Iterator[Place]: ...

    def read_bytes(self) -> bytes: ...

    def read_text(self, encoding: str = ..., errors: str = ...) -> str: ...

    def write_bytes(self, data: bytes, /) -> object: ...

    def unlink(self, *, missing_ok: bool = ...) -> None: ...

    def rename(self, target: Any, /) -> object: ...

    @property
    def open(self) -> Callable[..., Any]: ...


def stamp_of(place: Place) -> Hashable:
    """Return what differs once another file is in the same place, as far as its name and times can tell."""
    status = place.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def place_of(location: str | Place) -> Place:
    """Return the place of a path, a `file:` URL or a store's URL; raises `ConfigError` for an unknown store."""
    if not isinstance(location, str):
        return location
    if location.startswith("file:/"):
        return Path(unquote(urlsplit(location).path))
    return StorePath.of(location) if is_url(location) else Path(location)


def local_folder(location: str) -> Path | None:
    """Return the folder of a path or a `file://` URL; None if it is on a store."""
    place = place_of(location)
    return place if isinstance(place, Path) else None


def size_of(location: str) -> int:
    """Return the bytes of a data file; raises `OSError` if it is gone, which a store is not asked where the log told its size."""
    place = place_of(location)
    return place.stat().st_size if isinstance(place, Path) else known_size(cast("StorePath", place))


def sizes_of(locations: Iterable[str]) -> dict[str, int]:
    """Return the bytes of each of some data files; raises `OSError` if any is gone, as `size_of` does."""
    paths = list(locations)
    # threads for files of this machine take a hundred times as long as to ask for their sizes
    sizes = at_once(size_of, paths) if any(map(is_url, paths)) else map(size_of, paths)
    return dict(zip(paths, sizes, strict=True))


@contextmanager
def reading(place: Place) -> Iterator[IO[bytes]]:
    """Yield a file to read from its beginning to its end, in memory that does not grow with it."""
    stream = place.open("rb") if isinstance(place, Path) else BufferedReader(_Ranges(cast("StorePath", place)), _READ_AT_ONCE)
    with stream:
        yield cast("IO[bytes]", stream)


class _Ranges(RawIOBase):
    """An object of a store, for `BufferedReader`."""

    def __init__(self, place: StorePath) -> None:
        super().__init__()
        self._reader = RangeReader(place)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def readinto(self, buffer: Any, /) -> int:  # bytearray or memoryview
        found = self._reader.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


def arrow_source(location: str | Place, *, is_fresh: bool = False) -> Any:  # what pyarrow.parquet takes
    """Return what Arrow reads a file from; `is_fresh`: from the store itself, whatever this process has kept of it."""
    import pyarrow as pa

    place = place_of(location)
    return place if isinstance(place, Path) else pa.PythonFile(RangeReader(cast("StorePath", place), is_fresh=is_fresh), mode="r")


@contextmanager
def arrow_sink(place: Place) -> Iterator[Any]:
    """Yield what Arrow writes a data file to; on a store the file is there after the block, and none if it raises.

    A data file never changes, so this process need not ask a store for what it wrote.
    """
    if isinstance(place, Path):
        yield place
        return
    import pyarrow as pa

    with new_file(place) as stream:
        sink = pa.PythonFile(stream, mode="w")
        yield sink
        sink.flush()
    cast("StoreWriter", stream).remember(str(place))


@contextmanager
def new_file(place: Place, *, replaces: bool = True) -> Iterator[IO[bytes]]:
    """Yield a file to write, which has its name after the block, whole; if the block raises, nothing is there.

    Raises `FileExistsError` if one is there and not `replaces`; a store is asked before the last bytes go to it.
    """
    if isinstance(place, Path):
        with whole_file(place, replaces=replaces) as stream:
            yield stream
        return
    with store_errors(str(place)):
        stream = place.open("wb")
        try:
            yield stream
            if not replaces and place.is_file():
                raise FileExistsError(f"{place}: is there")
        except BaseException:
            cast("StoreWriter", stream).discard()
            raise
        stream.close()


def write_whole(place: Place, text: str, *, mode: int = 0o666) -> None:
    """Write a UTF-8 file: a reader finds the old or the new content, never a mixture. `mode` is of local files."""
    if isinstance(place, Path):
        write_whole_file(place, text, mode=mode)
    else:
        place.write_bytes(text.encode())


def update(place: Place, change: Callable[[str | None], str], *, mode: int = 0o666) -> None:
    """Replace a text by what `change` makes of it (None: there is none). On a store no other writer's change is lost: `change` is
    called again. On a local disk the caller keeps others away.
    """
    if isinstance(place, Path):
        write_whole(place, change(place.read_text("utf-8") if place.exists() else None), mode=mode)
    else:
        cast("StorePath", place).update(change)


def write_new(place: Place, content: bytes, *, mode: int = 0o666) -> None:
    """Create a file with all of its content; raises `FileExistsError` if there is one, and of two writers one does."""
    if isinstance(place, Path):
        write_new_file(place, content, mode=mode)
    else:
        cast("StorePath", place).write_bytes(content, is_new=True)


def write_unchanging(place: Place, content: bytes) -> None:
    """As `write_new`, a file that never changes; this process need not ask a store for it again."""
    write_new(place, content)
    if not isinstance(place, Path):
        UNCHANGING.keep(str(place), content)


def read_unchanging(place: Place, start: int, length: int) -> bytes:
    """Return some bytes of a file that never changes; raises `OSError` if it is gone.

    On a store all parts of a small file cost one request.
    """
    if not isinstance(place, Path):
        return unchanging_part(cast("StorePath", place), start, length)
    with place.open("rb") as file:
        file.seek(start)
        return file.read(length)


def is_unchanging_there(place: Place) -> bool:
    """Whether there is a file that never changes and is read next; a small one on a store is read by this."""
    if isinstance(place, Path):
        return place.is_file()
    try:
        UNCHANGING.content(str(place), place.read_bytes)
    except FileNotFoundError:
        return False
    return True


def copy_file(old: Place, new: Place) -> None:
    """Copy a file; within a store the store does it."""
    if isinstance(old, StorePath) and isinstance(new, StorePath):
        old.copy(new)
    elif isinstance(old, Path) and isinstance(new, Path):
        shutil.copyfile(old, new)
    else:
        new.write_bytes(old.read_bytes())


def remove_tree(place: Place) -> None:
    """Delete a folder with all in it."""
    if isinstance(place, Path):
        shutil.rmtree(place)
    else:
        cast("StorePath", place).remove_tree()


def listed_after(folder: Place, name: str) -> Iterator[Place]:
    """Yield the files of a folder whose names sort after `name`, which costs a store the fewer requests; on a local disk all.
    Raises `OSError` if there is no such local folder.
    """
    return folder.iterdir() if isinstance(folder, Path) else cast("StorePath", folder).listed_after(name)


@contextmanager
def on_this_machine(place: Place) -> Iterator[Path]:
    """Yield a file, or the folder, as a local one: itself, or a copy that goes back to the store after the block."""
    if isinstance(place, Path):
        yield place
        return
    with TemporaryDirectory(prefix="cdc-views-") as name:
        copy, before = Path(name) / place.name, dict[Path, bytes]()
        for file in [place] if place.is_file() else place.rglob("*"):
            local = copy if file == place else copy / file.relative_to(place)
            local.parent.mkdir(parents=True, exist_ok=True)
            before[local] = file.read_bytes()
            local.write_bytes(before[local])
        yield copy
        for local in [copy] if copy.is_file() else sorted(copy.rglob("*")):
            if local.is_file() and before.get(local) != (content := local.read_bytes()):
                (place if local == copy else place / local.relative_to(copy).as_posix()).write_bytes(content)


def at_once(function: Callable[[_T], _R], things: Iterable[_T]) -> list[_R]:
    """Return the results of `function` for each of `things`, several at a time: a store answers each request late."""
    listed = list(things)
    if len(listed) < 2:
        return list(map(function, listed))
    with ThreadPoolExecutor(min(_AT_ONCE, len(listed)), "store") as pool:
        return list(pool.map(function, listed))
