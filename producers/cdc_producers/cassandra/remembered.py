"""What an agent remembers from run to run: files in its work folder."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from cdc_views.model.whole_files import write_whole

_T = TypeVar("_T")
_LET_GO = "has-let-go"


def recall(file: Path, kind: type[_T]) -> _T | None:
    """Return what a file of JSON has; None if there is no such file, or it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, ValueError):
        return None


def remember(file: Path, what: object) -> None:
    """Write that to a file as JSON, in the place of what was there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, msgspec.json.encode(what).decode())


def has_let_go(work_folder: Path) -> bool:
    """Whether an agent with this work folder ever deleted or archived a segment: `cdc_raw` may lack what a table needs."""
    return (work_folder / _LET_GO).exists()


def note_let_go(work_folder: Path) -> None:
    """Note that a segment is about to be deleted; see `has_let_go`."""
    work_folder.mkdir(parents=True, exist_ok=True)
    (work_folder / _LET_GO).touch()
