"""What proves a table: the last comparisons with its source, its states, and how to compare a rebuilt one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_views.operations.context import TableContext
from cdc_views.operations.run_records import RunRecord, of_table
from cdc_views.operations.verifying.record import EqualRun, record_of


@dataclass(frozen=True, slots=True)
class ProofPage:
    """`proof` is the newest run of `verify` that found source and view equal, `last` what the last run found; `runs` earlier
    ones, newest first; `rebuilds` likewise of `rebuild`. `generation` is that of the state that is read.
    """

    proof: EqualRun | None
    last: Mapping[str, Any]
    runs: tuple[tuple[str, Mapping[str, Any]], ...]
    rebuilds: tuple[tuple[str, Mapping[str, Any]], ...]
    generation: int | None
    source: str


def proof_page(table: TableContext, records: Iterable[RunRecord]) -> ProofPage:
    """Return the page; reads records alone."""
    kept, known = record_of(table), list(records)
    by_command = {
        command: tuple((r.at, f) for r, f in reversed(of_table([r for r in known if r.command == command], table.name)))[:20]
        for command in ("verify", "rebuild")
    }
    generation = None if table.project.is_remote else table.generations.current
    has_source = "the project file names its source" if table.config.source else ""
    return ProofPage(kept.proof, kept.last, by_command["verify"], by_command["rebuild"], generation, has_source)
