"""One run at a time per table, across the processes that share the warehouse's folder.

The lock is for economy, not for correctness: two runs of a table waste work, and the second commit is refused, because a
commit of state is a compare-and-swap.

The operating system keeps the lock, and gives it back when its process ends, however it ends. It keeps hosts apart where
the locks of their shared file system do; on a file system without locks nothing keeps runs apart.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from cdc_views.errors import TableLockedError

_POLL = 0.2
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""What file systems without locks answer."""
_SOMEBODY = "another process"
"""Who has just taken the lock and not written its name."""


@contextmanager
def holding(folder: Path, *, table: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of `table`, kept in `folder`, for the length of the block.

    Args:
        folder: The table's own folder; made where it is missing.
        table: The table's name, for the message.
        wait: How many seconds to wait for another holder.

    Raises:
        TableLockedError: Somebody else holds it, and still does after `wait`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "holder"
    try:
        held = _held(FileLock(folder / "lock"), wait)
    except Timeout:
        raise TableLockedError(table=table, holder=_named(holder), waited=wait) from None
    with held:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {now}", encoding="utf-8")
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)


def _held(lock: FileLock, wait: float) -> AbstractContextManager[Any]:
    try:
        return lock.acquire(timeout=wait, poll_interval=_POLL)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return nullcontext()
        raise


def _named(holder: Path) -> str:
    try:
        return holder.read_text(encoding="utf-8") or _SOMEBODY
    except (OSError, UnicodeDecodeError):
        return _SOMEBODY
