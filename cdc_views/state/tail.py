"""The files that landed in a raw table since a state was brought up to date, from Delta's log.

Only commits that change data count: OPTIMIZE rewrites files that the state has read. After a commit that removes data (a
DELETE, an overwrite) the state has more than raw, so it must be rebuilt. Retention drops only facts that a state covers, and
marks its commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import EngineError
from cdc_views.landing.delta import delta_errors, recorded
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
    """Raw events that a state does not hold yet.

    Attributes:
        version: The newest raw version in it.
        files: Absolute paths of the files to read. Facts that the state already has are harmless (rule M1).
        rows: Facts in them; None if the log does not say.
        rebuild: Why the state must be rebuilt instead; empty if it need not be.
    """

    version: int
    files: tuple[str, ...] = ()
    rows: int | None = 0
    rebuild: str = ""


@dataclass(frozen=True, slots=True)
class _Commit:
    adds: tuple[Mapping[str, Any], ...]
    removes: tuple[Mapping[str, Any], ...]
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
    commits = [_commit(raw, number) for number in range(after + 1, version + 1)]
    if any(commit is None for commit in commits):
        return _by_difference(raw, active, after=after)
    added: dict[str, int | None] = {}
    for commit in commits:
        assert commit is not None
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
    counts = list(rows.values())
    known = [count for count in counts if count is not None]
    return Tail(version, tuple(active[path] for path in rows), sum(known) if len(known) == len(counts) else None)


def _by_difference(raw: DeltaTable, active: Mapping[str, str], *, after: int) -> Tail:
    try:
        with delta_errors(raw.table_uri):
            then = DeltaTable(raw.table_uri, version=after)
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


def _commit(raw: DeltaTable, version: int) -> _Commit | None:
    path = entry_of(path_of(raw), version)
    if not path.is_file():
        return None
    adds, removes, mark = [], [], ""
    for action in _actions(path):
        if "add" in action:
            adds.append(action["add"])
        elif "remove" in action:
            removes.append(action["remove"])
        elif "commitInfo" in action:
            told = json.dumps(action["commitInfo"])
            mark = next((known for known in (RETENTION, ERASURE) if known in told), "")
    return _Commit(tuple(adds), tuple(removes), mark)


def _actions(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _takes_away(commit: _Commit, added: Mapping[str, int | None]) -> str:
    if any(add.get("deletionVector") for add in commit.adds):
        return "events were deleted from the raw table"
    if commit.mark == RETENTION and any(unquote(gone["path"]) in added for gone in commit.removes):
        return "events that this state has not seen were dropped from the raw table"
    if commit.mark or not any(remove.get("dataChange", True) for remove in commit.removes):
        return ""
    return "events were deleted from the raw table"


def _rows_in(add: Mapping[str, Any]) -> int | None:
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    count = stats.get("numRecords")
    return int(count) if count is not None else None
