"""What commands say of rows of found tables that are no events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_views.cli.log import log

if TYPE_CHECKING:
    from cdc_views.table import Table


def warn_of_quarantine(*tables: Table) -> None:
    """Warn of each table, landed by somebody else, whose rows are not all shown."""
    for table in tables:
        note = table.quarantine_note()
        if note:
            log.warning(f"{table.name}: {note}")
