"""The commit of a serving table's files that an engine wrote itself, by deltalake: one protocol for every engine and store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
from deltalake import CommitProperties, Schema, Transaction
from deltalake.transaction import AddAction

from cdc_views.engines.serving import NOTE, ServingWrite, serving_schema
from cdc_views.engines.snapshot import readable
from cdc_views.engines.state_plan import part_in
from cdc_views.landing.delta import committing, open_delta
from cdc_views.plan.compact import PART
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.storage.delta_tables import made_for
from cdc_views.storage.places import Place, arrow_source, at_once, place_of


def commit_files(write: ServingWrite, paths: Sequence[str]) -> None:
    """Let files in the table's folder replace its rows, or those of the buckets of `write`.

    Raises `ConflictError` if somebody else committed since the version that `write` builds on.
    """
    table, folder = open_delta(write.target, version=write.version), place_of(write.target)
    (name, number), schema = write.transaction, serving_schema(write.relation)
    with committing(table) as after:
        made_for(table, schema).create_write_transaction(
            at_once(lambda path: _action(folder, path), paths),
            "overwrite",
            Schema.from_arrow(schema),
            partition_by=[PART],
            partition_filters=[(PART, "in", list(write.parts))] if write.parts else None,
            commit_properties=CommitProperties({NOTE: write.note}, app_transactions=[Transaction(name, number)]),
            post_commithook_properties=after,
        )
        table.update_incremental()


def _action(folder: Place, path: str) -> AddAction:
    file = folder / path
    with readable(str(file)):
        footer = pq.read_metadata(arrow_source(file))
    stats = {"numRecords": footer.num_rows, **_bounds(footer)}
    found = file.stat()
    return AddAction(
        path, found.st_size, {PART: part_in(path)}, int(found.st_mtime * 1000), data_change=True, stats=json.dumps(stats)
    )


def _bounds(footer: pq.FileMetaData) -> dict[str, Any]:
    """Return the bounds of `_changes_at`, the only column that has some; nothing if the footer does not tell them."""
    column = next(n for n in range(footer.num_columns) if footer.schema.column(n).path == CHANGES_AT)
    told = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
    if not told or any(one is None or not one.has_null_count for one in told):
        return {}
    nulls = {"nullCount": {CHANGES_AT: sum(one.null_count for one in told)}}
    bounded = [one for one in told if one.has_min_max]
    if not bounded:
        return nulls
    least, greatest = min(one.min for one in bounded), max(one.max for one in bounded)
    return {**nulls, "minValues": {CHANGES_AT: least}, "maxValues": {CHANGES_AT: greatest}}
