"""What somebody else did to the rows of a table by Delta's own commands, which leave its log whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any
from urllib.parse import unquote

from cdc_views.landing.external.adaptation import ADAPTED
from cdc_views.state.identity import entry_of
from cdc_views.state.tail import ERASURE, RETENTION

_Actions = list[dict[str, Any]]
_TOLD = (b'{"txn"', b'{"commitInfo"')
"""How lines begin that say who committed: a commit may have many files."""


def why_taken(location: str, version: int, newest: int | None = None) -> str:
    """Return what took events out of a raw table after `version`; empty where all of them are there.

    Delta's DELETE, RESTORE and overwriting leave the log whole, and a file that landed is not landed again. Retention and
    `forget` mark their commits. A table that is derived from a found one follows it. What RESTORE brought back is there.

    Args:
        location: Where the raw table is. Nothing is said of one that is not on a local disk.
        version: What is known to have been there.
        newest: The newest version; None: the one before the first that is not there.
    """
    taken: dict[str, str] = {}
    made: dict[str, str] = {}
    for number in count(version + 1) if newest is None else range(version + 1, newest + 1):
        try:
            content = entry_of(location, number).read_bytes()
        except OSError:
            if newest is None:
                break
            continue  # Delta has removed the entry; what it took cannot be known
        if b'"remove"' not in content and not taken:
            continue
        actions = _actions(content.splitlines())
        if any(_changes(actions, "remove")) and not _says(actions, RETENTION, ERASURE, ADAPTED):
            _follow(actions, taken, made, f"{_named(actions, number)} took events out of it; {_undone(number)}")
        else:
            _follow(actions, taken, {}, "")
    return next(iter(taken.values()), "")


def why_changed(location: str, version: int, *, ours: str) -> str:
    """Return what somebody else did to the rows of a state or a serving table; empty for nothing that is not undone.

    Looked at are the newest commits, back to the last of ours: we would not have gone on from anybody else's.

    Args:
        location: Where the table is. Nothing is said of one that is not on a local disk.
        version: Its newest version.
        ours: How the transaction ids of our commits begin.
    """
    theirs: list[tuple[int, _Actions]] = []
    for number in range(version, -1, -1):
        try:
            content = entry_of(location, number).read_bytes()
        except OSError:
            break
        told = _actions(line for line in content.splitlines() if line.startswith(_TOLD))
        if _says(told, ERASURE):
            continue  # it takes keys out of whatever it finds
        if any(str(action["txn"]["appId"]).startswith(ours) for action in told if "txn" in action):
            break
        theirs.append((number, _actions(content.splitlines())))
    gone: dict[str, str] = {}
    come: dict[str, str] = {}
    for number, actions in reversed(theirs):
        _follow(actions, gone, come, f"{_named(actions, number)} is somebody else's; {_undone(number)}")
    return next(iter((gone | come).values()), "")


def _follow(actions: _Actions, gone: dict[str, str], come: dict[str, str], why: str) -> None:
    """Bring files that went, and those that came in their place, up to one commit, which is `why`; empty: it takes none."""
    for path in map(_path, _changes(actions, "remove")) if why else ():
        if come.pop(path, None) is None:
            gone[path] = why
    for add in (action["add"] for action in actions if "add" in action):
        path = _path(add)
        is_whole = not add.get("deletionVector")
        if is_whole and gone.pop(path, None) is None and add.get("dataChange", True):
            come[path] = why


def _named(actions: _Actions, number: int) -> str:
    told: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return f"its version {number} ({told.get('operation', 'unknown')})"


def _undone(number: int) -> str:
    return f"Delta's RESTORE to version {number - 1} undoes it"


def _actions(lines: Iterable[bytes]) -> _Actions:
    return list(map(json.loads, lines))


def _changes(actions: _Actions, kind: str) -> Iterator[dict[str, Any]]:
    return (action[kind] for action in actions if kind in action and action[kind].get("dataChange", True))


def _path(file: dict[str, Any]) -> str:
    return unquote(file["path"])


def _says(actions: _Actions, *marks: str) -> bool:
    told = [json.dumps(action) for action in actions if "commitInfo" in action or "txn" in action]
    return any(mark in text for text in told for mark in marks)
