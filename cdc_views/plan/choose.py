"""Which strategy `auto` means, and why."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.errors import UnsupportedError, did_you_mean
from cdc_views.plan.rewrites import LOWERINGS


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and the reason for it, a sentence fit for a comment."""

    strategy: str
    why: str


def choose(strategy: str) -> Choice:
    """Return the strategy to use; `auto` decides, anything else was pinned by the user."""
    if strategy != "auto":
        if strategy not in LOWERINGS:
            known = ["auto", *LOWERINGS]
            raise UnsupportedError(
                f"there is no strategy {strategy!r}{did_you_mean(strategy, known)}", remedy=f"choose one of {', '.join(known)}"
            )
        return Choice(strategy, f"strategy {strategy}, as asked for")
    return Choice("aggregate", "strategy aggregate: one scan and one group-by, the fastest exact one on every engine measured")
