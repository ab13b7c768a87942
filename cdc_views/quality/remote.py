"""Data tests of a table whose raw events are in a warehouse that is not on this machine: what one query there counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cdc_views.engines.base import Engine, Sources
from cdc_views.quality.checks import Check
from cdc_views.quality.counting import Wanted, counts
from cdc_views.relation import RawTable

_SKIPPED = (
    Check("raw_files", "what is kept in files is there and readable"),
    Check("sample_equals_oracle", "sampled partitions show what the rules make of their raw events", unit="rows and cells"),
    Check("deletions_are_kept", "of sampled partitions, no deletion is lost: what it covered could come back (D1)"),
)
_WHY = "only for Delta tables of this machine"


def remote_checks(
    engine: Engine, raw: RawTable, *, as_of: int, wanted: dict[str, Wanted], agreeing: Callable[[], Iterator[Check]]
) -> Iterator[Check]:
    """Return the checks that counting decides, those with captured answers, and which ones cannot run here.

    Args:
        engine: Where the raw table is.
        raw: The raw table.
        as_of: Epoch seconds: the clock of rule C4.
        wanted: As `counting.counts` takes them.
        agreeing: What compares with captured answers of the source.
    """
    yield from counts(engine, raw.relation, Sources(raw, 0, is_raw=True), as_of=as_of, wanted=wanted)
    yield from (check.skipped(_WHY) for check in _SKIPPED)
    yield from agreeing()
