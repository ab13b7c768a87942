"""Files replaced as a whole: a reader, even after a crash, finds the old content or the new, never a mixture."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def write_whole(file: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a UTF-8 file, on disk when this returns. If several threads or processes write it at once, one text stays, whole.

    `mode` applies to a new file, before the umask. Raises `OSError` as writing does.
    """
    # a unique name: of two writers that share a draft, the second would find it renamed away
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
