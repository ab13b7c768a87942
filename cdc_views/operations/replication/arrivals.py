"""What each node landed over time, and how long after it was written: which node lags, and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_views.operations.replication.counting import Reader
from cdc_views.operations.replication.statements import COUNT, DELAY, NODE, SPAN
from cdc_views.storage.relation import RawTable

SPANS = 48
"""The spans of equal length that the time of landings is divided into."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What one node landed in one span of time, which begins at `since` (µs): copies of cell facts, and the mean time (µs) from
    the write of one to its landing. `delay` is None where nothing landed; clocks that differ may bring it below 0.
    """

    since: int
    facts: int = 0
    delay: int | None = None


def arrivals(raw: RawTable, *, spans: int = SPANS) -> Mapping[str, tuple[Arrival, ...]]:
    """Return the spans of each node by its name, oldest first, all nodes alike; empty if no node has landed anything.

    Reads all of raw. One landing is one span; the last span ends with the last landing.
    """
    facts, delays = defaultdict[tuple[str, int], int](int), defaultdict[tuple[str, int], int](int)
    with Reader(raw) as reader:
        first = min((one.first for one in reader.landed.values()), default=0)
        last = max((one.last for one in reader.landed.values()), default=0)
        step = -(-(last + 1 - first) // spans)
        for place in reader.places():
            for row in reader.rows(reader.statements.arrivals(place, since=first, step=step)).to_pylist():
                facts[row[NODE], row[SPAN]] += row[COUNT]
                delays[row[NODE], row[SPAN]] += int(row[DELAY])

    def span(node: str, number: int) -> Arrival:
        count, since = facts.get((node, number), 0), first + number * step
        return Arrival(since, count, delays[node, number] // count) if count else Arrival(since)

    return {node: tuple(span(node, number) for number in range((last - first) // step + 1)) for node in reader.landed}
