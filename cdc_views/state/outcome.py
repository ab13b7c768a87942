"""What a call of `materialize` did, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Materialization:
    """The result of one call."""

    is_new: bool
    raw_version: int | None  # the version of raw that the state covers now; None if a warehouse keeps both
    facts: int | None  # raw facts read; None if the raw table's log does not have it
    is_full: bool = False  # the state was built from all of raw; `why` is the reason, unless it was asked for
    why: str = ""
    merged: str = ""  # what the runs became: `runs` (one run), `merge` or `base`; or empty
    state_facts: int = 0
    state_bytes: int = 0
    told: str = ""  # the whole line for people, if it is not about the state alone
    late: int = 0  # raw facts that went into quarantine, whole or in part, because they landed too late (rule M2)

    def line(self) -> str:
        """Return one line for people."""
        if self.told:
            return self.told
        if not self.is_new:
            return f"state is up to date with raw version {self.raw_version}"
        read = what_was_read(self.facts, is_full=self.is_full)
        why = f"; {self.why}" if self.why else ""
        size = f"it now has {self.state_facts:,} facts in {self.state_bytes / 1e6:,.1f} MB"
        late = f"; {self.late:,} facts landed too late and are in quarantine" if self.late else ""
        return f"state {read} (raw version {self.raw_version}{why}); {size}{late}"


def what_was_read(facts: int | None, *, is_full: bool) -> str:
    """Return what became of a state, and of how many raw facts (None: not known): all of them, or those that are new to it."""
    if is_full:
        return "built" if facts is None else f"built from {facts:,} raw facts"
    return "brought up to date" if facts is None else f"brought up to date with {facts:,} new raw facts"
