"""The files that landed in a raw table since a state was brought up to date, from Delta's log.

Only commits that change data count: OPTIMIZE rewrites files that the state has read. After a commit that removes data (a
DELETE, an overwrite) the state has more than raw, so it must be rebuilt. Retention drops only facts that a state covers, and
marks its commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import EngineError, UsageError
from cdc_views.landing.delta import open_delta, recorded
from cdc_views.landing.raw_table import is_delta
from cdc_views.state.identity import entry_of, path_of

RETENTION = "cdc-views retention"
"""The mark, in the commit metadata, of a commit that drops only raw events that a state covers."""
ERASURE = "cdc-views erasure"
"""The mark of a commit that removes a forgotten key; `forget` also removes it from the state.

Each file that it adds has the facts of a file that it removes. It is new data only if the state has not read that file.
"""
DROPPED = "cdc-views:dropped-through"
"""The transaction id with the instant (µs) before which events were dropped from raw; 0: they were restored."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Raw events that a state does not hold yet."""

    version: int
    """The newest raw version in it."""
    files: tuple[str, ...] = ()
    """Absolute paths of the files to read. Facts that the state already has are harmless (rule M1)."""
    rows: int | None = 0
    """Facts in them; None if the log does not say."""
    rebuild: str = ""
    """Why the state must be rebuilt instead; empty if it need not be."""


@dataclass(frozen=True, slots=True)
class _Commit:
    adds: Sequence[Mapping[str, Any]]
    removes: Sequence[Mapping[str, Any]]
    mark: str
    """RETENTION, ERASURE or nothing."""


def tail_of(raw: DeltaTable, *, after: int) -> Tail:
    """Return the files that `raw`, at its open version, gained since version `after`.

    Without log entries, compares the files of both versions. Without version `after`, the state must be rebuilt.
    """
    version = raw.version()
    if after >= version:
        return Tail(version, rebuild="the raw table went back in time" if after > version else "")
    active = active_files(raw)
    entries = [entry_of(path_of(raw), number) for number in range(after + 1, version + 1)]
    if not all(entry.is_file() for entry in entries):
        return _by_difference(raw, active, after=after)
    added: dict[str, int | None] = {}
    for commit in map(_commit, entries):
        if why := _takes_away(commit, added):
            return Tail(version, rebuild=why)
        added |= {unquote(add["path"]): _rows_in(add) for add in commit.adds if add.get("dataChange", True)}
        if not commit.mark and any(unquote(gone["path"]) in added for gone in commit.removes):
            # new files were rewritten before the state read them: read their replacements
            return _by_difference(raw, active, after=after)
    return _tail(version, {path: added[path] for path in active if path in added}, active)


def rows_of(raw: DeltaTable) -> int | None:
    """Return how many facts the raw table has at its open version; None if its log does not say."""
    counts = pa.table(raw.get_add_actions(flatten=True)).column("num_records").to_pylist()
    return None if None in counts else sum(map(int, counts))


def _tail(version: int, rows: Mapping[str, int | None], active: Mapping[str, str]) -> Tail:
    known = [count for count in rows.values() if count is not None]
    return Tail(version, tuple(active[path] for path in rows), sum(known) if len(known) == len(rows) else None)


def _by_difference(raw: DeltaTable, active: Mapping[str, str], *, after: int) -> Tail:
    try:
        then = open_delta(raw.table_uri, version=after)
        before = active_files(then)
    except EngineError:
        return Tail(raw.version(), rebuild=f"version {after} of the raw table is gone")
    if recorded(then, DROPPED) != recorded(raw, DROPPED):
        return Tail(raw.version(), rebuild=f"events were dropped from the raw table after version {after}")
    return _tail(raw.version(), {path: None for path in active if path not in before}, active)


def active_files(raw: DeltaTable) -> dict[str, str]:
    """Return path in the table → absolute path, for each file of `raw` at its open version."""
    root = raw.table_uri.rstrip("/") + "/"
    local = root.removeprefix("file://")
    found = {}
    for uri in raw.file_uris():
        plain = unquote(uri)
        found[plain.removeprefix(root).removeprefix(local)] = plain
    return found


def _commit(entry: Path) -> _Commit:
    adds, removes, mark = [], [], ""
    for action in (json.loads(line) for line in entry.read_text("utf-8").splitlines() if line.strip()):
        if "add" in action:
            adds.append(action["add"])
        elif "remove" in action:
            removes.append(action["remove"])
        elif "commitInfo" in action:
            told = json.dumps(action["commitInfo"])
            mark = next((known for known in (RETENTION, ERASURE) if known in told), "")
    return _Commit(adds, removes, mark)


def _takes_away(commit: _Commit, added: Mapping[str, int | None]) -> str:
    has_vectors = any(add.get("deletionVector") for add in commit.adds)
    if not has_vectors and commit.mark == RETENTION and any(unquote(gone["path"]) in added for gone in commit.removes):
        return "events that this state has not seen were dropped from the raw table"
    is_deletion = not commit.mark and any(remove.get("dataChange", True) for remove in commit.removes)
    return "events were deleted from the raw table" if is_deletion or has_vectors else ""


def _rows_in(add: Mapping[str, Any]) -> int | None:
    count = json.loads(add.get("stats") or "{}").get("numRecords")
    return int(count) if count is not None else None


def dropped_through(location: str) -> int | None:
    """Return the instant (µs since the epoch) before which events were dropped from a raw table; None if none were."""
    if not is_delta(location):
        return None
    return recorded(open_delta(location), DROPPED) or None


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
