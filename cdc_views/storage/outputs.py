"""Folders of part files that a user named: they get their name by one rename, and only such a folder is ever replaced."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

_PARTS = re.compile(r"part-.*|[._].*")


def is_of_parts(folder: Path) -> bool:
    """Whether a folder holds nothing but part files, as an engine's tasks write them, and hidden ones."""
    return folder.is_dir() and all(_PARTS.fullmatch(path.name) and path.is_file() for path in folder.iterdir())


@contextmanager
def whole_folder(folder: Path, *, replaces: bool) -> Iterator[Path]:
    """Yield a name for a folder to write, which becomes `folder` after the block; if the block raises, nothing is there.

    Raises `FileExistsError` if something is there by then and not `replaces`.
    """
    draft, before = (folder.with_name(f".{folder.name}.{uuid4().hex}") for _ in range(2))
    try:
        yield draft
        if replaces and folder.exists():
            # no call replaces a folder that is not empty: for a moment there is neither
            folder.rename(before)
        elif folder.exists():
            raise FileExistsError(f"{folder}: is there")
        try:
            draft.rename(folder)
        except OSError:
            with suppress(OSError):
                before.rename(folder)
            raise
    finally:
        for left in (draft, before):
            remove(left)


def remove(path: Path) -> None:
    """Delete a file, or a folder with all in it, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)
