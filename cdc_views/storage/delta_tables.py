"""Delta tables as deltalake opens them, on this machine or on a store; nothing else opens or creates one."""

from __future__ import annotations

from typing import Any

import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from cdc_views.storage.places import place_of
from cdc_views.storage.store_paths import StorePath, check_creates
from cdc_views.storage.stores import options_of


def opened(location: str, *, version: int | None = None) -> DeltaTable:
    """Open a table at a version, by default the newest; raises deltalake's errors."""
    return DeltaTable(location, version=version, storage_options=options_of(location) or None)


def is_table(location: str) -> bool:
    """Whether a Delta table is at `location`; raises deltalake's errors."""
    return DeltaTable.is_deltatable(location, storage_options=options_of(location) or None)


def created(location: str, schema: Any, **what: Any) -> DeltaTable:  # what `DeltaTable.create` takes
    """Create a table with deltalake's options. Raises deltalake's errors, and `UnsupportedError` for a store that is not safe."""
    place = place_of(location)
    if isinstance(place, StorePath):
        check_creates(place)
    return DeltaTable.create(location, schema, storage_options=options_of(location) or None, **what)


def files_in(table: DeltaTable) -> pa_fs.FileSystem:
    """Return a file system of Arrow whose root is the table's folder."""
    return pa_fs.PyFileSystem(DeltaStorageHandler(table.table_uri, options_of(table.table_uri) or None))
