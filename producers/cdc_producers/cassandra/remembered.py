"""What an agent remembers from run to run: files of JSON in its work folder."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from cdc_views.model.whole_files import write_whole

_T = TypeVar("_T")


def recall(file: Path, kind: type[_T]) -> _T | None:
    """Return what was remembered; None where nothing was, or it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, ValueError):
        return None


def remember(file: Path, what: object) -> None:
    """Remember that, in the place of what was."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, msgspec.json.encode(what).decode())
