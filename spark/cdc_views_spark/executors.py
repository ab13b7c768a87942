"""Whether Spark's executors can run DuckDB, and whether they see the driver's files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_KNOWN: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
"""The reasons found so far: to ask takes a job."""
_HAVE_ARROW: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def why_no_duckdb(session: SparkSession) -> str:
    """Return why the session's executors cannot run this process's DuckDB, as a clause; empty if they can."""
    if session not in _KNOWN:
        _KNOWN[session] = "" if are_this_python(session) else _why(_version(session))
    return _KNOWN[session]


def is_local(session: SparkSession) -> bool:
    """Return whether the session's tasks run on this machine, and see its files; Spark Connect cannot tell."""
    try:
        return str(session.sparkContext.master).startswith("local")
    except PySparkException:  # Spark Connect has no context
        return False


def are_this_python(session: SparkSession) -> bool:
    """Return whether the session's tasks run this Python on this machine, so that they have what this process has."""
    return is_local(session) and session.sparkContext.pythonExec == sys.executable


def has_arrow(session: SparkSession) -> bool:
    """Return whether the session's tasks can run a function of Python over Arrow's batches."""
    if session not in _HAVE_ARROW:
        _HAVE_ARROW[session] = are_this_python(session) or _maps(session)
    return _HAVE_ARROW[session]


def _maps(session: SparkSession) -> bool:
    def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    try:
        return len(session.range(0, 1, 1, 1).mapInArrow(same, "id long").collect()) == 1
    except PySparkException:
        return False


def _version(session: SparkSession) -> str:
    """The version of DuckDB on an executor, or why there is none, after a space."""

    def version(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            import duckdb

            found = duckdb.__version__
        except ImportError as error:
            found = f" {error}"
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [found]})

    try:
        return str(session.range(0, 1, 1, 1).mapInArrow(version, "version string").collect()[0][0])
    except PySparkException as error:
        return f" {str(error).strip().splitlines()[0]}"


def _why(version: str) -> str:
    if version.startswith(" "):
        return f"Spark's executors cannot import DuckDB ({version.strip()})"
    if version != duckdb.__version__:
        return f"Spark's executors have DuckDB {version}, and this process has {duckdb.__version__}"
    return ""
