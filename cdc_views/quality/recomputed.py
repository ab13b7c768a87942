"""What the oracle makes of drawn partitions: read from files without an engine, so that an engine may count meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_views.engines.base import Engine, Sources
from cdc_views.quality.landed import LandedSample, landed
from cdc_views.quality.sampling import Identity, Mismatch, Sample, differences, draw, expected_rows, kept_facts, shown_rows
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import Row


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
    landed: LandedSample
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
