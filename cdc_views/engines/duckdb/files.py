"""The Parquet files of a state, from rows that arrive sorted by `_part`: one open file at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.landing.delta import DICTIONARY_BYTES
from cdc_views.plan.compact import PART
from cdc_views.storage.places import Place, arrow_sink
from cdc_views.storage.row_groups import FILE_BYTES, RowGroupWriter


def written(target: Place, rows: pa.RecordBatchReader, schema: pa.Schema) -> tuple[str, ...]:
    """Write `rows`, sorted by `_part`, to new files of `schema` in `target`; return the paths of the files within it."""
    paths: list[str] = []
    writer = None
    try:
        for part, table in _by_part(rows, schema):
            if writer is None or writer.part != part or writer.rows.bytes > FILE_BYTES:
                if writer is not None:
                    writer.close()
                writer = _File(target, part, schema)
                paths.append(writer.path)
            writer.rows.add(table)
    finally:
        if writer is not None:
            writer.close()
    return tuple(paths)


class _File:
    def __init__(self, target: Place, part: str, schema: pa.Schema) -> None:
        self.part, self.path = part, f"{PART}={part}/part-{uuid4()}.parquet"
        (target / self.path).parent.mkdir(exist_ok=True)
        self._sink = ExitStack()
        # LZ4 is the fastest to read, and a state is read more often than it is written
        self.rows = RowGroupWriter(
            self._sink.enter_context(arrow_sink(target / self.path)),
            schema,
            compression="lz4",
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            store_schema=False,
        )

    def close(self) -> None:
        self.rows.close()
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
