"""Appends to a raw table: a file of rows, then one commit, which is put only if no other has its number.

A writer that lost looks at the commits that came first, and tries the next number unless one of them matters to it. So an append
that nobody disturbs costs a store two requests, however many commits the log has.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from cdc_views.landing.checkpoints import sum_up
from cdc_views.landing.delta import NewFile, append, delta_errors, open_delta, write_file
from cdc_views.landing.digests import note_commit
from cdc_views.landing.pacing import LONGEST
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.delta_log import Commit
from cdc_views.storage.table_log import TableLog
from cdc_views.storage.widening import has_columns

_ATTEMPTS = 100
_FIRST_PAUSE = 0.1
_OF_APPENDS = frozenset({"appendOnly", "invariants", "deletionVectors", "timestampNtz", "v2Checkpoint", "changeDataFeed"})
"""Delta's features that ask nothing of a writer that only adds files; deltalake knows the others."""


def appended(log: TableLog, rows: pa.Table, *, transactions: Mapping[str, int]) -> TableLog:
    """Append `rows` and record `transactions` in one commit after `log`; return the log after it. Adds missing columns.

    If `rows` are empty, records only the transaction ids. Raises `ConflictError` if somebody committed one of the same ids, or
    changed the table, since `log`; then nothing was written. Raises `EngineError` if the place takes no file (a full disk).
    """
    if not is_ready_for(log, rows.schema):
        append(open_delta(log.location, version=log.version), rows, transactions=transactions)
        return log.refreshed()
    file = log.folder / f"part-00000-{uuid4()}-c000.zstd.parquet"
    with delta_errors(log.location):
        written = write_file(file, [rows], schema=rows.schema) if rows.num_rows else None
    return with_files(log, [] if written is None else [written], transactions=transactions)


def is_ready_for(log: TableLog, schema: pa.Schema) -> bool:
    """Whether a commit of ours can add a file with these columns."""
    return has_columns(log.schema, schema) and log.writer_features <= _OF_APPENDS


def with_files(log: TableLog, files: Sequence[NewFile], *, transactions: Mapping[str, int]) -> TableLog:
    """Let files count, for which the table `is_ready_for`; otherwise as `appended`. A conflict removes the files."""
    commit = Commit("WRITE", tuple(file.added for file in files), transactions=transactions)
    try:
        with delta_errors(log.location):
            return committed(log, commit)
    except ConflictError:
        for file in files:
            file.path.unlink(missing_ok=True)
        raise


def committed(log: TableLog, commit: Commit, *, tasks: Tasks = HERE) -> TableLog:
    """Commit after `log`, or after later commits that do not matter to it; return the log after it. `tasks` read the new files,
    whose digests are noted. Raises `ConflictError` as `appended`, and if a file that the commit removes is not as it was.
    """
    after = _put(log, commit)
    sum_up(after.location, after.version, after.metadata.configuration)
    note_commit(after.location, after.version, tasks=tasks)
    return after


def _put(log: TableLog, commit: Commit) -> TableLog:
    is_local = isinstance(log.folder, Path)
    for attempt in range(_ATTEMPTS):
        try:
            return log.with_commit(commit.write(log.folder, after=log.version))
        except ConflictError:
            if not is_local:  # on a local disk a commit takes less than a pause
                time.sleep(random.uniform(0, min(LONGEST, _FIRST_PAUSE * 2 ** min(attempt, 20))))
            # after the pause: what came meanwhile would win again
            before, log = log, log.refreshed()
            _check(before, log, commit)
    raise ConflictError(f"{log.location}: {_ATTEMPTS} other commits came first; run the command again")


def _check(before: TableLog, log: TableLog, commit: Commit) -> None:
    """Raise `ConflictError` if a commit after `before` matters to `commit`."""
    ours = commit.transactions
    if log.metadata.id != before.metadata.id:
        raise ConflictError(f"{log.location}: another table is there by now; run the command again")
    for version, actions in log.actions(range(before.version + 1, log.version + 1)):
        kinds = {"metaData", "protocol"} if actions is None else {kind for action in actions for kind in action}
        ids = {str(action["txn"]["appId"]) for action in actions or () if "txn" in action}
        if not kinds.isdisjoint({"metaData", "protocol"}) or not ids.isdisjoint(ours):
            raise ConflictError(f"{log.location}: version {version} came first; run the command again")
    if any(log.added.get(file.path) != file for file in commit.removed):
        raise ConflictError(f"{log.location}: others changed files that were rewritten; run the command again")
