"""Compares two answers of a table where they are: the engine sums the rows of each bucket, and only rows of buckets whose sums
differ leave it. While nothing differs, memory does not grow with the table; `plan.sums` says how sure an equal sum is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from cdc_views.engines.base import Engine, Sources
from cdc_views.operations.comparing import Comparison, compare
from cdc_views.plan.parts import Source
from cdc_views.plan.sums import BUCKET, COUNT, SUMS, Places, Rows, Within

ROWS_A_BUCKET = 1_000
MOST_DIGITS = 14
"""At most 2¹⁴ sums leave the engine, whatever the number of rows."""
MANY = 50_000
"""Where so many rows are in buckets that differ, these are split once more, by their rows' keys, before their rows are read."""
MOST_COMPARED = 500_000
"""Rows of buckets that differ, of each answer, that leave the engine; more are counted, not compared."""
_Sums = dict[str, tuple[int, ...]]
"""Bucket → its number of rows, then its sums."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the rows that `sources` show at `as_of` (epoch seconds)."""

    engine: Engine
    sources: Sources
    as_of: int
    _known: dict[Places, _Sums] = field(default_factory=dict, repr=False, compare=False)

    def sums(self, places: Places) -> _Sums:
        """Return the sums of every bucket; asked of the engine once."""
        if places not in self._known:
            self._known[places] = self.sums_within(places, None)
        return self._known[places]

    def sums_within(self, places: Places, within: Within | None) -> _Sums:
        """Return the sums of the rows in some buckets."""
        found = self.engine.rows(self._rows(within).sums(places), self.sources)
        counted = zip(*(found[name].to_pylist() for name in (COUNT, *SUMS)), strict=True)
        return {bucket: tuple(map(int, sums)) for bucket, sums in zip(found[BUCKET].to_pylist(), counted, strict=True)}

    def rows(self, within: Within) -> pa.Table:
        """Return the rows in some buckets, as `compare` takes them."""
        return self.engine.rows(self._rows(within).exact(), self.sources)

    def _rows(self, within: Within | None) -> Rows:
        # reads every file: a state of another raw table may be split by other keys
        return Rows(self.sources.raw.relation, self.as_of, self.sources.split(), within)


def compare_sides(before: Side, after: Side) -> Comparison:
    """Compare two answers of one table at one instant."""
    places = Places(_digits(before, after))
    sums = before.sums(places), after.sums(places)
    rows_before = sum(count for count, *_ in sums[0].values())
    unlike = _unlike(*sums)
    if _most(unlike) > MANY and (finer := MOST_DIGITS - len(unlike).bit_length()) > 0:
        within = Within(places, tuple(unlike))
        places = replace(places, of_row=finer)
        unlike = _unlike(before.sums_within(places, within), after.sums_within(places, within))
    chosen = _chosen(unlike)
    found = Comparison(0, 0, 0, 0, ())
    if chosen:
        within = Within(places, tuple(chosen))
        found = compare(before.sources.raw.relation, before.rows(within), after.rows(within))
    left = {bucket: counts for bucket, counts in unlike.items() if bucket not in chosen}
    equal = rows_before - found.gone - found.changed - sum(count for count, _ in left.values())
    return replace(found, equal=equal, uncompared=_most(left))


_Counts = dict[str, tuple[int, int]]
"""Bucket → its numbers of rows, before and after."""


def _digits(before: Side, after: Side) -> int:
    """The digits that give a bucket of the larger answer some `ROWS_A_BUCKET` facts, where their number is known."""
    rows = [answer.sources.parts.of(Source.ALL).rows for answer in (before, after)]
    known = [count for count in rows if count is not None]
    if len(known) < len(rows):
        return MOST_DIGITS
    return min(MOST_DIGITS, (max(known) // ROWS_A_BUCKET).bit_length())


def _unlike(before: _Sums, after: _Sums) -> _Counts:
    """The buckets that differ, sorted."""
    buckets = sorted(bucket for bucket in before.keys() | after.keys() if before.get(bucket) != after.get(bucket))
    return {bucket: (before.get(bucket, (0,))[0], after.get(bucket, (0,))[0]) for bucket in buckets}


def _most(counts: _Counts) -> int:
    """The rows of the answer that has more in these buckets."""
    return max(map(sum, zip(*counts.values(), strict=True)), default=0)


def _chosen(unlike: _Counts) -> _Counts:
    """The first buckets, with at most `MOST_COMPARED` rows of each answer."""
    chosen: _Counts = {}
    rows = [0, 0]
    for bucket, counts in unlike.items():
        rows = [total + count for total, count in zip(rows, counts, strict=True)]
        if max(rows) > MOST_COMPARED:
            break
        chosen[bucket] = counts
    return chosen
