"""The fidelity of a view's columns, from the raw format and the waivers in the project file."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.formats.base import Verdict
from cdc_views.operations.context import TableContext
from cdc_views.operations.policies import with_policies


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
    """Return one verdict per column, in schema order; verdicts on whole rows (`*`) come first.

    Columns that are left out come last. For an external table the first one says whether views read its events themselves, or a
    copy, and which column is why.
    """
    waive = table.config.fidelity.waive
    left_out = {name for name in table.config.policies.columns if table.config.policies.leaves_out(name)}
    table.check_columns("fidelity.waive", [name for name in waive if name not in {"*", *left_out}])
    lines = [
        FidelityLine(table.name, line.column, line.verdict, line.reason, line.case, waive.get(line.column, ""))
        for line in with_policies(table, table.format.fidelity(table.schema))
    ]
    return _of_reading(table, waive.get("*", "")) + lines


def _of_reading(table: TableContext, waived: str) -> list[FidelityLine]:
    # what is in a warehouse costs a job to look at
    if not table.is_external or table.project.is_remote:
        return []
    from cdc_views.landing.raw_table import is_delta
    from cdc_views.operations.external_events import events_read

    if not is_delta(table.location):
        return []
    engine = table.project.engine_plugin
    found = events_read(table, engine)
    how = "the events in place, by SQL" if found.read else f"a copy of the facts: {found.why}"
    return [FidelityLine(table.name, "*", Verdict.EXACT, f"views on {engine.title} read {how}", "S1", waived)]
