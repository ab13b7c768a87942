"""Data tests of a table whose raw events are in a warehouse that is not on this machine: queries there decide them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.exact import rows_of
from cdc_views.engines.warehouses import Sampled
from cdc_views.quality.checks import Check
from cdc_views.quality.counting import Wanted, counts_apart, why_unreadable
from cdc_views.quality.sampling import DELETIONS, SAMPLE, Mismatch, differences
from cdc_views.rules.oracle import latest_rows
from cdc_views.storage.relation import RawTable
from cdc_views.storage.relation_read import facts_of

_FILES = (
    Check("raw_files", "what is kept in files is there and readable"),
    DELETIONS,
)
_WHY = "only for Delta tables of this machine"
_LOOKS = 2
"""What landed, or was merged, between the two reads of a sample differs as well, but not again."""


def remote_checks(
    engine: Engine,
    raw: RawTable,
    *,
    as_of: int,
    wanted: dict[str, Wanted],
    sampled: Callable[[], Sampled] | None,
    agreeing: Callable[[], Iterator[Check]],
) -> Iterator[Check]:
    """Return the checks that counting decides, the sample, those with captured answers, and which ones cannot run here.

    Args:
        engine: Where the raw table is.
        raw: The raw table.
        as_of: Epoch seconds: the clock of rule C4.
        wanted: As `counting.counts` takes them.
        sampled: What reads some partitions; None without a state that can be read by this clock.
        agreeing: What compares with captured answers of the source.
    """
    counted = list(counts_apart(engine, raw.relation, Sources(raw, 0, is_raw=True), as_of=as_of, wanted=wanted))
    yield from counted
    if why := why_unreadable(counted):
        yield SAMPLE.skipped(why)
    elif sampled is None:
        yield SAMPLE.skipped("there is no state that could be read: the view is computed from raw each time")
    else:
        yield _compared(raw, as_of=as_of, sampled=sampled)
    yield from (check.skipped(_WHY) for check in _FILES)
    yield from agreeing()


def _compared(raw: RawTable, *, as_of: int, sampled: Callable[[], Sampled]) -> Check:
    """The oracle's rows of the partitions' raw facts against what state and tail show of them."""
    mismatch, partitions = Mismatch(0, ()), 0
    for _ in range(_LOOKS):
        sample = sampled()
        partitions = sample.partitions
        expected = latest_rows(raw.relation.schema, list(facts_of(raw.relation, sample.landed)), now=as_of)
        shown = [] if sample.shown is None else list(rows_of(raw.relation, (), sample.shown))
        mismatch = differences(raw.relation.schema, expected, shown)
        if not mismatch.count:
            break
    note = f"{partitions:,} partitions recomputed from all of raw"
    return replace(SAMPLE, broken=mismatch.count, where=mismatch.where, note=note)
