"""The files of one version of a raw table, and whether Spark may read them by name."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_views.engines.snapshot import unread
from cdc_views.storage.delta_paths import paths_by_name
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import sizes_of
from cdc_views.storage.relation import RawTable

_MOST_NAMED = 1_000
"""Spark asks the file system for each named file, one by one; Delta's log has the sizes of all."""
_CHANGES_NO_FILE = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of Delta tables whose files are plain Parquet. Others hide rows, rename columns or change their types."""
_OF_PATTERNS = frozenset("*?[]{}\\")
"""Spark takes paths with these characters as patterns."""


@dataclass(frozen=True, slots=True)
class RawFiles:
    """A version, its files and their bytes. `are_plain`: each file has exactly its rows, and may be read by name."""

    version: int
    paths: tuple[str, ...]
    bytes: int
    are_plain: bool


def raw_files(raw: RawTable, *, version: int | None = None) -> RawFiles | None:
    """Return the files of a version. Without `version`: of the newest one, or None if the table is missing. Raises
    `EngineError`.
    """
    try:
        table = opened(raw.location, version=version)
    except (DeltaError, OSError) as error:
        if version is None and isinstance(error, TableNotFoundError):
            return None
        raise unread(raw.location, error) from error
    paths = tuple(paths_by_name(table).values())
    sizes = pa.table(table.get_add_actions(flatten=True)).column("size_bytes").to_pylist()
    return RawFiles(table.version(), paths, sum(sizes), _are_plain(table, paths))


def bytes_of(paths: tuple[str, ...]) -> int | None:
    """Return the bytes of some files; None if any is gone."""
    try:
        return sum(sizes_of(paths).values())
    except OSError:  # the read itself says which
        return None


def _are_plain(table: DeltaTable, paths: tuple[str, ...]) -> bool:
    protocol = table.protocol()
    is_plain = protocol.min_reader_version == 1 or (
        protocol.min_reader_version == 3 and _CHANGES_NO_FILE.issuperset(protocol.reader_features or ())
    )
    is_named = 0 < len(paths) <= _MOST_NAMED and not any(_OF_PATTERNS.intersection(path) for path in paths)
    return is_plain and is_named and not table.metadata().partition_columns
