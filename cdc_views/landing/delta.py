"""Delta for landing: opens tables, looks up transaction ids, commits rows together with ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from cdc_views.errors import CdcViewsError, EngineError
from cdc_views.landing.checkpoints import sum_up
from cdc_views.landing.digests import note_commit
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import Place, arrow_sink
from cdc_views.storage.row_groups import RowGroupWriter
from cdc_views.storage.stores import explained, is_url
from cdc_views.storage.table_log import TableLog

DICTIONARY_BYTES = 16 << 10  # a column's larger dictionary is dropped: it saves nothing if all values differ, as write times do
BOUND_BYTES = 64  # of the least and greatest text in a footer; deltalake writes whole texts once any property is set
RAW_FILES = WriterProperties(  # for whole rows, whose cells share a write time: a quarter of Snappy's bytes, as fast to write
    compression="ZSTD", compression_level=1, dictionary_page_size_limit=DICTIONARY_BYTES, statistics_truncate_length=BOUND_BYTES
)

_UNANSWERED = "Error performing"
"""In deltalake's errors of a store: it was asked again some times before."""
_NOTHING_AFTER = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
# By default Delta's log and each checkpoint repeat the least and greatest value of 32 columns of every file. Readers here choose
# files by footers, so the log keeps only row counts.
_NO_BOUNDS = {"delta.dataSkippingNumIndexedCols": "0"}
# but a view over state and tail finds the tail by Delta's log alone; this setting wins over the one above
LANDED = "_landed_at"
_LANDING_BOUNDS = {"delta.dataSkippingStatsColumns": LANDED}
# by default a checkpoint removes entries older than a month, even those that no state covers yet
_ENTRIES_STAY = {"delta.enableExpiredLogCleanup": "false"}


def log_settings(*, checkpoint_every: int) -> dict[str, str]:
    """Return a new table's settings: no values in its log, frequent checkpoints (100 commits, the default, make reads slow)."""
    return {**_NO_BOUNDS, "delta.checkpointInterval": str(checkpoint_every)}


def quarantine_log_settings() -> dict[str, str]:
    """Return the settings of a quarantine: `log_settings`, and only `maintain` removes entries."""
    return {**log_settings(checkpoint_every=20), **_ENTRIES_STAY}  # rarer than in states: raw tables have more files


def raw_log_settings() -> dict[str, str]:
    """Return the settings of a raw table: those of a quarantine, and its log tells when the facts of a file landed."""
    return {**quarantine_log_settings(), **_LANDING_BOUNDS}


_OF_RAW = {**_NO_BOUNDS, **_ENTRIES_STAY, **_LANDING_BOUNDS}


def with_raw_log_settings(table: DeltaTable) -> DeltaTable:
    """Return a raw table, ready to append to: add settings that earlier versions did not write."""
    return with_settings(table, _OF_RAW)


def has_raw_log_settings(log: TableLog) -> bool:
    """Whether a raw table has these settings."""
    return has_settings(log.metadata.configuration, _OF_RAW)


def has_settings(configuration: Mapping[str, str | None], settings: Mapping[str, str]) -> bool:
    """Whether a table's configuration has these settings."""
    return settings.items() <= dict(configuration).items()


def with_quarantine_log_settings(table: DeltaTable) -> DeltaTable:
    """Return a quarantine, ready to append to, as `with_raw_log_settings`."""
    return with_settings(table, {**_NO_BOUNDS, **_ENTRIES_STAY})


def with_settings(table: DeltaTable, settings: Mapping[str, str]) -> DeltaTable:
    """Return the table unchanged if it has these settings; else set them and return its newest version.

    Setting them is a commit without data. Writers that started earlier meet a conflict and retry.
    """
    if has_settings(table.metadata().configuration, settings):
        return table
    with delta_errors(table.table_uri):
        with suppress(CommitFailedError):  # somebody else changed settings at the same time; the next call sets these
            table.alter.set_table_properties(dict(settings))
        return opened(table.table_uri)


@contextmanager
def delta_errors(location: str) -> Iterator[None]:
    """Turn deltalake's errors into ours, chained to their cause."""
    try:
        yield
    except CdcViewsError:
        raise
    except CommitFailedError as error:
        raise ConflictError(f"{location}: another writer committed first ({error}); run the command again") from error
    except Exception as error:
        # deltalake raises a plain Exception for errors of its Rust part (casts, object stores)
        if not (isinstance(error, (DeltaError, OSError)) or type(error) is Exception):
            raise
        if is_url(location) and _UNANSWERED in str(error):
            raise explained(location, error) from error
        # any of them may hold an error of the operating system
        is_of_system = isinstance(error, OSError) or "(os error " in str(error)
        remedy = "; check the path, its permissions and the free space" if is_of_system else ""
        raise EngineError(f"{location}: {error}{remedy}") from error


def open_delta(location: str, *, version: int | None = None) -> DeltaTable:
    """Open a table at a version, by default the newest; raises `EngineError`."""
    with delta_errors(location):
        return opened(location, version=version)


def append(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, *, transactions: Mapping[str, int]) -> None:
    """Append `rows` and record `transactions` in one commit, on top of the version at which `table` is open.

    If `rows` are empty, record only the transaction ids. Adds missing columns. Raises `ConflictError` if somebody committed one
    of the same transaction ids since that version.
    """
    commit(table, rows, recording(transactions), mode="append", schema_mode="merge", writer_properties=RAW_FILES)


def overwrite(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, *, transactions: Mapping[str, int]) -> None:
    """Replace all rows and columns in one commit; otherwise as `append`."""
    commit(table, rows, recording(transactions), mode="overwrite", schema_mode="overwrite", writer_properties=RAW_FILES)


def record(table: DeltaTable, transactions: Mapping[str, int]) -> None:
    """Record `transactions` in a commit without rows; raises like `append`."""
    append(table, pa.schema(table.schema().to_arrow()).empty_table(), transactions=transactions)


def commit(table: DeltaTable, rows: pa.Table | pa.RecordBatchReader, properties: CommitProperties, **options: Any) -> None:
    """Write `rows` in one commit, with deltalake's `options`, and keep the log short; raises `ConflictError`."""
    with committing(table) as after:
        write_deltalake(table, rows, commit_properties=properties, post_commithook_properties=after, **options)


@contextmanager
def committing(table: DeltaTable) -> Iterator[PostCommitHookProperties]:
    """Yield what deltalake does after the block's commit, and do the rest; the block leaves the table open at that commit."""
    with delta_errors(table.table_uri):
        yield _NOTHING_AFTER  # `sum_up` does the work of deltalake's hooks
        sum_up(table.table_uri, table.version(), table.metadata().configuration)
        note_commit(table.table_uri, table.version())


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of rows in a table's folder that no commit names yet; `landed` are the least and the greatest landing time.

    None: some row has none, or the table no such column.
    """

    path: Place
    rows: int
    landed: tuple[datetime, datetime] | None

    @property
    def added(self) -> DataFile:
        """The file as a commit of ours names it, with what `_LANDING_BOUNDS` asks for."""
        return self.added_as(self.path.name, partition={})

    def added_as(self, path: str, *, partition: Mapping[str, str | None]) -> DataFile:
        """Return `added` of a file in a partition; `path` is within the table."""
        found = self.path.stat()
        return DataFile(path, partition, found.st_size, self.rows, int(found.st_mtime * 1000), stats=self._stats)

    @property
    def action(self) -> AddAction:
        """The same as deltalake names it."""
        file = self.added
        return AddAction(file.path, file.size, {}, file.modified, data_change=True, stats=file.stats)

    @property
    def _stats(self) -> str:
        if self.landed is None:
            return json.dumps({"numRecords": self.rows}, separators=(",", ":"))
        # Delta's bounds are cut to milliseconds, the upper one too: readers add one to it
        cut = (
            instant.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds") for instant in self.landed
        )
        least, greatest = ({LANDED: f"{text}Z"} for text in cut)
        stats = {"numRecords": self.rows, "minValues": least, "maxValues": greatest, "nullCount": {LANDED: 0}}
        return json.dumps(stats, separators=(",", ":"))


def write_file(path: Place, tables: Iterable[pa.Table], *, schema: pa.Schema) -> NewFile | None:
    """Write rows to a file, as `RAW_FILES` has them; return None without rows. A failure leaves no file."""
    landed, is_known = list[datetime](), LANDED in schema.names
    options = {"compression": "zstd", "compression_level": 1, "dictionary_pagesize_limit": DICTIONARY_BYTES}
    try:
        with arrow_sink(path) as sink, RowGroupWriter(sink, schema, **options) as writer:
            for table in filter(len, tables):
                writer.add(table)
                if is_known := is_known and not table.column(LANDED).null_count:
                    landed += pc.min_max(table.column(LANDED)).as_py().values()
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if not writer.rows:
        path.unlink()
        return None
    return NewFile(path, writer.rows, (min(landed), max(landed)) if is_known else None)


def commit_files(table: DeltaTable, files: Sequence[NewFile], *, transactions: Mapping[str, int], replaces: bool) -> None:
    """Let files count, and record `transactions`, in one commit; `replaces`: instead of all rows before. Raises as `append`."""
    with committing(table) as after:
        table.create_write_transaction(
            [file.action for file in files],
            "overwrite" if replaces else "append",
            table.schema(),
            commit_properties=recording(transactions),
            post_commithook_properties=after,
        )
        table.update_incremental()


def recording(transactions: Mapping[str, int]) -> CommitProperties:
    """Return the commit properties that record `transactions`."""
    return CommitProperties(app_transactions=[Transaction(name, version) for name, version in transactions.items()])


def recorded(table: DeltaTable, name: str) -> int | None:
    """Return the version last recorded under the transaction id `name`, or None."""
    with delta_errors(table.table_uri):
        return table.transaction_version(name)
