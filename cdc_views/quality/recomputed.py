"""What the oracle makes of drawn partitions: read from files without an engine, so that an engine may count meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import pyarrow.parquet as pq

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.duckdb.tables import from_clause, from_row_groups
from cdc_views.engines.snapshot import Snapshot, snapshot_of
from cdc_views.quality.sampling import (
    Identity,
    Mismatch,
    Sample,
    differences,
    draw,
    expected_rows,
    facts_from,
    kept_facts,
    shown_rows,
)
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import Row

MOST_FACTS = 250_000
"""Facts of raw that are looked at, give or take a row group."""


@dataclass(frozen=True, slots=True)
class SampledRaw:
    """Facts of the sample, and truncates, in what was looked at: `looked_at` raw facts; `is_whole`: all there are."""

    facts: list[Fact]
    looked_at: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: its file, and its rows by their numbers in it."""

    file: str
    rows: range


def landed(sample: Sample, *, seed: int, most: int = MOST_FACTS) -> SampledRaw:
    """Return what raw has of the sample; `seed` draws what is looked at, the newest file always."""
    raw = sample.sources.raw
    snapshot = snapshot_of(raw, version=sample.sources.raw_version)
    groups: list[_Group] = []
    looked_at = 0
    for group in _drawn(snapshot, Random(seed)):
        if looked_at >= most:
            return SampledRaw(_of_groups(sample, groups), looked_at, is_whole=False)
        groups.append(group)
        looked_at += len(group.rows)
    rows = looked_at if snapshot.arrow is None else snapshot.arrow.num_rows
    return SampledRaw(facts_from(sample, from_clause(snapshot, raw), arrow=snapshot.arrow), rows, is_whole=True)


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


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Drawn partitions, and what they have to show.

    Attributes:
        sample: The partitions.
        landed: What raw has of them, all or a part.
        kept: What state and tail have of them.
        expected: The oracle's rows.
        as_of: Epoch seconds: the clock of rule C4.
    """

    sample: Sample
    landed: SampledRaw
    kept: list[Fact]
    expected: list[Row]
    as_of: int

    def against(self, engine: Engine) -> Mismatch:
        """Compare with what the engine shows of state and tail."""
        shown = shown_rows(engine, self.sample, as_of=self.as_of)
        return differences(self.sample.sources.raw.relation.schema, self.expected, shown)


def recomputed(sources: Sources, *, size: int, seed: int, as_of: int, without: frozenset[Identity] = frozenset()) -> Recomputed:
    """Draw at most `size` partitions but those `without`, and let the oracle make rows of their facts.

    Where raw is read in part, the facts of the state stand for the rest: compacting is closed (M1).
    """
    sample = draw(sources, size=size, seed=seed)
    sample = replace(sample, identities=sample.identities - without)
    part, kept = landed(sample, seed=seed), kept_facts(sample)
    facts = part.facts if part.is_whole else part.facts + kept
    return Recomputed(sample, part, kept, expected_rows(sample, facts, as_of=as_of), as_of)
