"""Delta tables as deltalake opens them, on this machine or on a store; nothing else opens or creates one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import DeltaTable, Schema, TableFeatures
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, create_table_with_add_actions

from cdc_views.storage.places import place_of
from cdc_views.storage.store_paths import StorePath, check_creates
from cdc_views.storage.stores import options_of

_LOCAL_TIMES = "timestampNtz"


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


def created_with(location: str, schema: pa.Schema, files: Sequence[AddAction], **what: Any) -> DeltaTable:
    """Create a table that has its first files at once, as `created`; raises `FileExistsError` if a table is there."""
    place = place_of(location)
    if isinstance(place, StorePath):
        check_creates(place)
    try:
        create_table_with_add_actions(
            location, Schema.from_arrow(schema), list(files), storage_options=options_of(location) or None, **what
        )
    except DeltaError as error:
        if "already exists" not in str(error):
            raise
        raise FileExistsError(f"{location}: is a Delta table") from error
    return opened(location)


def made_for(table: DeltaTable, schema: pa.Schema) -> DeltaTable:
    """Return the table, which may hold rows of `schema`: a commit without data declares timestamps without a zone, once."""
    features = table.protocol().writer_features or []
    if any(map(_has_local_time, schema.types)) and _LOCAL_TIMES not in features:
        table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
    return table


def _has_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_time(kind.field(number).type) for number in range(kind.num_fields))


def files_in(table: DeltaTable) -> pa_fs.FileSystem:
    """Return a file system of Arrow whose root is the table's folder."""
    return pa_fs.PyFileSystem(DeltaStorageHandler(table.table_uri, options_of(table.table_uri) or None))
