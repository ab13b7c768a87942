"""Files of a Delta table written anew, one for one, in one commit.

Not by Delta's DELETE or UPDATE: those put the condition, and so the key, into the log, change the order of rows, and
deltalake's write Arrow types that pyarrow cannot filter by.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from cdc_views.errors import UnsupportedError
from cdc_views.landing.delta import delta_errors

Change = Callable[[pa.Table], pa.Table]
"""Rows into the rows to keep; the same object where all are kept as they are."""


def rewrite(
    table: DeltaTable,
    change: Change,
    *,
    mark: str,
    transactions: Sequence[Transaction] = (),
    seen: Collection[str] = (),
) -> bool:
    """Write the files that `change` changes anew; returns whether there were any.

    Args:
        table: On a local disk, at the version that this builds on.
        change: Called with some rows of one file at a time, maybe twice.
        mark: Stands in the commit's `comment`.
        transactions: Recorded with it.
        seen: Absolute paths of files whose rows are no news: what they are rewritten to is no data change.

    Raises `ConflictError` where somebody else removed one of the files meanwhile.
    """
    _check_vectors(table)
    root = Path(unquote(table.table_uri.removeprefix("file://")))
    actions: list[Any] = []
    for file in pa.table(table.get_add_actions()).to_pylist():
        old = root / unquote(file["path"])
        if any(change(rows) is not rows for rows in batches(old)):
            actions += _replaced(root, file, change, is_seen=str(old) in seen)
    if not actions:
        return False
    properties = CommitProperties({"comment": mark}, app_transactions=list(transactions) or None)
    parts = list(table.metadata().partition_columns)
    with delta_errors(table.table_uri):
        table.create_write_transaction(
            actions, mode="append", schema=table.schema(), partition_by=parts or None, commit_properties=properties
        )
    return True


def batches(file: Path) -> Iterator[pa.Table]:
    """Yield a Parquet file's rows, some at a time, in types that pyarrow can filter by."""
    with pq.ParquetFile(file) as opened:
        schema = plain(opened.schema_arrow)
        for batch in opened.iter_batches():
            yield pa.Table.from_batches([batch]).cast(schema)


def plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with texts and bytes of the usual kind."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind) else kind


def _replaced(root: Path, file: dict[str, Any], change: Change, *, is_seen: bool) -> Iterator[Any]:
    """The new file, if any row is kept, and the removal of the old one."""
    now = int(time.time() * 1000)
    path = PurePosixPath(file["path"])
    name = str(path.with_name(f"part-00000-{uuid4()}-c000.zstd.parquet"))
    parts = dict(file.get("partition") or {})
    rows = written(root / unquote(str(path)), root / unquote(name), change)
    if rows:
        size = (root / unquote(name)).stat().st_size
        stats = json.dumps(statistics(root / unquote(name), rows))
        yield AddAction(name, size, parts, now, data_change=not is_seen, stats=stats)
    yield RemoveAction(str(path), data_change=True, deletion_timestamp=now, size=file["size_bytes"], partition_values=parts)


def written(old: Path, new: Path, change: Change) -> int:
    """Write what `change` leaves of a Parquet file to another, which is not made where that is nothing; returns its rows."""
    count = 0
    writer: pq.ParquetWriter | None = None
    for rows in map(change, batches(old)):
        if rows.num_rows:
            writer = writer or pq.ParquetWriter(new, rows.schema, compression="zstd")
            writer.write_table(rows)
            count += rows.num_rows
    if writer:
        writer.close()
    return count


def statistics(file: Path, rows: int) -> dict[str, Any]:
    """Return what Delta's log says of a file: how many rows, and the bounds of whole numbers and texts."""
    schema = pq.read_schema(file)
    names = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_string(field.type)]
    content = pq.ParquetFile(file).read(columns=names)
    bounds = {name: pc.min_max(content[name]).as_py() for name in names}
    known = {name: bound for name, bound in bounds.items() if bound["min"] is not None}
    return {
        "numRecords": rows,
        "minValues": {name: bound["min"] for name, bound in known.items()},
        "maxValues": {name: bound["max"] for name, bound in known.items()},
        "nullCount": {name: content[name].null_count for name in names},
    }


def _check_vectors(table: DeltaTable) -> None:
    features = table.protocol().reader_features or []
    if "deletionVectors" in features:
        raise UnsupportedError(
            f"{table.table_uri}: has deletion vectors, which somebody else wrote",
            remedy="purge them (REORG … APPLY (PURGE)) and disable them",
        )
