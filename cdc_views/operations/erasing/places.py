"""Where a table's facts are kept: the list that `forget` walks. A new kind of place is one line in `places_of`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdc_views.landing.raw_table import is_delta, quarantine_location
from cdc_views.operations.context import TableContext


class Holds(Enum):
    """What the rows of a place are, which decides how a key is found in it."""

    FACTS = "facts"
    """Columns of the raw layout: rows are deleted."""
    STATE = "state"
    """As FACTS, and commits carry the state's watermark."""
    EVENTS = "events"
    """Quarantine: events lose their bytes."""
    NOTHING_READ = "nothing read"
    """A table that nothing reads any more: its folder is deleted."""
    SERVED = "served"
    """What is written anew from the state, once nothing of the key is left there: its folder is deleted first."""


@dataclass(frozen=True, slots=True)
class ErasableTable:
    """One Delta table on a local disk."""

    what: str
    location: str
    holds: Holds


def places_of(table: TableContext) -> list[ErasableTable]:
    """Return the places that are there, in the order in which they are cleaned."""
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
