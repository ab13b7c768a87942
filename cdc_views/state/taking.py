"""Changes that others made to a table's rows by Delta's own commands, found in its log."""

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
_AUTHOR = (b'{"txn"', b'{"commitInfo"')
"""How log lines begin that name the author of a commit; the others, one a file, may be many."""


def why_taken(location: str, version: int, newest: int | None = None) -> str:
    """Return which commit took events out of a raw table after `version`, which had all; empty if none did.

    DELETE, RESTORE and overwriting take events, and landing does not land a file again. Commits of retention, of `forget`
    and of tables derived from found ones are marked, and do not count. Neither do events that a RESTORE brought back.

    Without the `newest` version, reads on to the first that does not exist. Empty for a table that is not on a local disk.
    """
    taken: dict[str, str] = {}
    made: dict[str, str] = {}
    for number in count(version + 1) if newest is None else range(version + 1, newest + 1):
        try:
            content = entry_of(location, number).read_bytes()
        except OSError:
            if newest is None:
                break
            continue  # Delta has removed the entry, so its changes are unknown
        if b'"remove"' not in content and not taken:
            continue
        actions = _actions(content.splitlines())
        if any(_changes(actions, "remove")) and not _has_mark(actions, RETENTION, ERASURE, ADAPTED):
            _follow(actions, taken, made, f"{_named(actions, number)} took events out of it; {_undone(number)}")
        else:
            _follow(actions, taken, {}, "")
    return next(iter(taken.values()), "")


def why_changed(location: str, version: int, *, ours: str) -> str:
    """Return how somebody else changed the rows of a state or a serving table; empty if nobody did, or it was undone.

    Reads the commits from its newest `version` back to the newest of ours, which never builds on another's: the one with a
    transaction id that begins with `ours`. Empty for a table that is not on a local disk.
    """
    theirs: list[tuple[int, _Actions]] = []
    for number in range(version, -1, -1):
        try:
            content = entry_of(location, number).read_bytes()
        except OSError:
            break
        authors = _actions(line for line in content.splitlines() if line.startswith(_AUTHOR))
        if _has_mark(authors, ERASURE):
            continue  # `forget` may follow any commit
        if any(str(action["txn"]["appId"]).startswith(ours) for action in authors if "txn" in action):
            break
        theirs.append((number, _actions(content.splitlines())))
    gone: dict[str, str] = {}
    come: dict[str, str] = {}
    for number, actions in reversed(theirs):
        _follow(actions, gone, come, f"{_named(actions, number)} is somebody else's; {_undone(number)}")
    return next(iter((gone | come).values()), "")


def _follow(actions: _Actions, gone: dict[str, str], come: dict[str, str], why: str) -> None:
    """Apply one commit to the files `gone` and `come` since, noting `why`; if that is empty, its removals do not count."""
    for path in map(_path, _changes(actions, "remove")) if why else ():
        if come.pop(path, None) is None:
            gone[path] = why
    for add in (action["add"] for action in actions if "add" in action):
        path = _path(add)
        is_whole = not add.get("deletionVector")
        if is_whole and gone.pop(path, None) is None and add.get("dataChange", True):
            come[path] = why


def _named(actions: _Actions, number: int) -> str:
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return f"its version {number} ({info.get('operation', 'unknown')})"


def _undone(number: int) -> str:
    return f"Delta's RESTORE to version {number - 1} undoes it"


def _actions(lines: Iterable[bytes]) -> _Actions:
    return list(map(json.loads, lines))


def _changes(actions: _Actions, kind: str) -> Iterator[dict[str, Any]]:
    return (action[kind] for action in actions if kind in action and action[kind].get("dataChange", True))


def _path(file: dict[str, Any]) -> str:
    return unquote(file["path"])


def _has_mark(actions: _Actions, *marks: str) -> bool:
    authors = [json.dumps(action) for action in actions if "commitInfo" in action or "txn" in action]
    return any(mark in text for text in authors for mark in marks)
