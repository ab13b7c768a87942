"""Changes of a raw table since a state was brought up to date, from Delta's log: new files, and events that were removed.

Only commits that change data count: OPTIMIZE rewrites files that the state has read. After a commit that removes data (a DELETE,
an overwrite) the state has more than raw, so it must be rebuilt. Retention drops only covered facts, and marks its commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from cdc_views.errors import EngineError, UsageError
from cdc_views.landing.external.adaptation import ADAPTED
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.table_log import TableLog

RETENTION = "cdc-views retention"  # marks a commit that drops only raw events that a state covers
ERASURE = "cdc-views erasure"
"""Marks a commit that removes a forgotten key, which `forget` also removes from the state. Each file that it adds has the facts
of a file that it removes, and is new only for a state that has not read that file.
"""
DROPPED = "cdc-views:dropped-through"  # transaction id of the instant (µs) before which raw events were dropped; 0: restored
_Actions = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tail:
    """Raw events that a state does not hold yet."""

    version: int  # the newest raw version in it
    files: tuple[str, ...] = ()  # absolute paths of the files to read; facts that the state already has are harmless (rule M1)
    rows: int | None = 0  # facts in them; None if the log does not have it
    rebuild: str = ""  # why the state must be rebuilt instead; empty if it need not be


def tail_of(raw: TableLog, *, after: int) -> Tail:
    """Return the files that `raw`, at its open version, gained since version `after`. Without log entries, compares the files of
    both versions. Without version `after`, the state must be rebuilt.
    """
    version = raw.version
    if after >= version:
        return Tail(version, rebuild="the raw table went back in time" if after > version else "")
    added: dict[str, int | None] = {}
    for _, actions in raw.actions(range(after + 1, version + 1)):
        if actions is None:
            return _by_difference(raw, after=after)
        gone = set(map(_path, _files(actions, "remove")))
        if why := _takes_away(actions, is_unseen=not gone.isdisjoint(added)):
            return Tail(version, rebuild=why)
        added |= {file.path: file.told for file in map(DataFile.of, _changes(actions, "add"))}
        if not _has_mark(actions, RETENTION, ERASURE) and not gone.isdisjoint(added):
            # new files were rewritten before the state read them: read their replacements
            return _by_difference(raw, after=after)
    return _tail(raw, {path: added[path] for path in raw.added if path in added})


@dataclass(frozen=True, slots=True)
class LandedCommit:
    """A commit that landed facts: its version, its time by the writer's clock (ms; None: unknown), and its files as logged."""

    version: int
    committed: int | None
    files: tuple[Mapping[str, Any], ...]


def landings(raw: TableLog, *, after: int, through: int) -> Iterator[LandedCommit]:
    """Yield the commits of a raw table that landed facts, without those whose log entries are gone."""
    for version, actions in raw.actions(range(after + 1, through + 1)):
        found = None if actions is None else _landed_by(version, actions)
        if found is not None:
            yield found


def _landed_by(version: int, actions: _Actions) -> LandedCommit | None:
    # commits with a mark write facts again that landed before; others without files only note how far a source was read
    files = () if _has_mark(actions, RETENTION, ERASURE) else tuple(_changes(actions, "add"))
    return LandedCommit(version, _time_of(actions), files) if files else None


def last_landed(raw: TableLog) -> int | None:
    """Return when facts landed last (ms, by the writer's clock). Where the log's entries have no such commit any more, the time
    of the oldest: facts landed before that. None if the log does not say.
    """
    through, some, oldest = raw.version, 1, None  # mostly it is the newest commit
    while through >= 0:
        after = max(-1, through - some)
        entries = [(version, actions) for version, actions in raw.actions(range(after + 1, through + 1)) if actions is not None]
        for version, actions in reversed(entries):
            if (found := _landed_by(version, actions)) is not None and found.committed is not None:
                return found.committed
            oldest = _time_of(actions) or oldest
        if len(entries) < through - after:
            break
        through, some = after, some * 8
    return oldest


def committed_at(log: TableLog, version: int) -> int | None:
    """Return the time (ms) of a commit by its writer's clock; None if the log does not say."""
    ((_, actions),) = log.actions([version])
    return None if actions is None else _time_of(actions)


def _time_of(actions: _Actions) -> int | None:
    times = [action["commitInfo"].get("timestamp") for action in actions if "commitInfo" in action]
    return int(times[0]) if times and times[0] is not None else None


def rows_of(raw: TableLog) -> int | None:
    """Return how many facts the raw table has at its open version; None if its log does not say."""
    return _sum(file.told for file in raw.added.values())


def bytes_of(raw: TableLog) -> int:
    """Return the bytes of the raw table's files at its open version."""
    return sum(file.size for file in raw.added.values())


def _tail(raw: TableLog, rows: Mapping[str, int | None]) -> Tail:
    return Tail(raw.version, tuple(map(raw.path, rows)), _sum(rows.values()))


def _sum(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)


def _by_difference(raw: TableLog, *, after: int) -> Tail:
    try:
        then = TableLog.open(raw.location, version=after)
        before = then.added
    except EngineError:
        return Tail(raw.version, rebuild=f"version {after} of the raw table is gone")
    if then.transaction(DROPPED) != raw.transaction(DROPPED):
        return Tail(raw.version, rebuild=f"events were dropped from the raw table after version {after}")
    return _tail(raw, {path: None for path in raw.added if path not in before})


def _takes_away(actions: _Actions, *, is_unseen: bool) -> str:
    """Return why a state must be rebuilt after a commit; `is_unseen`: it removes files that the state has not read."""
    has_vectors = any(add.get("deletionVector") for add in _files(actions, "add"))
    if is_unseen and not has_vectors and _has_mark(actions, RETENTION):
        return "events that this state has not seen were dropped from the raw table"
    is_deletion = any(_changes(actions, "remove")) and not _has_mark(actions, RETENTION, ERASURE)
    return "events were deleted from the raw table" if is_deletion or has_vectors else ""


def dropped_through(location: str) -> int | None:
    """Return the instant (µs since the epoch) before which events were dropped from a raw table; None if none were."""
    raw = TableLog.find(location)
    return None if raw is None else raw.transaction(DROPPED) or None


def check_whole(location: str, *, what: str) -> None:
    """Raise `UsageError` if events were dropped from the raw table, which `what` needs."""
    instant = dropped_through(location)
    if instant is None:
        return
    when = datetime.fromtimestamp(instant / 1_000_000, timezone.utc).isoformat(timespec="seconds")
    raise UsageError(
        f"{location}: events that landed before {when} were dropped from raw, so {what} would be wrong: the state has only "
        "what won; restore their archive with `cdc-views maintain --restore-raw DIR`, or ask what state and newer events tell"
    )


def why_taken(raw: TableLog, version: int) -> str:
    """Return which commit removed events from a raw table after `version`, which had all; empty if none did. DELETE, RESTORE and
    overwrites count, since landing does not land a file again. Marked commits (retention, `forget`, derived tables) and events
    that a RESTORE brought back do not count.
    """
    taken: dict[str, str] = {}
    made: dict[str, str] = {}
    for number, actions in raw.actions(range(version + 1, raw.version + 1)):
        if actions is None:
            continue  # Delta has removed the entry, so its changes are unknown
        if any(_changes(actions, "remove")) and not _has_mark(actions, RETENTION, ERASURE, ADAPTED):
            _follow(actions, taken, made, f"{_named(actions, number)} took events out of it; {_undone(number)}")
        else:
            _follow(actions, taken, {}, "")
    return next(iter(taken.values()), "")


def why_changed(log: TableLog, *, ours: str) -> str:
    """Return how somebody else changed the rows of a state or a serving table; empty if nobody did, or it was undone. Reads the
    commits from the newest back to our newest, whose transaction id begins with `ours`; ours never build on another's.
    """
    theirs: list[tuple[int, _Actions]] = []
    for number in range(log.version, -1, -1):
        ((_, actions),) = log.actions([number])
        if actions is None:
            break
        if _has_mark(actions, ERASURE):
            continue  # `forget` may follow any commit
        if any(str(action["txn"]["appId"]).startswith(ours) for action in actions if "txn" in action):
            break
        theirs.append((number, actions))
    gone: dict[str, str] = {}
    come: dict[str, str] = {}
    for number, actions in reversed(theirs):
        _follow(actions, gone, come, f"{_named(actions, number)} is somebody else's; {_undone(number)}")
    return next(iter((gone | come).values()), "")


def _follow(actions: _Actions, gone: dict[str, str], come: dict[str, str], why: str) -> None:
    """Apply one commit to the files `gone` and `come` since, noting `why`; without a `why`, its removals do not count."""
    for path in map(_path, _changes(actions, "remove")) if why else ():
        if come.pop(path, None) is None:
            gone[path] = why
    for add in _files(actions, "add"):
        path = _path(add)
        is_whole = not add.get("deletionVector")
        if is_whole and gone.pop(path, None) is None and add.get("dataChange", True):
            come[path] = why


def _named(actions: _Actions, number: int) -> str:
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return f"its version {number} ({info.get('operation', 'unknown')})"


def _undone(number: int) -> str:
    return f"Delta's RESTORE to version {number - 1} undoes it"


def _files(actions: _Actions, kind: str) -> Iterator[dict[str, Any]]:
    return (action[kind] for action in actions if kind in action)


def _changes(actions: _Actions, kind: str) -> Iterator[dict[str, Any]]:
    return (file for file in _files(actions, kind) if file.get("dataChange", True))


def _path(file: dict[str, Any]) -> str:
    return unquote(file["path"])


def _has_mark(actions: _Actions, *marks: str) -> bool:
    authors = [json.dumps(action) for action in actions if "commitInfo" in action or "txn" in action]
    return any(mark in text for text in authors for mark in marks)
