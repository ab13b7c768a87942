"""The settings and the result of a run of `materialize`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Materialization:
    """What one call did.

    Attributes:
        is_new: Whether the state changed.
        raw_version: The version of the raw table that the state covers now; None if a warehouse keeps both.
        facts: Raw facts read; None if the raw table's log does not say.
        is_full: The state was built from all of raw; `why` is the reason, unless it was asked for.
        merged: `""`, or what the runs became: `runs` (one run), `overlay` or `base`.
        state_facts: Facts in the state now.
        state_bytes: Bytes of its files.
        told: The whole line for people, if it is not about the state alone.
        late: Raw facts that went into quarantine, whole or in part, because they landed too late (rule M2).
    """

    is_new: bool
    raw_version: int | None
    facts: int | None
    is_full: bool = False
    why: str = ""
    merged: str = ""
    state_facts: int = 0
    state_bytes: int = 0
    told: str = ""
    late: int = 0

    def line(self) -> str:
        """One line for people."""
        if self.told:
            return self.told
        if not self.is_new:
            return f"state is up to date with raw version {self.raw_version}"
        what = "built" if self.is_full else "brought up to date"
        read = "" if self.facts is None else f" from {self.facts:,} raw facts"
        why = f" ({self.why})" if self.why else ""
        size = f"{self.state_facts:,} facts, {self.state_bytes / 1e6:,.1f} MB"
        late = f"; {self.late:,} facts landed too late and are in quarantine" if self.late else ""
        return f"state {what}{read} to raw version {self.raw_version}{why}: {size}{late}"


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Rule M2, fixed for a run.

    Attributes:
        horizon: Seconds since the epoch; what ended at or before it leaves a new base. None: nothing leaves.
        memory: The location of another state of the same raw table, whose purges and quarantine count for this one.
    """

    horizon: int | None = None
    memory: str = ""


NOTHING = Forgetting()
"""Forget nothing: the default."""
