"""What a table's policies of columns mean for its readers, and whether raw still has values from before they were set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from cdc_views.formats.base import Fidelity, Verdict
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.raw_table import is_delta
from cdc_views.model.column_policies import EXTRA, ColumnPolicy, ExtraColumns, Policy
from cdc_views.model.naming import physical_name
from cdc_views.operations.context import TableContext
from cdc_views.storage.delta_tables import opened

REMEDY = "name another `raw: {table: …}`, land the source again, and delete the old raw table and state"
_HEX = re.compile(r"[0-9a-f]{1,64}")
_SHOWN = {
    Policy.HASH: "policy hash: the HMAC-SHA-256 of the value, as text; of two writes of a cell at one instant, hashes decide (C2.6)",
    Policy.MASK: "policy mask: one text for every value",
    Policy.LEAVE_OUT: "policy leave_out: nothing of it is stored, and views lack it; a row alive by this column alone is not shown",
}
_EXTRA = {
    ExtraColumns.LEAVE_OUT: "columns that the schema lacks matter to nobody: events land without them (extra_columns)",
    ExtraColumns.JSON: f"columns that the schema lacks are read from {EXTRA}, a JSON object (extra_columns)",
}


def with_policies(table: TableContext, lines: list[Fidelity]) -> list[Fidelity]:
    """Return the format's verdicts with those of policies in their place, and of columns that are left out after them."""
    policies = table.config.policies
    if not policies:
        return lines
    held = set(earlier(table))
    theirs = "; the raw table, which somebody else lands, still has its values" if table.is_external else ""
    of_columns = {
        name: Fidelity(
            name,
            Verdict.APPROXIMATE,
            _SHOWN[one.policy] + theirs + (f"; raw has values from before the policy: {REMEDY}" if name in held else ""),
        )
        for name, one in policies.columns.items()
    }
    kept = [of_columns.pop(line.column, line) for line in lines]
    extra = [Fidelity("*", Verdict.EXACT_IF, why)] if (why := _EXTRA.get(policies.extra)) else []
    return extra + [replace(line, case="") if line.column == EXTRA else line for line in kept] + list(of_columns.values())


def earlier(table: TableContext) -> list[str]:
    """Return the columns with a policy of which raw has values from before it, as far as the statistics of its files show.

    A file that merged files from before and after may hide them; a column that is left out shows as long as raw has it.
    """
    policies = table.config.policies.columns
    if not policies or table.project.is_remote or table.is_external or not is_delta(table.raw.location):
        return []
    with delta_errors(table.raw.location):
        files = pa.table(opened(table.raw.location).get_add_actions(flatten=True))
    return [name for name, one in policies.items() if any(not _is_of(one, found) for found in _extremes(files, name))]


def _extremes(files: pa.Table, column: str) -> Iterator[object]:
    """Yield the smallest and largest values of a column in each file."""
    stem = physical_name(column)
    leaves = (stem, f"{stem}.value", f"{stem}.cells")
    for name in files.column_names:
        side, _, leaf = name.partition(".")
        if side in ("min", "max") and any(leaf == one or leaf.startswith(f"{one}.") for one in leaves):
            yield from (value for value in files.column(name).to_pylist() if value is not None)


def _is_of(policy: ColumnPolicy, value: object) -> bool:
    match policy.policy:
        case Policy.HASH:
            return isinstance(value, str) and _HEX.match(value) is not None
        case Policy.MASK:
            return isinstance(value, str) and value[:8] == policy.text[:8]
    return False
