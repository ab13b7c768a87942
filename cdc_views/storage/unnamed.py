"""Where something is for which nobody named a place: under the warehouse. Earlier versions put it beside the project file, and
what is there already stays there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

QUARANTINE_SUFFIX = "__quarantine"
"""What the name of a raw table's quarantine ends with; the rest is the raw table's."""


def settled(place: Path, earlier: Path, *, is_used: Callable[[Path], bool]) -> Path | None:
    """Return `earlier` if that alone is in use, `place` if it is or neither is; None if both are, and are not one folder."""
    if not is_used(earlier) or os.path.realpath(place) == os.path.realpath(earlier):
        return place
    return None if is_used(place) else earlier


def has_events(raw: Path) -> bool:
    """Whether there is a raw table at `raw`, or its quarantine, which comes first; raises `OSError` if nobody can tell."""
    return _is_table(raw) or _is_table(raw.with_name(raw.name + QUARANTINE_SUFFIX))


def _is_table(folder: Path) -> bool:
    try:
        return stat.S_ISDIR((folder / "_delta_log").stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
