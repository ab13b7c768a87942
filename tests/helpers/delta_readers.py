"""A Delta table's rows as readers show them that are not ours: deltalake, Spark SQL, and Delta's Java Kernel.

The Kernel is Delta's library for other engines. Its log replay and its readers of deletion vectors and of Parquet are its own,
neither Spark's nor deltalake's. Its jars are among those that Delta on Spark needs, so a session's JVM has it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from helpers.delta_rows import shown


def by_deltalake(_session: Any, location: str) -> pa.Table:
    """The rows that deltalake shows."""
    return shown(DeltaTable(location))


def by_spark(session: Any, location: str) -> pa.Table:
    """The rows that Spark SQL shows."""
    return pa.table(session.sql(f"SELECT * FROM delta.`{location}`").toArrow())


def by_kernel(session: Any, location: str) -> pa.Table:
    """The rows that Delta's Java Kernel shows. It writes them to Parquet itself: no value passes through Python's bridge."""
    kernel = session._jvm.io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(session.sparkContext._jsc.hadoopConfiguration())
    scan = kernel.TableManager.loadSnapshot(location).build(engine).getScanBuilder().build()
    found = _batches(session, engine, scan)
    with TemporaryDirectory(prefix="cdc-views-kernel-") as folder:
        nothing = session._jvm.java.util.ArrayList()
        written = engine.getParquetHandler().writeParquetFiles(f"file:{folder}", _iterator(session, found), nothing)
        _each(written)
        tables = [pq.ParquetFile(path).read() for path in sorted(Path(folder).glob("*.parquet"))]
    return pa.concat_tables(tables) if tables else pa.table({})


Reader = Callable[[Any, str], pa.Table]
"""Returns the rows of a table at a location; takes a Spark session, too."""
READERS: tuple[Reader, ...] = (by_deltalake, by_spark, by_kernel)


def _batches(session: Any, engine: Any, scan: Any) -> Any:
    """The scan's batches, each with the rows that are not deleted."""
    kernel, found = session._jvm.io.delta.kernel, session._jvm.java.util.ArrayList()
    state = scan.getScanState(engine)
    columns = kernel.internal.data.ScanStateRow.getPhysicalDataReadSchema(state)
    for files in _each(scan.getScanFiles(engine)):
        for file in _each(files.getRows()):
            place = kernel.internal.InternalScanFileUtils.getAddFileStatus(file)
            one = kernel.internal.util.Utils.singletonCloseableIterator(place)
            stored = engine.getParquetHandler().readParquetFiles(one, columns, session._jvm.java.util.Optional.empty())
            read = session._jvm.java.util.ArrayList()
            for batch in _each(stored):
                read.add(batch.getData())
            for batch in _each(kernel.Scan.transformPhysicalData(engine, state, file, _iterator(session, read))):
                found.add(batch)
    return found


def _iterator(session: Any, found: Any) -> Any:
    return session._jvm.io.delta.kernel.internal.util.Utils.toCloseableIterator(found.iterator())


def _each(found: Any) -> Any:
    # not step by step: Python's bridge takes an error of a Java iterator for its end
    return found.toInMemoryList()


def counted(rows: pa.Table) -> Counter[str]:
    """How often each row is shown, whatever the order of rows and columns."""
    return Counter(repr(_spelled(row)) for row in rows.to_pylist())


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _spelled(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_spelled(each) for each in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    return str(value) if isinstance(value, Decimal) else value
