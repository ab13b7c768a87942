"""The rows that deletion vectors hide, in a form that SQL can read: one Parquet file of bits for a version of a state.

DuckDB reads no deletion vectors. Testing a bit per row adds almost nothing to a scan. The file of a local state stands beside its
data, where views can name it. It is a cache: a read writes it again if it is not there.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache, partial
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

_MOST_KEPT = 16
"""Files of this process alone: more than reads of several threads need at once."""


def mask_of(sources: Sources, *, for_view: bool = False) -> str:
    """Return the path of the file of hidden rows, written if it is missing: `file` and its bits `rows`, the first row first.

    Empty if no row of `sources` is hidden. With `for_view` the file outlives this process.
    """
    if not sources.parts.of(Part).masked:
        return ""
    folder, hidden = place_of(sources.state), hidden_rows(sources)
    # the content names these paths, so a folder that was moved needs another file
    named = "\n".join(f"{path} {file.deleted}" for path, file in hidden.items())
    path = _folder(folder, for_view=for_view) / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.parquet"
    if not is_unchanging_there(path):
        every, content = at_once(partial(bits, folder), hidden.values()), BytesIO()
        pq.write_table(pa.table({"file": [*hidden], "rows": every}), content)
        with suppress(FileExistsError):  # another reader was faster
            write_unchanging(path, content.getvalue())  # readers see all of it or nothing
    return str(path)


def _folder(state: Place, *, for_view: bool) -> Place:
    """Return the folder of masks: the state's if it can be written, or one that ends with this process.

    Of a store only views read them there: to ask for the file, write it and read it again takes longer than to make it.
    """
    if not isinstance(state, Path):
        return state / BITS_FOLDER if for_view else _of_this_process()
    with suppress(OSError):
        (state / BITS_FOLDER).mkdir(exist_ok=True)
        if os.access(state / BITS_FOLDER, os.W_OK):
            return state / BITS_FOLDER
    return Path(tempfile.mkdtemp(prefix="cdc-views-bits-")) if for_view else _of_this_process()


def _of_this_process() -> Path:
    """Return a folder that ends with this process, with room for another file: a lasting process meets many versions."""
    folder = _made()
    for old in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)[:-_MOST_KEPT]:
        old.unlink(missing_ok=True)
    return folder


@cache
def _made() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="cdc-views-bits-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


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
