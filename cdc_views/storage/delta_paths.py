"""The paths of a Delta table's files, as the file system has them."""

from __future__ import annotations

from urllib.parse import unquote

from deltalake import DeltaTable


def paths_by_name(table: DeltaTable) -> dict[str, str]:
    """Return path within the table → absolute path (or URL, in another store), for each data file of the open version.

    deltalake percent-encodes the table's own folder, and not what is below it: a `%` there is in the name, as in those of
    partitions (run).
    """
    root = table.table_uri.removeprefix("file://").rstrip("/") + "/"
    spellings = (root, unquote(root))
    found = {}
    for uri in table.file_uris():
        plain = uri.removeprefix("file://")
        start = next((spelling for spelling in spellings if plain.startswith(spelling)), None)
        name = unquote(plain) if start is None else plain[len(start) :]
        found[name] = name if start is None else unquote(root) + name
    return found
