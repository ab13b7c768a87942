"""The few things landing asks of Delta: open, look up a transaction id, commit rows and ids as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from cdc_views.errors import CdcViewsError, EngineError, TransientError

ATTEMPTS = 20
"""How often work is begun anew when other writers keep committing first."""

DICTIONARY_BYTES = 16 << 10
"""Size at which a column's dictionary is given up: those of write times and other values that are all different only cost."""
RAW_FILES = WriterProperties(compression="ZSTD", compression_level=1, dictionary_page_size_limit=DICTIONARY_BYTES)
"""A quarter of the bytes of Snappy's for changes of whole rows, whose cells share a write time, and no slower to write."""


def checkpoints(*, every: int) -> dict[str, str]:
    """Return the setting of a new table by which its log is summed up after so many commits.

    By itself deltalake does so after 100, which take longer to read than all else before a read.
    """
    return {"delta.checkpointInterval": str(every)}


class ConflictError(TransientError):
    """Another writer committed first; nothing was written, and what is there must be looked at again."""


@contextmanager
def delta_errors(location: str) -> Iterator[None]:
    """Turn what deltalake raises into this project's errors, the cause chained."""
    try:
        yield
    except CdcViewsError:
        raise
    except CommitFailedError as error:
        raise ConflictError(f"{location}: another writer committed first ({error}); run the command again") from error
    except DeltaError as error:
        raise EngineError(f"{location}: {error}") from error
    except OSError as error:
        raise EngineError(f"{location}: {error}; check the path, its permissions and the free space") from error
    except Exception as error:
        # deltalake raises bare Exception for errors of its Rust side (casts, object stores)
        if type(error) is not Exception:
            raise
        raise EngineError(f"{location}: {error}") from error


def append(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, *, transactions: Mapping[str, int]) -> None:
    """Append `rows` and record `transactions` in one commit, on the version that `table` was read at.

    `rows` may be empty: then only the transaction ids are recorded. Missing columns are added.

    Raises:
        ConflictError: Since that version, somebody committed one of the same transaction ids.
    """
    with delta_errors(table.table_uri):
        properties = recording(transactions)
        write_deltalake(
            table, rows, mode="append", schema_mode="merge", commit_properties=properties, writer_properties=RAW_FILES
        )


def overwrite(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, *, transactions: Mapping[str, int]) -> None:
    """As `append`, but the rows and their columns replace those that are there, in the same commit."""
    with delta_errors(table.table_uri):
        properties = recording(transactions)
        write_deltalake(
            table, rows, mode="overwrite", schema_mode="overwrite", commit_properties=properties, writer_properties=RAW_FILES
        )


def recording(transactions: Mapping[str, int]) -> CommitProperties:
    """Return the commit properties that record `transactions`."""
    return CommitProperties(app_transactions=[Transaction(name, version) for name, version in transactions.items()])


def recorded(table: DeltaTable, name: str) -> int | None:
    """Return the version last recorded under the transaction id `name`, or None."""
    with delta_errors(table.table_uri):
        return table.transaction_version(name)
