"""Who holds a table's lock: enough to say so in a message, and to see that they are gone."""

from __future__ import annotations

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

_STARTED = 19
"""`starttime` (field 22) among the fields of /proc/PID/stat that follow the command's name. Source: proc(5)."""
_STATE = 0
_DEAD = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Owner:
    """One holding of a lock.

    Attributes:
        host: Its name, for people.
        kernel: The boot that the process runs under: equal for containers of one machine, another after a reboot.
        namespace: The process namespace that `pid` is a number of; empty where the system has none.
        pid: The process.
        started: When it started, in ticks since the boot, so that another process of the same number is not mistaken
            for it; empty where the system does not say.
        token: Random; no two holdings share one.
        since: When the lock was taken, ISO 8601 in UTC.
        is_released: Whether the holder gave the lock back.
    """

    host: str
    kernel: str
    namespace: str
    pid: int
    started: str
    token: str
    since: str
    is_released: bool = False

    @classmethod
    def this_process(cls) -> Owner:
        """Return an owner for this process, with a new token."""
        pid, host = os.getpid(), socket.gethostname()
        return cls(
            host=host,
            kernel=_text("/proc/sys/kernel/random/boot_id") or host,
            namespace=_link("/proc/self/ns/pid"),
            pid=pid,
            started=_started(pid) or "",
            token=secrets.token_hex(8),
            since=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    @classmethod
    def read(cls, path: Path) -> Owner | None:
        """Return the owner in the file; None where there is none, or it was cut off while being written."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def released(self) -> Owner:
        """Return the owner once it gave the lock back."""
        return replace(self, is_released=True)

    def to_json(self) -> str:
        """Return what `read` reads."""
        return json.dumps(asdict(self))

    def is_seen_from(self, other: Owner) -> bool:
        """Whether the process numbers of the two mean the same processes."""
        return (self.kernel, self.namespace) == (other.kernel, other.namespace)

    def is_running(self) -> bool:
        """Whether the process is there; only where it `is_seen_from` this process."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        started = _started(self.pid)
        return not self.started or started == self.started

    def __str__(self) -> str:
        """The owner as a message names it."""
        return f"process {self.pid} on {self.host}, since {self.since}"


def _started(pid: int) -> str | None:
    """When the process started, in ticks since the boot; None for one that is not there or has ended."""
    # the command's name is in parentheses and may hold spaces and parentheses
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[_STARTED] if len(fields) > _STARTED and fields[_STATE] not in _DEAD else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
