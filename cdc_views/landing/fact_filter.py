"""What landing does about forgotten keys: keep what is newer, hold back what is older."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import RawFormat, SourceLine
from cdc_views.landing.forgotten import Entry, Forgotten, newer_part
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact

NOT_KEPT = b""
"""The bytes that quarantine keeps of an event with something of a forgotten key."""


def sifted(
    forgotten: Forgotten, format: RawFormat, facts: Sequence[Fact], *, schema: TableSchema, event: SourceLine, now: int
) -> tuple[list[Fact], str]:
    """Return what of an event's facts may land at `now` (µs), and why the rest may not; empty where there is no rest."""
    kept: list[Fact] = []
    reason = ""
    for fact in facts:
        entry = forgotten.over(schema, fact)
        newer = fact if entry is None else _newer(entry, fact, format=format, event=event, now=now)
        if newer is not None:
            kept.append(newer)
        if newer is not fact and newer != fact:
            reason = entry.reason() if entry else reason
    return kept, reason


def _newer(entry: Entry, fact: Fact, *, format: RawFormat, event: SourceLine, now: int) -> Fact | None:
    try:
        happened = format.happened(event)
    except MalformedEventError:
        happened = None
    older = entry.older(format.order, happened=happened, now=now)
    return None if older is None else newer_part(fact, than=older)
