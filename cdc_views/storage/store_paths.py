"""Files and folders of object stores, in the words of `pathlib.Path`.

A folder of a store exists if something is in it. A listing tells sizes and times, so looking at what it found costs no request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import translate
from io import BytesIO, RawIOBase
from pathlib import PurePosixPath
from typing import IO, Any, cast
from uuid import uuid4

from cdc_views.errors import TransientError, UnsupportedError
from cdc_views.storage.stores import split, store_errors, store_of
from cdc_views.storage.unchanging import SMALL, UNCHANGING

_UPDATES = 20


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """What a store tells of an object, in the words of `os.stat_result`."""

    st_size: int
    st_mtime: float
    e_tag: str = ""

    @property
    def st_mtime_ns(self) -> int:
        """The time of writing, in nanoseconds."""
        return int(self.st_mtime * 1_000_000_000)

    @property
    def st_ino(self) -> str:
        """What another object in the same place has differently."""
        return self.e_tag

    @classmethod
    def of(cls, told: Any) -> ObjectStat:  # obstore's mapping
        """Return what a listing or a HEAD told; Azure's listings leave out the quotes of an ETag."""
        written: datetime = told["last_modified"]
        return cls(int(told["size"]), written.timestamp(), str(told.get("e_tag") or "").strip('"'))


class StorePath:
    """A file or folder of an object store, in the words of `pathlib.Path`.

    Raises `FileNotFoundError` and `FileExistsError` as `Path` does, `TransientError` if the store does not answer, and
    `EngineError` if it refuses.
    """

    __slots__ = ("_known", "key", "root")

    def __init__(self, root: str, key: str, known: ObjectStat | None = None) -> None:
        """`root` is the URL of the bucket; `known`: what a listing told of the object."""
        self.root, self.key, self._known = root, key, known

    @classmethod
    def of(cls, url: str) -> StorePath:
        """Return the place of a URL."""
        return cls(*split(url))

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __repr__(self) -> str:
        return f"StorePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: StorePath) -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: str | PurePosixPath, /) -> StorePath:
        return StorePath(self.root, f"{self.key}/{name}".strip("/"))

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The end of the name, from its last dot."""
        return self._pure.suffix

    @property
    def parent(self) -> StorePath:
        """The folder that it is in."""
        return StorePath(self.root, "" if str(self._pure.parent) == "." else str(self._pure.parent))

    def with_name(self, name: str) -> StorePath:
        """Return another place in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> StorePath:
        """Return the place whose name ends in another suffix."""
        return self.parent / self._pure.with_suffix(suffix).name

    def relative_to(self, other: StorePath, /) -> PurePosixPath:
        """Return its path within a folder."""
        return self._pure.relative_to(other.key)

    def stat(self) -> ObjectStat:
        """Return size and time of writing; costs a request unless a listing told them."""
        import obstore

        if self._known is None:
            with store_errors(str(self)):
                self._known = ObjectStat.of(obstore.head(store_of(str(self)), self.key))
        return self._known

    def is_file(self) -> bool:
        """Whether there is such an object."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether an object is below it."""
        return next(self._below(chunk=1), None) is not None

    def exists(self) -> bool:
        """Whether it is a file or a folder."""
        return self.is_file() or self.is_dir()

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: a store has no empty folders."""

    def iterdir(self) -> Iterator[StorePath]:
        """Yield the files and folders in it."""
        import obstore

        with store_errors(str(self)):
            found = obstore.list_with_delimiter(store_of(str(self)), self.key)
        for folder in found["common_prefixes"]:
            yield StorePath(self.root, str(folder).strip("/"))
        for told in found["objects"]:
            yield StorePath(self.root, told["path"], ObjectStat.of(told))

    def listed_after(self, name: str) -> Iterator[StorePath]:
        """Yield the files in it, and below, whose path within it sorts after `name`."""
        return self._below(offset=f"{self.key}/{name}" if name else None)

    def _below(self, *, chunk: int = 1_000, offset: str | None = None) -> Iterator[StorePath]:
        import obstore

        with store_errors(str(self)):
            for batch in obstore.list(store_of(str(self)), self.key or None, chunk_size=chunk, offset=offset):
                for told in batch:
                    yield StorePath(self.root, told["path"], ObjectStat.of(told))

    def glob(self, pattern: str, /) -> Iterator[StorePath]:
        """Yield the files below whose path within it matches; `*` matches within a name, `**` across folders."""
        if "/" not in pattern:
            matching = re.compile(translate(pattern))
            yield from (place for place in self.iterdir() if matching.match(place.name))
            return
        within = r"[^/]*".join(re.escape(part) for part in pattern.replace("**/*", "\0").split("*")).replace("\0", ".*")
        matching = re.compile(within + r"\Z")
        yield from (place for place in self._below() if matching.match(str(place.relative_to(self))))

    def rglob(self, pattern: str, /) -> Iterator[StorePath]:
        """Yield the files at any depth whose name matches."""
        matching = re.compile(translate(pattern))
        yield from (place for place in self._below() if matching.match(place.name))

    def read_bytes(self) -> bytes:
        """Return the content."""
        import obstore

        with store_errors(str(self)):
            return bytes(obstore.get(store_of(str(self)), self.key).bytes())

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the content as text."""
        return self.read_bytes().decode(encoding, errors)

    def read_range(self, start: int, length: int) -> bytes:
        """Return some bytes of the content."""
        import obstore

        with store_errors(str(self)):
            return bytes(obstore.get_range(store_of(str(self)), self.key, start=start, length=length)) if length else b""

    def write_bytes(self, content: bytes, /, *, is_new: bool = False) -> None:
        """Write a whole object; `is_new`: raise `FileExistsError` if there is one."""
        import obstore

        with store_errors(str(self)):
            if is_new:  # in one part: one in several would replace what is there
                obstore.put(store_of(str(self)), self.key, content, mode="create", use_multipart=False)
            else:
                obstore.put(store_of(str(self)), self.key, content)
        self._changed()

    def update(self, change: Callable[[str | None], str]) -> None:
        """Replace the text by what `change` makes of it (None: there is none), once nobody else replaces it meanwhile."""
        import obstore

        for _ in range(_UPDATES):
            try:
                with store_errors(str(self)):
                    found = obstore.get(store_of(str(self)), self.key)
                    text: str | None = bytes(found.bytes()).decode()
                    seen: Any = {name: told for name in ("e_tag", "version") if (told := found.meta.get(name))}
            except FileNotFoundError:
                text, seen = None, "create"
            try:
                with store_errors(str(self)):
                    obstore.put(store_of(str(self)), self.key, change(text).encode(), mode=seen, use_multipart=False)
            except FileExistsError:
                continue
            self._changed()
            return
        raise TransientError(f"{self}: others keep changing it; run the command again")

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open for reading (`rb`) or writing (`wb`, `xb`), which takes effect at `close`."""
        import obstore

        with store_errors(str(self)):
            if "r" in mode:
                return BytesIO(self.read_bytes())
            self._changed()
            return cast("IO[bytes]", StoreWriter(obstore.open_writer(store_of(str(self)), self.key)))

    def rename(self, other: StorePath, /) -> None:
        """Move an object, by a copy within the store."""
        import obstore

        with store_errors(str(self)):
            obstore.rename(store_of(str(self)), self.key, other.key, overwrite=True)
        self._changed()
        other._changed()

    def copy(self, other: StorePath) -> None:
        """Copy an object within the store."""
        import obstore

        with store_errors(str(self)):
            obstore.copy(store_of(str(self)), self.key, other.key, overwrite=True)
        other._changed()

    def unlink(self, *, missing_ok: bool = True) -> None:
        """Delete the object. It may be gone: S3 does not tell, and an attempt whose answer never came may have deleted it."""
        self._delete([self.key])
        self._known = None

    def _changed(self) -> None:
        self._known = None
        UNCHANGING.forget(str(self))

    def remove_tree(self) -> None:
        """Delete all below it, whoever else deletes it meanwhile."""
        self._delete([place.key for place in self._below()])

    def _delete(self, keys: list[str]) -> None:
        import obstore

        for key in keys:
            UNCHANGING.forget(f"{self.root}/{key}")
        try:
            with store_errors(str(self)):
                obstore.delete(store_of(str(self)), keys)
        except FileNotFoundError:
            if len(keys) > 1:  # one was gone, and others may be there still
                for key in keys:
                    self._delete([key])


def check_creates(folder: StorePath) -> None:
    """Raise `UnsupportedError` if the store replaces an object where only a new one was asked for.

    Two writers of one version of a Delta table would both succeed, and one's rows would be lost.
    """
    probe = folder / f".creates-{uuid4().hex}"
    probe.write_bytes(b"1", is_new=True)
    try:
        probe.write_bytes(b"2", is_new=True)
    except FileExistsError:
        return
    finally:
        probe.unlink(missing_ok=True)
    raise UnsupportedError(
        f"{folder}: the store replaces an object where only a new one was asked for, so one writer's commit would overwrite "
        "another's",
        remedy="name a store with conditional writes: S3, GCS, Azure, or a server with `If-None-Match`, as MinIO since 2024",
    )


class StoreWriter(RawIOBase):
    """An object that is there once it was closed; a large one goes in parts."""

    def __init__(self, writer: Any) -> None:  # obstore's, which is no file for Arrow
        super().__init__()
        self._writer, self._size = writer, 0
        self._small: list[bytes] | None = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:  # bytes, or what has them
        content = bytes(data)
        self._size += len(content)
        if self._small is not None:
            self._small.append(content)
            self._small = self._small if self._size <= SMALL else None
        return int(self._writer.write(content))

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._writer.close()

    def remember(self, url: str) -> None:
        """Note what was written as an object that never changes, once it was closed."""
        UNCHANGING.remember(url, self._size)
        if self._small is not None:
            UNCHANGING.keep(url, b"".join(self._small))

    def discard(self) -> None:
        """Close it without an object. The store drops what it has by its own rule for parts that were never put together."""
        super().close()
        self._writer = None
