"""Takes back what a producer made on the server: a slot, for which the server keeps log, and publications."""

from __future__ import annotations

from contextlib import closing

from cdc_producers.postgres.connections import connect, identifier, rows
from cdc_producers.postgres.options import PGOUTPUT
from cdc_producers.postgres.publications import published_as
from cdc_producers.postgres.slots import find_slot
from cdc_views.errors import UsageError
from cdc_views.landing.targets import ProducerLog


def drop(slot: str, publication: str | None, log: ProducerLog, *, plugin: str = PGOUTPUT) -> None:
    """Drop a slot, and the publications of this name (None: they stay); what is not there is said.

    Raises `UsageError` for a slot that is read, or is of another plugin or database.
    """
    with closing(connect()) as connection:
        found = find_slot(connection, slot, plugin=plugin)
        if found is not None and found.active_process is not None:
            raise UsageError(f"slot {slot} is read by process {found.active_process} of the server; stop that producer first")
        if found is None:
            log.info(f"slot {slot} is not there", slot=slot)
        else:
            rows(connection, "SELECT pg_drop_replication_slot(%s)", (slot,), doing=f"dropping slot {slot}")
            log.info(f"slot {slot} dropped: the server keeps no more log for it", slot=slot)
        for name in () if publication is None else published_as(publication):
            if rows(connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", (name,), doing="looking for the publication"):
                rows(connection, f"DROP PUBLICATION {identifier(name)}", doing=f"dropping publication {name}")
                log.info(f"publication {name} dropped", publication=name)
