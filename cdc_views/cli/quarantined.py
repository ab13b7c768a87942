"""Warnings about hidden facts: rows of external tables that are no events, and facts that landed too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_views.cli.log import log

if TYPE_CHECKING:
    from cdc_views.table import Table


def warn_of_quarantine(*tables: Table) -> None:
    """Warn of external tables with rows that are no events."""
    for table in tables:
        if table.is_external and (note := _note(table)):
            log.warning(f"{table.name}: {note}")


def _note(table: Table) -> str:
    from cdc_views.operations.ingest import quarantine_note

    return quarantine_note(table)


def warn_of_late(name: str, count: int) -> None:
    """Warn of facts that a run quarantined because they landed too late."""
    if count:
        what = f"{count:,} facts landed after the lateness horizon and are not shown"
        log.warning(f"{name}: {what}; `cdc-views late {name}` lists them", table=name)
