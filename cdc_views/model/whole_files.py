"""Files replaced as a whole: even after a crash, a reader finds the old or the new content, never a mixture."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4


def write_whole(file: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a UTF-8 file of `mode` (before the umask) to disk. Of concurrent writers, one whole text stays. Raises `OSError`."""
    # a unique name: if two writers shared a draft, the second would find it renamed away
    draft = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, file)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


@contextmanager
def whole_file(file: Path, *, replaces: bool) -> Iterator[IO[bytes]]:
    """Yield a file to write, which has its name after the block, with all of its content, on disk; not if the block raises.

    Raises `FileExistsError` if it is there by then and not `replaces`.
    """
    draft = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if replaces:
            os.replace(draft, file)
        else:
            _name_new(draft, file)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _name_new(draft: Path, file: Path) -> None:
    try:
        os.link(draft, file)  # unlike a rename, it fails if the file exists
    except FileExistsError:
        raise
    except OSError as error:  # a file system without links
        if file.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file)) from error
        os.replace(draft, file)


def write_new(file: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Create a file with all of its content, on disk; raises `FileExistsError` if it exists, and of two writers one does."""
    draft = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(draft, file)  # unlike a rename, it fails if the file exists
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
