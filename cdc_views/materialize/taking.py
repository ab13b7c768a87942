"""Whether somebody took events out of a raw table by Delta's own commands, which leave its log whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import unquote

from cdc_views.found.adapting import ADAPTED
from cdc_views.materialize.identity import entry_of
from cdc_views.materialize.tail import ERASURE, RETENTION


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
    made: set[str] = set()
    for number in count(version + 1) if newest is None else range(version + 1, newest + 1):
        try:
            content = entry_of(location, number).read_bytes()
        except OSError:
            if newest is None:
                break
            continue  # Delta has removed the entry; what it took cannot be known
        if b'"remove"' in content or taken:
            _follow(list(map(json.loads, content.splitlines())), taken, made, number)
    return next(iter(taken.values()), "")


def _follow(actions: list[dict[str, Any]], taken: dict[str, str], made: set[str], number: int) -> None:
    """Bring `taken`, files that are gone and why, and `made`, files that hold what others held, up to one commit."""
    gone = [_path(remove) for remove in _changes(actions, "remove")]
    if gone and not _is_ours(actions):
        told: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        took = f"its version {number} ({told.get('operation', 'unknown')}) took events out of it"
        why = f"{took}; Delta's RESTORE to version {number - 1} brings them back"
        taken.update((path, why) for path in gone if path not in made)
        made.update(map(_path, _changes(actions, "add")))
    for add in (action["add"] for action in actions if "add" in action):
        if not add.get("deletionVector"):
            taken.pop(_path(add), None)


def _changes(actions: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (action[kind] for action in actions if kind in action and action[kind].get("dataChange", True))


def _path(file: dict[str, Any]) -> str:
    return unquote(file["path"])


def _is_ours(actions: list[dict[str, Any]]) -> bool:
    marks = (RETENTION, ERASURE, ADAPTED)
    return any(mark in json.dumps(action) for action in actions if "commitInfo" in action or "txn" in action for mark in marks)
