"""Commands for which permissions of files count, also where tests run as root."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

_DROP_OF_EVERY_CHILD = 24
"""PR_CAPBSET_DROP of prctl(2)."""
_IGNORING = (1, 2, 3)
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER of capabilities(7)."""


def cdc_views_unprivileged(*args: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in the current folder, as a user whom permissions bind."""
    command = [sys.executable, "-m", "cdc_views", *args]
    return subprocess.run(command, preexec_fn=_bound, capture_output=True, text=True, check=False, timeout=120)


def _bound() -> None:
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _IGNORING:
        if libc.prctl(_DROP_OF_EVERY_CHILD, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
