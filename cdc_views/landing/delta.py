"""The few things landing asks of Delta: open, look up a transaction id, commit rows and ids as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from cdc_views.errors import CdcViewsError, EngineError
from cdc_views.landing.checkpoints import hooks, sum_up
from cdc_views.landing.digests import note_commit
from cdc_views.storage.conflicts import ConflictError

DICTIONARY_BYTES = 16 << 10
"""Size at which a column's dictionary is given up: those of write times and other values that are all different only cost."""
BOUND_BYTES = 64
"""How much of a long text a file's footer keeps as its least or greatest; deltalake, told of any property, keeps all."""
RAW_FILES = WriterProperties(
    compression="ZSTD",
    compression_level=1,
    dictionary_page_size_limit=DICTIONARY_BYTES,
    statistics_truncate_length=BOUND_BYTES,
)
"""A quarter of the bytes of Snappy's for changes of whole rows, whose cells share a write time, and no slower to write."""


_NO_BOUNDS = {"delta.dataSkippingNumIndexedCols": "0"}
"""Delta keeps the least and greatest of so many columns, each as long as it is, of every file in its log, and anew in each
checkpoint. Files are chosen by their footers here, so the log has how many rows a file holds, and nothing of them."""


_ENTRIES_STAY = {"delta.enableExpiredLogCleanup": "false"}
"""Whoever writes a checkpoint removes entries that are a month old, also those that a state has not covered yet."""


def log_settings(*, checkpoint_every: int) -> dict[str, str]:
    """Return the settings of a new table by which its log holds no values and is summed up after so many commits.

    By itself deltalake does so after 100, which take longer to read than all else before a read.
    """
    return {**_NO_BOUNDS, "delta.checkpointInterval": str(checkpoint_every)}


def raw_log_settings() -> dict[str, str]:
    """Return the settings of raw tables and quarantines: as `log_settings`, and `maintain` alone removes entries."""
    return {**log_settings(checkpoint_every=20), **_ENTRIES_STAY}  # rarer than of a state: raw has more files to name


def with_raw_log_settings(table: DeltaTable) -> DeltaTable:
    """Return a raw table or a quarantine to append to; one that an earlier version made lacks settings, which it gets."""
    return with_settings(table, {**_NO_BOUNDS, **_ENTRIES_STAY})


def with_settings(table: DeltaTable, settings: Mapping[str, str]) -> DeltaTable:
    """Return the table once it has these settings, at the version it is open at, or at its newest where it had not.

    A setting is a commit without data. A writer that had begun before it is told of a conflict, and begins anew.
    """
    if settings.items() <= dict(table.metadata().configuration).items():
        return table
    with delta_errors(table.table_uri):
        with suppress(CommitFailedError):  # somebody else has just set it, or sets something else: next time
            table.alter.set_table_properties(dict(settings))
        return DeltaTable(table.table_uri)


@contextmanager
def delta_errors(location: str) -> Iterator[None]:
    """Turn what deltalake raises into this project's errors, the cause chained."""
    try:
        yield
    except CdcViewsError:
        raise
    except CommitFailedError as error:
        raise ConflictError(f"{location}: another writer committed first ({error}); run the command again") from error
    except Exception as error:
        # deltalake raises bare Exception for errors of its Rust side (casts, object stores)
        if not (isinstance(error, (DeltaError, OSError)) or type(error) is Exception):
            raise
        # and says what the operating system refused in whichever of them it met it
        is_of_system = isinstance(error, OSError) or "(os error " in str(error)
        remedy = "; check the path, its permissions and the free space" if is_of_system else ""
        raise EngineError(f"{location}: {error}{remedy}") from error


def open_delta(location: str, *, version: int | None = None) -> DeltaTable:
    """Return a table opened at its newest version, or at another; raises `EngineError` where it cannot be."""
    with delta_errors(location):
        return DeltaTable(location, version=version)


def append(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, *, transactions: Mapping[str, int]) -> None:
    """Append `rows` and record `transactions` in one commit, on the version that `table` was read at.

    `rows` may be empty: then only the transaction ids are recorded. Missing columns are added.

    Raises:
        ConflictError: Since that version, somebody committed one of the same transaction ids.
    """
    commit(table, rows, recording(transactions), mode="append", schema_mode="merge", writer_properties=RAW_FILES)


def record(table: DeltaTable, transactions: Mapping[str, int]) -> None:
    """Record `transactions` in a commit without rows; raises as `append` does."""
    append(table, pa.schema(table.schema().to_arrow()).empty_table(), transactions=transactions)


def commit(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, properties: CommitProperties, **options: Any) -> None:
    """Write `rows` in one commit, with deltalake's `options`, and keep the log short; raises `ConflictError`."""
    after = hooks(table.table_uri)
    with delta_errors(table.table_uri):
        write_deltalake(table, rows, commit_properties=properties, post_commithook_properties=after, **options)
        sum_up(table)
        note_commit(table)


def overwrite(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, *, transactions: Mapping[str, int]) -> None:
    """As `append`, but the rows and their columns replace those that are there, in the same commit."""
    with delta_errors(table.table_uri):
        properties = recording(transactions)
        write_deltalake(
            table, rows, mode="overwrite", schema_mode="overwrite", commit_properties=properties, writer_properties=RAW_FILES
        )
        note_commit(table)


def recording(transactions: Mapping[str, int]) -> CommitProperties:
    """Return the commit properties that record `transactions`."""
    return CommitProperties(app_transactions=[Transaction(name, version) for name, version in transactions.items()])


def recorded(table: DeltaTable, name: str) -> int | None:
    """Return the version last recorded under the transaction id `name`, or None."""
    with delta_errors(table.table_uri):
        return table.transaction_version(name)
