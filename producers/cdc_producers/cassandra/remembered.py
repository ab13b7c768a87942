"""What an agent remembers between runs, in files of its work folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from cdc_views.errors import UsageError
from cdc_views.model.whole_files import write_new, write_whole

_T = TypeVar("_T")
_LET_GO = "has-let-go"
_NODE = "node"


def recall(file: Path, kind: type[_T]) -> _T | None:
    """Return the content of a JSON file; None if the file is missing or unreadable."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, ValueError):
        return None


def remember(file: Path, what: object) -> None:
    """Write an object to a JSON file, replacing the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, msgspec.json.encode(what).decode())


def claim(work_folder: Path, host_id: str) -> None:
    """Make a work folder that of one node; raises `UsageError` if it is another's.

    Agents of several nodes may share a warehouse, and each may call its node 127.0.0.1.
    """
    file = work_folder / _NODE
    work_folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        write_new(file, host_id.encode())
    if (owner := file.read_text("ascii")) != host_id:
        raise UsageError(
            f"{work_folder}: is the work folder of node {owner}, and this agent's node is {host_id}; "
            "give each node's agent its own: --work-folder DIR"
        )


def has_let_go(work_folder: Path) -> bool:
    """Return whether an agent of this work folder ever removed a segment: then `cdc_raw` may lack something of a table."""
    return (work_folder / _LET_GO).exists()


def note_let_go(work_folder: Path) -> None:
    """Note that a segment is about to be removed; see `has_let_go`."""
    work_folder.mkdir(parents=True, exist_ok=True)
    (work_folder / _LET_GO).touch()
