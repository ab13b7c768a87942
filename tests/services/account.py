"""The account a server runs under: this process's own, or `nobody`'s where this is root's, which servers refuse."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STOPS_WITHIN = 20.0


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
            os.chown(folder, self.number, -1)

    def reachable(self, folder: Path, *, copy_to: Path) -> Path:
        """Return a folder of programs that this account can read: itself, or a copy."""
        looked = subprocess.run(["ls", str(folder)], capture_output=True, check=False, timeout=10, **self.options())
        return folder if looked.returncode == 0 else Path(shutil.copytree(folder, copy_to, symlinks=True))


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(server: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    """Stop a server by its pid; kill it where it does not."""
    if server.poll() is None:
        server.send_signal(number)
        try:
            server.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(_STOPS_WITHIN)
