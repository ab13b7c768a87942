"""Raw tables as Delta tables: created with a name and a layout, and checked whenever they are opened.

Delta refuses unknown table properties, so the table's description states the layout.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from cdc_views.errors import EngineError, UsageError
from cdc_views.formats.base import order_key
from cdc_views.landing.delta import (
    delta_errors,
    has_raw_log_settings,
    open_delta,
    raw_log_settings,
    recording,
    with_raw_log_settings,
)
from cdc_views.model.naming import KIND, physical_name
from cdc_views.model.types import Udt
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.delta_tables import created, is_table, opened
from cdc_views.storage.relation import LAYOUT_VERSION, RawTable
from cdc_views.storage.table_log import TableLog
from cdc_views.storage.unnamed import QUARANTINE_SUFFIX

_SETTINGS = raw_log_settings()
_MARK = "cdc-views raw table"
_DESCRIPTION = re.compile(rf"{_MARK}; layout (?P<layout>\d+); order (?P<order>\w+); format (?P<format>[\w-]+)")
_PERCENT_CODE = re.compile(r"%[0-9A-Fa-f]{2}")


def quarantine_location(raw: RawTable) -> str:
    """Return the location of the raw table's quarantine, beside it."""
    return raw.location.rstrip("/") + QUARANTINE_SUFFIX


def exists(raw: RawTable) -> bool:
    """Whether the raw table was created, by landing or by `create_raw`."""
    return is_delta(raw.location)


def gone(raw: RawTable) -> EngineError:
    """Return the error for a raw table that has disappeared, e.g. with an unmounted disk or a moved folder.

    A new table in its place would lose the old one's events, or hide them once the old one is back.
    """
    return EngineError(f"{raw.location}: the raw table is gone; put it back, or stop this producer and begin a new one")


def is_delta(location: str) -> bool:
    """Whether a Delta table is at `location`."""
    with delta_errors(location):
        return is_table(location)


def create_raw(raw: RawTable, *, format_name: str) -> DeltaTable:
    """Return the raw table to land into; create it if it is missing, and check it like `open_raw`."""
    if not exists(raw):
        description, name = _description(raw, format_name), raw.relation.schema.full_name
        create(raw.location, raw.relation.arrow_schema(), name=name, description=description, settings=_SETTINGS)
    return with_raw_log_settings(open_raw(raw, format_name=format_name))


def raw_description(raw: RawTable, *, format_name: str) -> str:
    """Return the description by which a raw table is known that an engine creates; `raw_log_settings` are its settings."""
    return _description(raw, format_name)


def named_raw(raw: RawTable) -> None:
    """Give a raw table that a catalog created, and so has no name, its table's: a commit without data, once."""
    with delta_errors(raw.location):
        table = opened(raw.location)
        if not table.metadata().name and is_ours(str(table.metadata().description or "")):
            with suppress(CommitFailedError):  # another process names it
                table.alter.set_table_name(raw.relation.schema.full_name)


def recreate_raw(raw: RawTable, *, format_name: str, transactions: Mapping[str, int]) -> DeltaTable:
    """Replace a raw table with an empty one of the current schema and format; record `transactions` in the same commit."""
    with delta_errors(raw.location):
        created(
            raw.location,
            raw.relation.arrow_schema(),
            mode="overwrite",
            name=raw.relation.schema.full_name,
            description=_description(raw, format_name),
            configuration=_SETTINGS,
            commit_properties=recording(transactions),
        )
    return open_raw(raw, format_name=format_name)


def is_ours(description: str) -> bool:
    """Whether a description marks a raw table of cdc-views."""
    return _DESCRIPTION.match(description) is not None


def _description(raw: RawTable, format_name: str) -> str:
    return f"{_MARK}; layout {LAYOUT_VERSION}; order {raw.relation.order.value}; format {format_name}"


def create(location: str, schema: pa.Schema, *, name: str, description: str, settings: Mapping[str, str]) -> None:
    """Create an empty Delta table, unless another process has just created it."""
    if _PERCENT_CODE.search(location):
        raise UsageError(f"{location}: Delta cannot keep a table under a path that holds a %-code; choose another path")
    try:
        with delta_errors(location):
            created(location, schema, mode="ignore", name=name, description=description, configuration=dict(settings))
    except ConflictError:
        if not is_delta(location):
            raise


def open_raw(raw: RawTable, *, format_name: str | None = None) -> DeltaTable:
    """Return the raw table at its newest version; `format_name` is the raw format that lands, None to read.

    Raises `UsageError` if it belongs to another table, another format or a newer cdc-views, or a column's type changed.
    """
    table = open_delta(raw.location)
    metadata, stored = table.metadata(), pa.schema(table.schema().to_arrow())
    _check(raw, str(metadata.name or ""), str(metadata.description or ""), stored, format_name)
    return table


def raw_log(raw: RawTable, *, format_name: str | None = None) -> TableLog | None:
    """Return the log of a raw table at its newest version, to read; None if nothing has landed. Raises like `open_raw`."""
    log = TableLog.find(raw.location)
    if log is not None:
        check_log(raw, log, format_name=format_name)
    return log


def check_log(raw: RawTable, log: TableLog, *, format_name: str | None = None) -> None:
    """Refuse a Delta table that is not this raw table; raises like `open_raw`."""
    _check(raw, log.metadata.name, log.metadata.description, log.schema, format_name)


def landing_log(raw: RawTable, *, format_name: str) -> TableLog:
    """Return the log of the raw table to land into, as `create_raw`."""
    log = raw_log(raw, format_name=format_name)
    if log is None or not has_raw_log_settings(log):
        create_raw(raw, format_name=format_name)
        log = TableLog.open(raw.location)
    log.entry(log.version)  # tells the log from another in its place
    return log


def last_read_keys(raw: RawTable, *, position: int, names: Sequence[str], most: int) -> list[tuple[Any, ...]]:
    """Return the keys of the snapshot rows that landed last at a log position; the snapshot continues after them.

    `names` are columns of the row key, in the wanted order. Values are as raw tables store them. Grain: one tuple per row of
    the batch that landed last, at most the last `most`; none if the table has nothing of that snapshot.
    """
    columns = [physical_name(name) for name in names]
    written = pa.scalar(Decimal(order_key(position)), raw.relation.written)
    is_read = (ds.field(KIND) == "row") & (ds.field("_live", "written") == written)
    landed_at: Any = None
    found: deque[tuple[Any, ...]] = deque(maxlen=most)
    with delta_errors(raw.location):
        stored = opened(raw.location).to_pyarrow_dataset()
        for batch in stored.to_batches(columns=[*columns, "_landed_at"], filter=is_read):
            for *key, landed in zip(*(batch.column(i).to_pylist() for i in range(batch.num_columns)), strict=True):
                if landed_at is None or landed > landed_at:
                    landed_at = landed
                    found.clear()
                if landed == landed_at:
                    found.append(tuple(key))
    return list(found)


def another_raw(name: str) -> str:
    """Return advice to start a new raw table in an empty place; `--accept` confirms it, since a mistyped path looks the same."""
    return f"give {name} a new `raw: {{table: …}}` in the project file, which `cdc-views rebuild {name} --accept` begins"


def _check(raw: RawTable, name: str, description: str, stored: pa.Schema, format_name: str | None) -> None:
    _check_description(raw, description, format_name)
    if name != raw.relation.schema.full_name:
        raise UsageError(
            f"{raw.location}: holds the events of {name}, not of {raw.relation.schema.full_name}; "
            "give each table its own `raw: {table: …}` in the project file"
        )
    _check_key(raw, stored)
    _check_types(raw, stored)
    _check_fields(raw, stored)


def _check_description(raw: RawTable, description: str, format_name: str | None) -> None:
    found = _DESCRIPTION.match(description)
    if found is None:
        raise UsageError(f"{raw.location}: is a Delta table, but no raw table of cdc-views; name another `raw: {{table: …}}`")
    if int(found["layout"]) > LAYOUT_VERSION:
        raise UsageError(
            f"{raw.location}: has layout {found['layout']}, newer than the {LAYOUT_VERSION} this version knows; update cdc-views"
        )
    if found["order"] != raw.relation.order.value or format_name not in (None, found["format"]):
        raise UsageError(
            f"{raw.location}: holds events landed as {found['format']}, not as {format_name or raw.relation.order.value}; "
            "land each format into a raw table of its own"
        )


def _check_key(raw: RawTable, stored: pa.Schema) -> None:
    """Refuse a table without a column of the key, as after a RENAME: its rows would show null there."""
    lacking = [column.name for column in raw.relation.schema.row_key if physical_name(column.name) not in stored.names]
    if lacking:
        raise UsageError(
            f"{raw.location}: lacks {', '.join(lacking)}, a column of the key in the schema file; set the schema back, or "
            f"{another_raw(raw.relation.schema.full_name)}"
        )


def _check_types(raw: RawTable, stored: pa.Schema) -> None:
    for field in raw.relation.arrow_schema():
        if field.name in stored.names and not _fits(stored.field(field.name).type, field.type):
            raise UsageError(
                f"{raw.location}: column {field.name} is stored as {stored.field(field.name).type}, which the schema file "
                f"now makes {field.type}; set the schema back, or {another_raw(raw.relation.schema.full_name)}"
            )


def _check_fields(raw: RawTable, stored: pa.Schema) -> None:
    """Refuse a table with cells of a field that the schema file renamed: a view would show null for them."""
    relation = raw.relation
    for column in (*relation.schema.statics, *relation.schema.regulars):
        name = physical_name(column.name)
        if not (isinstance(column.type, Udt) and column.type.is_multicell and name in stored.names):
            continue
        kind = stored.field(name).type
        found = [part.name for part in kind.field("cells").type] if kind.get_field_index("cells") >= 0 else []
        wanted = [physical_name(field) for field, _ in column.type.fields]
        gone, new = set(found) - set(wanted), set(wanted) - set(found)
        if gone and new:
            raise UsageError(
                f"{raw.location}: column {column.name} holds cells of {', '.join(sorted(gone))}, a field that user type "
                f"{column.type.name} of the schema file lacks, and none of {', '.join(sorted(new))}; where it was renamed, write "
                f"the CREATE TYPE as it was, and `ALTER TYPE … RENAME {min(gone)} TO {min(new)};` at the end of the file"
            )


def _fits(stored: Any, wanted: Any) -> bool:
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        common = {part.name for part in stored} & {part.name for part in wanted}
        return all(_fits(stored.field(name).type, wanted.field(name).type) for name in common)
    if all(pa.types.is_list(kind) or pa.types.is_large_list(kind) for kind in (stored, wanted)):
        return _fits(stored.value_type, wanted.value_type)
    return bool(stored == wanted) or str(stored).removeprefix("large_") == str(wanted).removeprefix("large_")
