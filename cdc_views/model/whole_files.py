"""Files replaced as a whole: who reads one meanwhile, or after a crash, finds what was there before or what is there now."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def write_whole(file: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a UTF-8 file, by any number of threads and processes at once: one of theirs stays, whole.

    On disk once this returns. `mode` is that of a new file, before the umask. Raises `OSError` as writing does.
    """
    # a name of its own: a draft that two writers share is renamed by the first, and missing for the second
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
