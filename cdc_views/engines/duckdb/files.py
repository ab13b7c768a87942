"""The Parquet files of a state, from rows that arrive sorted by `_part`: one open file at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc_views.landing.delta import DICTIONARY_BYTES
from cdc_views.plan.compact import PART
from cdc_views.storage.places import Place, arrow_sink

_GROUP_ROWS = 122_880
"""Rows of a row group; DuckDB gives each row group of a file to one thread."""
_GROUP_BYTES = 128 << 20
_FILE_BYTES = 1 << 30


def written(target: Place, rows: pa.RecordBatchReader, schema: pa.Schema) -> tuple[str, ...]:
    """Write `rows`, sorted by `_part`, to new files of `schema` in `target`; return the paths of the files within it."""
    paths: list[str] = []
    writer = None
    try:
        for part, table in _by_part(rows, schema):
            if writer is None or writer.part != part or writer.bytes > _FILE_BYTES:
                if writer is not None:
                    writer.close()
                writer = _File(target, part, schema)
                paths.append(writer.path)
            writer.add(table)
    finally:
        if writer is not None:
            writer.close()
    return tuple(paths)


class _File:
    def __init__(self, target: Place, part: str, schema: pa.Schema) -> None:
        self.part, self.path = part, f"{PART}={part}/part-{uuid4()}.parquet"
        (target / self.path).parent.mkdir(exist_ok=True)
        # LZ4 is the fastest to read, and a state is read more often than it is written
        self._sink = ExitStack()
        self._writer = pq.ParquetWriter(
            self._sink.enter_context(arrow_sink(target / self.path)),
            schema,
            compression="lz4",
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            store_schema=False,
        )
        self._waiting, self._rows, self._size, self.bytes = list[pa.Table](), 0, 0, 0

    def add(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._rows += table.num_rows
        self._size += table.nbytes
        if self._rows >= _GROUP_ROWS or self._size >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=max(self._rows, 1))
            self.bytes += self._size
            self._waiting, self._rows, self._size = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self._sink.close()


def _by_part(rows: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each `_part` of each batch, without that column."""
    for batch in rows:
        ends = pc.run_end_encode(batch[PART])
        start = 0
        for part, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
            table = pa.Table.from_batches([batch.slice(start, end - start)]).drop_columns([PART])
            yield str(part), table.cast(schema)
            start = end
