"""How servers are started and stopped, and the account they run under.

The account is this process's own, or `nobody`'s where this is root's, which servers refuse.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STOPS_WITHIN = 20.0
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_SIGNAL_OF_PARENTS_DEATH = 1
"""Linux, `prctl.h`: PR_SET_PDEATHSIG."""


@dataclass(frozen=True)
class Account:
    """Who runs a server; `number` is None for whoever runs the tests."""

    number: int | None = None

    @classmethod
    def unprivileged(cls) -> Account:
        return cls(pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None)

    def options(self) -> dict[str, Any]:
        """What `subprocess` needs to run something as this account."""
        return {} if self.number is None else {"user": self.number, "group": self.number, "extra_groups": []}

    def give(self, folder: Path) -> None:
        """Make a folder, and what is in it, this account's own."""
        folder.chmod(0o700)
        if self.number is not None:
            for place in (folder, *folder.rglob("*")):
                os.chown(place, self.number, -1, follow_symlinks=False)

    def reachable(self, folder: Path, *, copy_to: Path) -> Path:
        """Return a folder of programs that this account can read: itself, or a copy."""
        looked = subprocess.run(["ls", str(folder)], capture_output=True, check=False, timeout=10, **self.options())
        return folder if looked.returncode == 0 else Path(shutil.copytree(folder, copy_to, symlinks=True))


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launched(command: Sequence[str], *, number: int = signal.SIGKILL, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that gets this signal once ours has ended, however it was ended (on Linux; elsewhere it would stay).

    It hangs on the thread that calls this: call it from one that lives as long as the process is wanted.
    """
    return subprocess.Popen(command, preexec_fn=_ends_with(os.getpid(), number), **options)


def started(
    command: Sequence[str],
    answers: Callable[[], object],
    *,
    log: Path,
    within: float,
    failure: type[Exception],
    number: int = signal.SIGKILL,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Launch a server that adds to `log`, and wait until `answers` no longer raises `failure`.

    Raises:
        RuntimeError: It ended, or did not answer in time; with the end of the log.
    """
    with log.open("ab") as said:
        server = launched(command, number=number, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=log.parent, **options)
    deadline = time.monotonic() + within
    while True:
        try:
            answers()
            return server
        except failure:
            if time.monotonic() > deadline or server.poll() is not None:
                stop(server, signal.SIGKILL)
                raise RuntimeError(log.read_text(errors="replace")[-3000:]) from None
            time.sleep(0.05)


def _ends_with(parent: int, number: int) -> Callable[[], None] | None:
    if _LIBC is None:
        return None
    prctl = _LIBC.prctl

    def in_child() -> None:
        prctl(_SIGNAL_OF_PARENTS_DEATH, number, 0, 0, 0)
        if os.getppid() != parent:  # it has ended meanwhile, and nobody will tell
            os._exit(1)

    return in_child


def stop(server: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    """Stop a server by its pid; kill it where it does not."""
    if server.poll() is None:
        server.send_signal(number)
        try:
            server.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(_STOPS_WITHIN)
