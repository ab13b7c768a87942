"""What raw has of sampled partitions: everything where raw is small, else what some of its row groups have.

Raw only grows, so a test that reads all of it each time costs more each day. The state has taken in every fact of raw, and
taking one in again changes nothing (rule M1). So whichever part of raw is looked at, state and part together show what the
state shows. All of raw says more: that the state shows nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pyarrow.parquet as pq

from cdc_views.engines.duckdb.tables import from_clause, from_row_groups
from cdc_views.engines.snapshot import Snapshot, snapshot_of
from cdc_views.quality.sampling import Sample, facts_from
from cdc_views.rules.facts import Fact

MOST_FACTS = 250_000
"""Facts of raw that are looked at, give or take a row group."""


@dataclass(frozen=True, slots=True)
class LandedSample:
    """Facts of the sample, and truncates, in what was looked at: `looked_at` raw facts; `is_whole`: all there are."""

    facts: list[Fact]
    looked_at: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: its file, and its rows by their numbers in it."""

    file: str
    rows: range


def landed(sample: Sample, *, seed: int, most: int = MOST_FACTS) -> LandedSample:
    """Return what raw has of the sample; `seed` draws what is looked at, the newest file always."""
    raw = sample.sources.raw
    snapshot = snapshot_of(raw, version=sample.sources.raw_version)
    groups: list[_Group] = []
    looked_at = 0
    for group in _drawn(snapshot, Random(seed)):
        if looked_at >= most:
            return LandedSample(_of_groups(sample, groups), looked_at, is_whole=False)
        groups.append(group)
        looked_at += len(group.rows)
    rows = looked_at if snapshot.arrow is None else snapshot.arrow.num_rows
    return LandedSample(facts_from(sample, from_clause(snapshot, raw), arrow=snapshot.arrow), rows, is_whole=True)


def _drawn(snapshot: Snapshot, random: Random) -> Iterator[_Group]:
    """Row groups in random order, file by file, so that few footers are read; the newest file comes first."""
    if snapshot.arrow is not None:
        return
    others = list(snapshot.files[:-1])
    random.shuffle(others)
    for file in (*snapshot.files[-1:], *others):
        groups = list(_groups(file))
        random.shuffle(groups)
        yield from groups


def _groups(file: str) -> Iterator[_Group]:
    metadata, first = pq.read_metadata(file), 0
    for number in range(metadata.num_row_groups):
        count = metadata.row_group(number).num_rows
        yield _Group(file, range(first, first + count))
        first += count


def _of_groups(sample: Sample, groups: list[_Group]) -> list[Fact]:
    found: list[Fact] = []
    for file in dict.fromkeys(group.file for group in groups):
        ranges = [group.rows for group in groups if group.file == file]
        found += facts_from(sample, from_row_groups(file, ranges, pq.read_schema(file), sample.sources.raw))
    return found


__all__ = ["MOST_FACTS", "LandedSample", "landed"]
