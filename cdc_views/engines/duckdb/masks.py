"""The rows that deletion vectors hide, in a form that SQL can read: one Parquet file of bits for a version of a state.

DuckDB reads no deletion vectors. Testing a bit per row adds almost nothing to a scan. The file stands beside the state's data,
where views can name it. It is a cache: a read writes it again if it is not there.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.engines.base import Sources
from cdc_views.engines.duckdb.types import literal
from cdc_views.engines.state_plan import hidden_rows
from cdc_views.plan.parts import Part
from cdc_views.storage.deletion_vectors import BITS_FOLDER
from cdc_views.storage.delta_log import bits
from cdc_views.storage.places import Place, at_once, is_unchanging_there, place_of, write_unchanging


def mask_of(sources: Sources) -> str:
    """Return the path of the file of hidden rows, written if it is missing: `file` and its bits `rows`, the first row first.

    Empty if no row of `sources` is hidden.
    """
    if not sources.parts.of(Part).masked:
        return ""
    folder, hidden = place_of(sources.state), hidden_rows(sources)
    # the content names these paths, so a folder that was moved needs another file
    named = "\n".join(f"{path} {file.deleted}" for path, file in hidden.items())
    path = _writable(folder) / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.parquet"
    if not is_unchanging_there(path):
        every, content = at_once(partial(bits, folder), hidden.values()), BytesIO()
        pq.write_table(pa.table({"file": [*hidden], "rows": every}), content)
        with suppress(FileExistsError):  # another reader was faster
            write_unchanging(path, content.getvalue())  # readers see all of it or nothing
    return str(path)


def _writable(folder: Place) -> Place:
    """Return the folder of masks, or a temporary one if the state's cannot be written."""
    if not isinstance(folder, Path):
        return folder / BITS_FOLDER
    with suppress(OSError):
        (folder / BITS_FOLDER).mkdir(exist_ok=True)
        if os.access(folder / BITS_FOLDER, os.W_OK):
            return folder / BITS_FOLDER
    return Path(tempfile.mkdtemp(prefix="cdc-views-bits-"))


def unhidden(reading: str, files: tuple[str, ...], mask: str) -> str:
    """Return a FROM clause of `reading`, which reads exactly `files`, without the rows that `mask` hides.

    One scan for files with and without hidden rows: DuckDB would read whole structs below a UNION.
    """
    listed = ", ".join(map(literal, files))
    # a file without hidden rows has no bits, and so null at its place
    bits = (
        f"SELECT list(CAST(mask.rows AS BIT) ORDER BY place) FROM (SELECT unnest([{listed}]) AS file, "
        f"unnest(range({len(files)})) AS place) AS every LEFT JOIN read_parquet([{literal(mask)}]) AS mask USING (file)"
    )
    of_file = f"({bits})[CAST(file_index + 1 AS BIGINT)]"
    return f"(SELECT * FROM {reading} WHERE get_bit({of_file}, CAST(file_row_number AS INTEGER)) IS DISTINCT FROM 1)"
