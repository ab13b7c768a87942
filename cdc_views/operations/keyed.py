"""The raw facts that concern one key, from the raw table of this machine or of a warehouse."""

from __future__ import annotations

import pyarrow as pa

from cdc_views.landing import open_raw
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import adapted, check_landed, check_raw_is_whole
from cdc_views.operations.reading import file_errors
from cdc_views.storage.relation import RawTable
from cdc_views.storage.relation_read import KeyFacts


def facts_about(table: TableContext, wanted: KeyFacts, *, what: str) -> pa.Table:
    """Return the facts in the raw layout, without columns that the raw table lacks; an external table is adapted first.

    Raises `UsageError` if nothing has landed, or if `what` needs events that were dropped from raw.
    """
    if table.project.is_remote:
        adapted(table)
        with table.project.remote() as warehouse:
            return warehouse.facts_about(table.raw, wanted)
    check_landed(table)
    check_raw_is_whole(table, what=what)
    return stored_facts(table.raw, wanted)


def stored_facts(raw: RawTable, wanted: KeyFacts) -> pa.Table:
    """Return the facts in a raw table of this machine; see `facts_about`."""
    with file_errors(raw.location):
        stored = open_raw(raw).to_pyarrow_dataset()
        known = [name for name in raw.relation.arrow_schema().names if name in stored.schema.names]
        return stored.to_table(columns=known, filter=wanted.filter)
