"""How far each column of a view can be trusted, by the raw format and by what the project file accepts."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.formats.base import Verdict
from cdc_views.operations.context import TableContext


@dataclass(frozen=True, slots=True)
class FidelityLine:
    """How far one column of one table's view can be trusted; `waived` is the project file's reason to accept it."""

    table: str
    column: str
    verdict: Verdict
    reason: str
    case: str = ""
    waived: str = ""


def fidelity_of(table: TableContext) -> list[FidelityLine]:
    """Return one verdict a column, in schema order, preceded by those of `*` (whole rows)."""
    waive = table.config.fidelity.waive
    table.check_columns("fidelity.waive", [name for name in waive if name != "*"])
    return [
        FidelityLine(table.name, line.column, line.verdict, line.reason, line.case, waive.get(line.column, ""))
        for line in table.format.fidelity(table.schema)
    ]
