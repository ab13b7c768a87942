"""The paths of a Delta table's files, as the file system has them."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.storage.range_reader import remember_size
from cdc_views.storage.stores import is_url


def paths_by_name(table: DeltaTable) -> dict[str, str]:
    """Return path within the table → absolute path (or URL, in another store), for each data file of the open version.

    deltalake percent-encodes the table's own folder, and not what is below it: a `%` there is in the name, as in those of
    partitions (run).
    """
    root = table.table_uri.removeprefix("file://").rstrip("/") + "/"
    if is_url(root):
        _remember_sizes(table, root)
    spellings = (root, unquote(root))
    found = {}
    for uri in table.file_uris():
        plain = uri.removeprefix("file://")
        start = next((spelling for spelling in spellings if plain.startswith(spelling)), None)
        name = unquote(plain) if start is None else plain[len(start) :]
        found[name] = name if start is None else unquote(root) + name
    return found


def _remember_sizes(table: DeltaTable, root: str) -> None:
    """Save readers of a store's files a request each: the log tells their sizes."""
    actions = pa.table(table.get_add_actions(flatten=True))
    for path, size in zip(actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True):
        remember_size(root + unquote(path), size)
