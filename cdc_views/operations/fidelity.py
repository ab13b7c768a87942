"""The fidelity of a view's columns, from the raw format and the waivers in the project file."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.formats.base import Verdict
from cdc_views.operations.context import TableContext


@dataclass(frozen=True, slots=True)
class FidelityLine:
    """The fidelity of one column of a table's view; `waived` is the project file's reason to accept it."""

    table: str
    column: str
    verdict: Verdict
    reason: str
    case: str = ""
    waived: str = ""


def fidelity_of(table: TableContext) -> list[FidelityLine]:
    """Return one verdict per column, in schema order; verdicts on whole rows (`*`) come first."""
    waive = table.config.fidelity.waive
    table.check_columns("fidelity.waive", [name for name in waive if name != "*"])
    return [
        FidelityLine(table.name, line.column, line.verdict, line.reason, line.case, waive.get(line.column, ""))
        for line in table.format.fidelity(table.schema)
    ]
