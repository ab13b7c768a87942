"""A table by its schema of now, for what writes: a process may run for long, and the schema gain columns meanwhile."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from cdc_views.errors import EngineError
from cdc_views.operations.context import TableContext
from cdc_views.project.paths import is_live_source


def renewed(table: TableContext) -> TableContext:
    """Return the table with its schema file read again, or its source asked again; as it was, if it has not read either yet."""
    if "source_schema" not in vars(table):
        return table
    if is_live_source(table.config.schema_):
        with suppress(EngineError):  # away for now: nothing of a new column lands meanwhile
            table.project.live_schemas.ask_again(table.config.schema_, table.name)
    return replace(table)
