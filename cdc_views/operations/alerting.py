"""Alerts from records of runs, to a webhook: what a run found that the one before had not, and what is over.

A record says what is wrong with each table; the record before says what was wrong already. So a job of every five minutes
tells of a failed test once, and once more when it holds again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cdc_views.operations.posting import post_json
from cdc_views.operations.run_records import RunRecord

FIRING, RESOLVED = "firing", "resolved"
FAILED = "failed"
"""The member of a table's figures that says that the run failed for it."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that is wrong with a table, or is so no longer; `text` says what was found, without keys and values."""

    table: str
    alert: str
    state: str
    text: str


def alerts_between(before: RunRecord, now: RunRecord) -> tuple[Alert, ...]:
    """Return what a run says anew, and what of the record before it is over, by table and name."""
    told, found = _wrong(before), _wrong(now)
    new = [Alert(table, name, FIRING, text) for (table, name), text in found.items() if (table, name) not in told]
    over = [Alert(t, n, RESOLVED, text) for (t, n), text in told.items() if (t, n) not in found and t in now.tables]
    return tuple(sorted((*new, *over), key=lambda one: (one.table, one.alert)))


def carried(known: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return each table's figures after a run: where it failed it found nothing, so what was found before stands."""
    found = dict(known)
    for table, figures in tables.items():
        before = known.get(table, {}) if figures.get(FAILED) is True else {}
        found[table] = {**before, **figures}
    return found


def _wrong(record: RunRecord) -> dict[tuple[str, str], str]:
    return {(table, name): text for table, figures in record.tables.items() for name, text in _found(record.command, figures)}


def _found(command: str, figures: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if figures.get(FAILED) is True:
        yield f"{command}_failed", f"{command} failed: {figures.get('error', 'its log says why')}"
    if command == "validate":
        yield from ((f"test:{name}", f"{name}: {result}") for name, result in dict(figures.get("failures", {})).items())
    if command == "verify" and figures.get("losses"):
        yield "cells_lost", f"{figures['losses']:,} cells of the source are not what the view shows"
    if command == "materialize" and figures.get("late"):
        yield "facts_late", f"{figures['late']:,} facts landed too late to be merged"


def post(url: str, project: str, record: RunRecord, alerts: Iterable[Alert]) -> str:
    """Post alerts as JSON; return why that failed, without the URL, empty if it did not. Raises nothing of the network."""
    listed = list(alerts)
    text = "\n".join(f"{'ok' if one.state == RESOLVED else 'ALERT'} {project} {one.table}: {one.text}" for one in listed)
    body = {"project": project, "command": record.command, "at": record.at, "text": text, "alerts": [asdict(a) for a in listed]}
    return post_json(url, body)
