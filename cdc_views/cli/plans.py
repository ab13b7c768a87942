"""What `plan` and `apply --dry-run` print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cdc_views.cli.printing import as_json_rows, print_rows

if TYPE_CHECKING:
    from cdc_views.operations.applying import TablePlan

_COLUMNS = ("table", "view", "change", "raw_version", "raw_rows", "raw_bytes")
_PRICED = ("table", "view", "change", "raw_rows", "raw_bytes", "read_bytes", "money", "currency", "most_bytes")


def print_plans(plans: Sequence[TablePlan], *, format: str) -> None:
    """Print one row a table, then the differences; what a read costs where the engine can say."""
    is_priced = any(planned.is_remote for planned in plans)
    columns = _PRICED if is_priced else _COLUMNS
    if format != "table":
        columns = (*columns, "schema", "diff") if is_priced else (*columns, "diff")
    print_rows(columns, as_json_rows([{name: _record(planned)[name] for name in columns} for planned in plans]), format=format)
    if format != "table":
        return
    for planned in plans:
        for line in planned.schema:
            print(line)
        print(planned.diff, end="\n\n" if planned.diff else "")


def _record(planned: TablePlan) -> dict[str, Any]:
    estimate = planned.estimate
    return {
        "table": planned.table,
        "view": planned.view,
        "change": planned.change,
        "raw_version": planned.raw_version,
        "raw_rows": planned.raw_rows,
        "raw_bytes": planned.raw_bytes,
        "read_bytes": None if estimate is None else estimate.reads,
        "money": None if estimate is None else round(estimate.money, 6),
        "currency": None if estimate is None else estimate.currency,
        "most_bytes": None if estimate is None else estimate.limit,
        "schema": list(planned.schema),
        "diff": planned.diff,
    }
