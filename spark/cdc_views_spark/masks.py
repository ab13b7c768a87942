"""The rows that deletion vectors hide, left out by their bits: the files are read by name, as if they hid nothing.

Delta's own reader runs several jobs over its log for each scan. Together they take longer than to read a small state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_views.engines.base import Sources
from cdc_views.plan.parts import FileSet
from cdc_views.storage.delta_log import bits
from cdc_views.storage.places import at_once, place_of

_MOST_ROWS = 256_000_000
"""Every executor holds a bit for each row of a file with hidden rows: 32 MB."""
_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
_FILE, _ROW, _BITS = "_mask_file", "_mask_row", "_mask_bits"


@dataclass(frozen=True)
class Masks:
    """The hidden rows of the files of `sources`."""

    session: SparkSession
    sources: Sources

    def takes(self, files: FileSet) -> bool:
        """Whether `unhidden` applies: the bits are few, and the name of a file, without its folder, tells which one it is."""
        names = {Path(path).name for path in files.paths}
        is_told = len(names) == len(files.paths) and all(map(_PLAIN_NAME.fullmatch, names))
        return is_told and sum(file.rows for file in self.sources.hidden) <= _MOST_ROWS

    def unhidden(self, rows: DataFrame) -> DataFrame:
        """Return `rows` of some files without the hidden ones; raises `EngineError` if a vector is gone or damaged."""
        placed = rows.select("*", F.col("_metadata.file_name").alias(_FILE), F.col("_metadata.row_index").alias(_ROW))
        # a file without hidden rows has no bits
        bit = F.expr(f"coalesce(bit_get({_BITS}[cast({_ROW} div 8 as int)], 7 - cast({_ROW} % 8 as int)), 0)")
        return placed.join(F.broadcast(self._bits), _FILE, "left").where(bit == 0).select(*(rows[name] for name in rows.columns))

    @cached_property
    def _bits(self) -> DataFrame:
        """The bits of each file as an array of bytes: one table for all scans, so that Spark broadcasts it once."""
        folder, files = place_of(self.sources.state), sorted(self.sources.hidden, key=lambda file: file.path)
        every = at_once(partial(bits, folder), files)
        content = b"".join(every)
        flat = pa.Array.from_buffers(pa.int8(), len(content), [None, pa.py_buffer(content)])
        places = pa.array(accumulate(map(len, every), initial=0), pa.int32())
        named = pa.array([Path(file.path).name for file in files])
        return self.session.createDataFrame(pa.table({_FILE: named, _BITS: pa.ListArray.from_arrays(places, flat)}))
