"""What a table's policies of columns mean for its readers."""

from __future__ import annotations

from dataclasses import replace

from cdc_views.formats.base import Fidelity, Verdict
from cdc_views.model.column_policies import EXTRA, ExtraColumns, Policy
from cdc_views.operations.context import TableContext

REMEDY = (
    "name another `raw: {table: …}`, take it with `cdc-views rebuild TABLE --accept`, land the source again, and delete the old"
    " raw table and state"
)
_SHOWN = {
    Policy.HASH: "policy hash: the HMAC-SHA-256 of the value, as text; of two writes of a cell at one instant its order decides",
    Policy.MASK: "policy mask: one text for every value",
    Policy.LEAVE_OUT: "policy leave_out: nothing of it is stored or shown; a row that is alive by it alone is not shown",
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
    # most tables have no policy, and need none of what reads files
    from cdc_views.operations.earlier_values import earlier

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
