"""What is known of a table's verifications: one small file a table in the warehouse, replaced as a whole by each run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cdc_views.operations.context import TableContext
from cdc_views.storage.places import Place, write_whole

if TYPE_CHECKING:
    from cdc_views.operations.verifying.findings import Verification


@dataclass(frozen=True, slots=True)
class EqualRun:
    """The newest run that found source and view equal: the source's position, the instant (ISO 8601), and the rows compared."""

    at: str
    instant: str
    compared: int
    is_whole: bool

    def line(self) -> str:
        """Return it in one line: position, instant, rows."""
        what = "all" if self.is_whole else "sample"
        return f"{self.at} ({self.instant}, {what}: {self.compared:,} rows)"


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """A table's record.

    Attributes:
        proof: The newest proof; None: no run has found source and view equal.
        last: The last run's verdict, instant, losses, lags and compared rows; empty before the first.
        resume: Where the next sample of the source begins; empty: at its first row.
        runs: How many runs there were: it draws the view's sample.
    """

    proof: EqualRun | None = None
    last: Mapping[str, Any] = field(default_factory=dict)
    resume: str = ""
    runs: int = 0

    @property
    def verified_through(self) -> str | None:
        """The newest proof in one line, and a loss that came later; None before the first run."""
        if not self.last:
            return None
        proven = "nothing" if self.proof is None else self.proof.line()
        losses = self.last.get("losses", 0)
        return f"{proven}; {losses:,} cells lost at {self.last['instant']}" if losses else proven

    def after(self, done: Verification, *, resume: str) -> VerifiedRecord:
        """Return the record after a run."""
        proof = self.proof
        if done.verdict == "equal":
            proof = EqualRun(done.at, done.instant, done.compared, done.is_whole)
        last = {"verdict": done.verdict, "instant": done.instant, "losses": done.losses, "lags": done.lags}
        return VerifiedRecord(proof, {**last, "compared": done.compared}, resume, self.runs + 1)


def record_of(table: TableContext) -> VerifiedRecord:
    """Return a table's record; an empty one before the first run, or if the file is damaged."""
    file = _file(table)
    try:
        told = json.loads(file.read_text("utf-8"))
        proof = None if told["proof"] is None else EqualRun(**told["proof"])
        return VerifiedRecord(proof, dict(told["last"]), str(told["resume"]), int(told["runs"]))
    except (OSError, ValueError, KeyError, TypeError):
        return VerifiedRecord()


def keep(table: TableContext, record: VerifiedRecord) -> None:
    """Write a table's record."""
    file = _file(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(asdict(record), ensure_ascii=False))


def forget_place(table: TableContext) -> None:
    """Let the next sample begin at the source's first row: where it would go on is a key."""
    record = record_of(table)
    if record.resume:
        keep(table, replace(record, resume=""))


def _file(table: TableContext) -> Place:
    project = table.project
    folder: Place = project.root if project.is_remote else project.warehouse
    return folder / "_cdc_views/verified" / f"{table.config.slug}.json"
