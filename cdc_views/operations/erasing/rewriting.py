"""Rewrites files of a Delta table, one for one, in one commit. Delta's DELETE and UPDATE will not do: they put the condition, and
so the key, into the log, change the order of rows, and write Arrow types (deltalake) that pyarrow cannot filter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction
from pyroaring import BitMap64

from cdc_views.errors import UnsupportedError
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.digests import changed_among, check_as_written, note_commit
from cdc_views.landing.spreading import HERE, Tasks, leaving_nothing
from cdc_views.plan.names import LANDED
from cdc_views.storage import deletion_vectors
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_log import Commit
from cdc_views.storage.places import Place, arrow_sink, arrow_source, copy_file, place_of, size_of
from cdc_views.storage.table_log import TableLog

Change = Callable[[pa.Table], pa.Table]
"""Returns the rows to keep, or the same object if all stay unchanged."""


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """A file to rewrite into one whose name begins with `name`."""

    location: str
    file: DataFile
    name: str


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """The new file of the rows that stay, which no commit names yet; `path` is within the table. Of 0 rows there is no file."""

    path: str
    rows: int
    size: int


def rewrite(
    table: DeltaTable,
    change: Change,
    *,
    mark: str,
    transactions: Mapping[str, int] | None = None,
    seen: Collection[str] = (),
    among: Collection[str] | None = None,
    tasks: Tasks = HERE,
) -> int:
    """Rewrite the files of a table that `change` changes, in one commit; return how many.

    `tasks` call `change` with some rows of one file at a time, maybe twice. `mark` is the commit's comment; it records
    `transactions`. `among` are the files (absolute paths) of which `change` changes rows; without it, all are read to know.
    Rewrites files in `seen` (absolute paths) without a data change, so that readers of changes do not see their rows again.
    Raises `ConflictError` if somebody else removed one of the files since the version that is open, and `DamagedFileError` if the
    bytes of one of them changed.
    """
    root = place_of(table.table_uri)
    if _has_vectors(table) and seen:
        raise UnsupportedError(
            f"{table.table_uri}: has deletion vectors, which somebody else wrote",
            remedy="purge them (REORG … APPLY (PURGE)) and disable them",
        )
    added = TableLog.open(root, version=table.version()).added
    files = [file for _, file in sorted(added.items()) if among is None or str(root / file.path) in among]
    name = f"part-{uuid4()}"
    work, sizes = [_Rewriting(str(root), file, name) for file in files], [file.size for file in files]
    with leaving_nothing(str(root), name):
        done = tasks.each(partial(_rewritten, change, is_sure=among is not None), work, sizes=sizes, sees=[str(root)])
        replaced = [(file, new) for file, new in zip(files, done, strict=True) if new is not None]
        check_as_written(str(root), [file.path for file, _ in replaced], what="table", tasks=tasks)
    if replaced and _has_vectors(table):
        _commit_live(table, root, replaced, mark=mark, transactions=transactions or {})
    elif replaced:
        actions = [action for file, new in replaced for action in _replacing(file, new, is_seen=str(root / file.path) in seen)]
        commit_actions(table, actions, mark=mark, transactions=transactions, tasks=tasks)
    return len(replaced)


def _rewritten(change: Change, task: _Rewriting, *, is_sure: bool) -> _Rewritten | None:
    """Write the rows that stay of a file, without those that a deletion vector hides; None if all stay."""
    root, file = place_of(task.location), task.file
    old = root / file.path
    if not (is_sure or any(change(rows) is not rows for rows in batches(old))):
        return None
    path = str(PurePosixPath(file.path).with_name(f"{task.name}-{uuid4()}.parquet"))
    hidden = BitMap64() if file.deleted is None else deletion_vectors.read(root, file.deleted)
    rows = written(old, root / path, change, hidden=hidden)
    return _Rewritten(path, rows, size_of(str(root / path)) if rows else 0)


def _commit_live(
    table: DeltaTable, root: Place, replaced: Sequence[tuple[DataFile, _Rewritten]], *, mark: str, transactions: Mapping[str, int]
) -> None:
    """Commit files without the rows that deletion vectors hide; see `rewrite`."""
    gone, now = tuple(file for file, _ in replaced), int(time.time() * 1000)
    added = [DataFile(new.path, file.partition, new.size, new.rows, now, file.tags) for file, new in replaced if new.rows]
    Commit("DELETE", tuple(added), gone, transactions, mark).write(root, after=table.version())
    note_commit(str(root), table.version() + 1)


def _replacing(file: DataFile, new: _Rewritten, *, is_seen: bool) -> Iterator[Any]:
    now, parts = int(time.time() * 1000), dict(file.partition)
    if new.rows:
        yield AddAction(new.path, new.size, parts, now, data_change=not is_seen, stats=statistics(new.rows))
    yield RemoveAction(file.path, data_change=True, deletion_timestamp=now, size=file.size, partition_values=parts)


def without_bounds(table: DeltaTable, *, tasks: Tasks = HERE) -> int:
    """Replace each file that has bounds of values in the log with a copy without bounds; returns how many. A landing time is no
    such value. The commit removes the old file, so it raises `ConflictError`, instead of restoring the file, if another commit
    removed it.
    """
    if _has_vectors(table):
        return 0
    known = pa.table(table.get_add_actions(flatten=True))
    bounds = [name for name in known.column_names if name.startswith(("min.", "max.")) and not name.endswith(f".{LANDED}")]
    stats = known.select(["path", *bounds]).to_pylist()
    wanted = {action["path"] for action in stats if any(action[name] is not None for name in bounds)}
    root = place_of(table.table_uri)
    damaged = changed_among(str(root), map(unquote, wanted), tasks=tasks)  # their copies would get new digests
    wanted = {path for path in wanted if unquote(path) not in damaged}
    files = [file for file in pa.table(table.get_add_actions()).to_pylist() if file["path"] in wanted]
    sizes = [file["size_bytes"] for file in files]
    copies = tasks.each(partial(_copied, str(root)), [unquote(file["path"]) for file in files], sizes=sizes, sees=[str(root)])
    actions = [action for file, copy in zip(files, copies, strict=True) for action in _replacing_by_copy(file, copy)]
    if actions:
        commit_actions(table, actions, mark="cdc-views without bounds", tasks=tasks)
    return len(wanted)


def _copied(location: str, path: str) -> str:
    """Copy a file of a table under a new name, which each attempt chooses itself; return its path."""
    copy = str(PurePosixPath(path).with_name(f"part-00000-{uuid4()}-c000.zstd.parquet"))
    copy_file(place_of(location) / path, place_of(location) / copy)
    return copy


def _replacing_by_copy(file: dict[str, Any], copy: str) -> Iterator[Any]:
    """Yield the actions, without a data change; the copy keeps the modification time."""
    made, size, parts = file["modification_time"], file["size_bytes"], dict(file.get("partition") or {})
    at = int(made.timestamp() * 1000) if isinstance(made, datetime) else int(made)
    yield AddAction(copy, size, parts, at, data_change=False, stats=statistics(file["num_records"]))
    gone, path = int(time.time() * 1000), unquote(file["path"])
    yield RemoveAction(path, data_change=False, deletion_timestamp=gone, size=size, partition_values=parts)


def commit_actions(
    table: DeltaTable, actions: list[Any], *, mark: str, transactions: Mapping[str, int] | None = None, tasks: Tasks = HERE
) -> None:
    """Commit additions and removals of files; see `rewrite`."""
    parts = list(table.metadata().partition_columns)
    recorded = [Transaction(name, number) for name, number in (transactions or {}).items()]
    properties = CommitProperties({"comment": mark}, app_transactions=recorded or None)
    with delta_errors(table.table_uri):
        table.create_write_transaction(
            actions, mode="append", schema=table.schema(), partition_by=parts or None, commit_properties=properties
        )
        before = table.version()
        table.update_incremental()
        for version in range(before + 1, table.version() + 1):  # others may have committed, too
            note_commit(table.table_uri, version, tasks=tasks)


def batches(file: Place) -> Iterator[pa.Table]:
    """Yield a Parquet file's rows in batches, in types that pyarrow can filter."""
    with pq.ParquetFile(arrow_source(file)) as opened:
        yield from _batches(opened)


def matching(file: Place, condition: ds.Expression, *, by: Collection[str]) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file that meet a condition on the columns `by`, as `batches` does; none if the file lacks one.

    It reads the other columns only of row groups that have such rows: few do, and a fact's values are most of its bytes.
    """
    with pq.ParquetFile(arrow_source(file)) as opened:
        if not set(by) <= set(opened.schema_arrow.names):
            return
        for group in range(opened.num_row_groups):
            if any(rows.filter(condition).num_rows for rows in _batches(opened, groups=[group], columns=sorted(by))):
                found = (rows.filter(condition) for rows in _batches(opened, groups=[group]))
                yield from (rows for rows in found if rows.num_rows)


def _batches(opened: pq.ParquetFile, *, groups: list[int] | None = None, columns: list[str] | None = None) -> Iterator[pa.Table]:
    for batch in opened.iter_batches(row_groups=groups, columns=columns):
        yield pa.Table.from_batches([batch]).cast(pa.schema([field.with_type(_plain(field.type)) for field in batch.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind) else kind


def written(old: Place, new: Place, change: Change, *, hidden: BitMap64 | None = None) -> int:
    """Write the rows that `change` keeps to a new Parquet file; returns how many. Writes no file for 0 rows, and no row at a
    position in `hidden`.
    """
    count = 0
    writer: pq.ParquetWriter | None = None
    with ExitStack() as sink:
        for rows in map(change, live(old, hidden or BitMap64())):
            if rows.num_rows:
                writer = writer or pq.ParquetWriter(sink.enter_context(arrow_sink(new)), rows.schema, compression="zstd")
                writer.write_table(rows)
                count += rows.num_rows
        if writer:
            writer.close()
    return count


def live(file: Place, hidden: BitMap64) -> Iterator[pa.Table]:
    """Yield a file's rows as `batches` does, without those at positions in `hidden`."""
    start = 0
    for rows in batches(file):
        mine = [position - start for position in hidden & BitMap64(range(start, start + rows.num_rows))]
        start += rows.num_rows
        gone = set(mine)
        yield rows.filter(pa.array([place not in gone for place in range(rows.num_rows)])) if gone else rows


def statistics(rows: int) -> str:
    """Return a file's statistics for Delta's log: the number of rows, without bounds."""
    return json.dumps({"numRecords": rows})


def _has_vectors(table: DeltaTable) -> bool:
    return "deletionVectors" in (table.protocol().reader_features or [])
