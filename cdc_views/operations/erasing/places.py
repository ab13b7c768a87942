"""The Delta tables that keep a table's facts, for `forget`. A new kind of table is one line in `places_of`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdc_views.landing.raw_table import is_delta, quarantine_location
from cdc_views.operations.context import TableContext


class Holds(Enum):
    """The kind of rows in a table, which decides how `forget` erases a key.

    - FACTS: columns of the raw layout; rows are deleted.
    - STATE: as FACTS, and commits carry the state's watermark.
    - EVENTS: quarantine; events lose their bytes.
    - NOTHING_READ: nothing reads the table any more; its folder is deleted.
    - SERVED: the folder is deleted, and the table written again from the clean state.
    """

    FACTS = "facts"
    STATE = "state"
    EVENTS = "events"
    NOTHING_READ = "nothing read"
    SERVED = "served"


@dataclass(frozen=True, slots=True)
class ErasableTable:
    """One Delta table on a local disk."""

    what: str
    location: str
    holds: Holds


def places_of(table: TableContext) -> list[ErasableTable]:
    """Return the tables that exist, in the order of cleaning."""
    raw, generations = table.raw, table.generations
    states = {number: generations.location(number) for number in generations.numbers}
    current = generations.current
    found = [
        ErasableTable("raw", raw.location, Holds.FACTS),
        ErasableTable("quarantine", quarantine_location(raw), Holds.EVENTS),
        *(
            ErasableTable("state", location, Holds.STATE)
            if number == current
            else ErasableTable("old state", location, Holds.NOTHING_READ)
            for number, location in states.items()
        ),
    ]
    if table.serving_location is not None:
        found.append(ErasableTable("serving", table.serving_location, Holds.SERVED))
    return [place for place in found if is_delta(place.location)]
