"""Parquet files in row groups of one size, from rows that arrive a few at a time."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_GROUP_ROWS = 122_880
"""Rows of a row group; DuckDB gives each row group of a file to one thread."""
_GROUP_BYTES = 128 << 20
FILE_BYTES = 1 << 30
"""A table's next rows go to another file once one has so many bytes, as Arrow counts them."""


class RowGroupWriter:
    """Writes the rows of one file; holds at most a row group. `rows` and `bytes` are those that have been written."""

    def __init__(self, sink: Any, schema: pa.Schema, **options: Any) -> None:
        """`sink` and `options` are those of `ParquetWriter`."""
        self._writer = pq.ParquetWriter(sink, schema, **options)
        self._waiting, self._count, self._size = list[pa.Table](), 0, 0
        self.rows, self.bytes = 0, 0

    def add(self, table: pa.Table) -> None:
        """Add rows of the schema."""
        self._waiting.append(table)
        self._count += table.num_rows
        self._size += table.nbytes
        if self._count >= _GROUP_ROWS or self._size >= _GROUP_BYTES:
            self._flush()

    def __enter__(self) -> RowGroupWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._writer.close()  # else it writes a footer once it is collected, to a file that is closed

    def close(self) -> None:
        """Write what waits, and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._count:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=self._count)
            self.rows, self.bytes = self.rows + self._count, self.bytes + self._size
            self._waiting, self._count, self._size = [], 0, 0
