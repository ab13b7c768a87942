"""Whether raw and quarantine still have values from before a column had its policy."""

from __future__ import annotations

import re

import pyarrow.parquet as pq

from cdc_views.engines.snapshot import readable
from cdc_views.formats.redaction import is_as_it_came
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.raw_table import is_delta, quarantine_location
from cdc_views.model.column_policies import ColumnPolicy, Policy
from cdc_views.model.naming import physical_name
from cdc_views.operations.context import TableContext
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import arrow_source
from cdc_views.storage.table_log import TableLog

_MOST_OPENED = 1_000
"""Files: each is opened."""
_HEX = re.compile(r"[0-9a-f]{1,64}")


def earlier(table: TableContext) -> list[str]:
    """Return the columns with a policy of which raw has values from before it, as far as the footers of its files show.

    A file that merged files from before and after may hide them.
    """
    policies = table.config.policies.columns
    if not policies or table.project.is_remote or table.is_external or not is_delta(table.raw.location):
        return []
    found = set[str]()
    stems = {physical_name(name): name for name in policies}
    for path in TableLog.open(table.raw.location).paths[:_MOST_OPENED]:
        with readable(path):
            footer = pq.read_metadata(arrow_source(path))
        leaves = [(n, leaf) for n in range(footer.num_columns) if (leaf := _value_of(footer.schema.column(n).path)) in stems]
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for index, leaf in leaves:
                told = group.column(index).statistics
                if (
                    told is not None
                    and told.has_min_max
                    and not all(_is_of(policies[stems[leaf]], v) for v in (told.min, told.max))
                ):
                    found.add(stems[leaf])
    return [name for name in policies if name in found]


def earlier_events(table: TableContext) -> int:
    """Return the number of events in quarantine that came before a column had a policy, and may have its values."""
    if not table.config.policies.columns or table.project.is_remote or table.is_external:
        return 0
    location = quarantine_location(table.raw)
    if not is_delta(location):
        return 0
    with delta_errors(location):
        batches = opened(location).to_pyarrow_dataset().to_batches(columns=["event"])
        return sum(is_as_it_came(event) for batch in batches for event in batch.column(0).to_pylist() if event)


def _value_of(leaf: str) -> str:
    """Return the column of which a leaf of a raw file holds values; empty for one that holds none."""
    stem, _, rest = leaf.partition(".")
    return stem if rest in ("", "value") or rest.startswith(("value.", "cells.")) else ""


def _is_of(policy: ColumnPolicy, value: object) -> bool:
    match policy.policy:
        case Policy.HASH:
            return isinstance(value, str) and _HEX.match(value) is not None
        case Policy.MASK:
            return isinstance(value, str) and value[:8] == policy.text[:8]
    return False
