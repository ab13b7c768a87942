"""Connections to DuckDB: one for our own SQL, and one for users' conditions, which can read only some files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from cdc_views.engines.base import BATCH_ROWS
from cdc_views.engines.duckdb.types import literal
from cdc_views.errors import EngineError
from cdc_views.storage.stores import SCHEMES

IN_MEMORY = ":memory:"
_STREAMED_ERROR = re.compile(r"([A-Z]\w*(?: \w+)*) Error: ")
_OF_STORES = re.compile(rf"'(?:{'|'.join(SCHEMES)})://")
_COMMON = (
    "SET TimeZone = 'UTC'",
    # a state's files do not change, and parsing 150 footers again takes a twentieth of a read
    "SET parquet_metadata_cache = true",
)
_LOCK = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def connect(database: str = IN_MEMORY) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database, which is created if missing; raises `EngineError`."""
    return _connect(database, _COMMON)


def connect_locked(files: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """Return a connection that can read only these files and its registered tables: no network, no extensions, fixed settings.

    So a condition cannot do what `cdc_views.model.conditions` forbids.
    """
    named = list(files)
    return _connect(IN_MEMORY, locked_settings(named), text="".join(map(literal, named)))


def locked_settings(files: Iterable[str] = (), *, threads: int | None = None) -> tuple[str, ...]:
    """Return the statements that lock a connection, as `connect_locked` does; `threads` None: as many as there are cores."""
    allowed = f"SET allowed_paths = [{', '.join(map(literal, files))}]"
    counted = () if threads is None else (f"SET threads = {threads}",)
    return (*_COMMON, *counted, allowed, *_LOCK)


def with_stores(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.DuckDBPyConnection:
    """Return the connection, which can read the files of stores that `text` names in quotes."""
    if _OF_STORES.search(text) and not connection.list_filesystems():
        from cdc_views.engines.duckdb.store_files import StoreFiles

        connection.register_filesystem(StoreFiles())
    return connection


def _connect(database: str, settings: Iterable[str], *, text: str = "") -> duckdb.DuckDBPyConnection:
    try:
        connection = with_stores(duckdb.connect(database), text)
        for setting in settings:
            connection.execute(setting)
    except duckdb.Error as error:
        remedy = "; move it away, and run `cdc-views apply`" if "not a valid DuckDB database" in str(error) else ""
        raise EngineError(f"DuckDB cannot open {database}: {str(error).splitlines()[0]}{remedy}") from error
    return connection


@contextmanager
def in_its_words() -> Iterator[None]:
    """Raise DuckDB's errors as `EngineError`, with DuckDB's message."""
    try:
        yield
    except duckdb.Error as error:
        raise EngineError(f"DuckDB: {str(error).splitlines()[0]}") from error
    except (OSError, pa.ArrowException) as error:
        # Arrow's stream of rows has of an error only the text
        told = _STREAMED_ERROR.match(str(error))
        if told is None:
            raise
        line = str(error).splitlines()[0]
        cause = getattr(duckdb, f"{told[1].replace(' ', '')}Exception", duckdb.Error)
        raise EngineError(f"DuckDB: {line}") from cause(line)


def streamed(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `sql` as DuckDB finds them; raises `EngineError` with DuckDB's message."""
    with in_its_words():
        reader = with_stores(connection, sql).sql(sql).to_arrow_reader(BATCH_ROWS)
    yield from batches_in(reader)


def batches_in(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield what DuckDB's reader has; raises `EngineError` with DuckDB's message."""
    while True:
        with in_its_words():
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch
