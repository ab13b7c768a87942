"""`verify`: proves the view against the live source, cell by cell, both ways, with a bounded load on the source."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any

from cdc_views.errors import EngineError, TransientError, UnsupportedError, UsageError
from cdc_views.landing.live_sources import LiveOrder, LiveTable, SourceRow, live_source
from cdc_views.landing.raw_table import is_delta
from cdc_views.model.column_policies import ColumnPolicies, Policy
from cdc_views.operations.applied import applied_file
from cdc_views.operations.context import TableContext
from cdc_views.operations.generating import definition_on, direct_definition
from cdc_views.operations.ingest import check_raw_is_whole
from cdc_views.operations.verifying.deciding import Decider
from cdc_views.operations.verifying.findings import CellVerdict, Lost, LostCell, Verification, WrongKind
from cdc_views.operations.verifying.load import Bounds, SourceLoad
from cdc_views.operations.verifying.record import VerifiedRecord, keep, record_of
from cdc_views.operations.verifying.rows import Key, ServedRows, Shown, key_of, key_values, unlike
from cdc_views.rules.codec.jsontext import quote

SEGMENT = 100_000
"""Rows of the source that are in memory at once."""
MOST_DECIDED = 1_000
"""Differing keys that are read again; more only say that very much is wrong."""
_VIEW_SETTLES = 15.0
"""Seconds in which an applied view is replaced after a landing: producers look every ten."""


def source_of(table: TableContext, source: str | None = None) -> str:
    """Return the address of the table's live source: `source`, else the project file's. Raises `UsageError` if there is none that
    can be read, without asking it.
    """
    address = source or table.config.source
    if not address:
        raise UsageError(
            f"{table.project.file}: {table.name} has no `source`; give it one, as source: postgresql://host/shop, or name one "
            "with --source"
        )
    if hashed := sorted({column.name for column in table.schema.row_key} & table.config.policies.columns.keys()):
        raise UnsupportedError(
            f"{table.project.file}: {table.name} has a policy on {', '.join(hashed)}, a column of its key, and no source finds "
            "a row by the hash of its key",
            remedy="verify a table without policies on its key, or compare with `truth` in `validate`",
        )
    live_source(address)
    return address


def verify_table(
    table: TableContext,
    *,
    now: datetime,
    source: str | None = None,
    at: str | None = None,
    bounds: Bounds | None = None,
    engine: str | None = None,
    load: SourceLoad | None = None,
) -> Verification:
    """Compare the view with the live source, and keep the result in the table's record.

    Args:
        table: The table, which has landed.
        now: The instant of the run.
        source: The source's address; default: the project file's `source` of the table.
        at: The position that must have landed, in the source's own form; default: the one at which the source is read.
        bounds: What the run may read; default: a sample.
        engine: Where the view is read; default: the project's engine.
        load: Counts and paces; default: a new one of these bounds.

    Raises:
        UsageError: No source, an unknown one, or one that refuses.
        TransientError: The source is away.
    """
    address = source_of(table, source)
    order, counted = LiveOrder(table.name, table.source_schema, table.format), load or SourceLoad(bounds or Bounds())
    with live_source(address)(address, order) as live:
        return Run(table, live, counted, Shown(table, engine), now).run(at=at)


def _left_out(policies: ColumnPolicies) -> Iterator[str]:
    """Yield what policies leave to be compared of columns."""
    compared = {
        Policy.LEAVE_OUT: "not compared, as their policy leaves them out",
        Policy.HASH: "compared by their hashes",
        Policy.MASK: "compared as null or not, as they are masked",
    }
    for policy, how in compared.items():
        if names := sorted(name for name, one in policies.columns.items() if one.policy is policy):
            yield f"{', '.join(names)}: {how}"


@dataclass
class Run:
    """One run over one table."""

    table: TableContext
    live: LiveTable
    load: SourceLoad
    shown: Shown
    now: datetime
    _record: VerifiedRecord = field(init=False)
    _decider: Decider = field(init=False)
    _suspects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    _findings: list[LostCell] = field(default_factory=list)
    _compared: set[Key] = field(default_factory=set)
    _at: list[str] = field(default_factory=list)
    _lowest: int | None = None
    _looked_up: int = 0
    _notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._record = record_of(self.table)
        self._decider = Decider(self.table, self.live, self.load, self.shown)

    def run(self, *, at: str | None = None) -> Verification:
        """Compare, decide, keep the record."""
        if self.live.lacking:
            self._notes.append(f"the source has no {', '.join(self.live.lacking)}, which are not compared")
        self._notes += _left_out(self.table.config.policies)
        applied = self._applied()
        self._wait_for(at)
        begins_at = "" if not self.load.bounds.sample else self._record.resume
        resume = begins_at
        for rows, then in self._segments(begins_at):
            self._compare(rows)
            resume = then
        is_whole = begins_at == "" and resume == "" and not self.load.is_over
        self._look_up(is_whole=is_whole)
        suspects = dict(list(self._suspects.items())[:MOST_DECIDED])
        if len(suspects) < len(self._suspects):
            self._notes.append(f"{len(self._suspects):,} keys differ; the first {MOST_DECIDED:,} were read again")
        decided = self._decider.decide(suspects)
        self._findings += decided
        settled = len(suspects) - len({tuple(map(repr, found.key.items())) for found in decided})
        self._check_applied(applied)
        done = Verification(
            self.table.name, tuple(self._findings), len(self._compared), self._looked_up, self.load.queries, self.load.rows,
            self.load.seconds, self._at[0] if self._at else "", self.now.isoformat(timespec="seconds"), is_whole, settled,
            "; ".join(self._notes),
        )  # fmt: skip
        keep(self.table, self._record.after(done, resume=resume))
        return done

    def _wait_for(self, at: str | None) -> None:
        if not self._decider.landing.has_begun(until=self._until):
            raise self._late("nothing")
        if at is None:
            return
        high = self.live.position(at)
        if self._decider.landing.has(high, until=self._until) is False:
            raise self._late(f"what the source wrote up to {at}")
        self._lowest = high

    @property
    def _until(self) -> float:
        return self.load.clock() + self.load.bounds.wait

    def _late(self, what: str) -> TransientError:
        has = "has" if what == "nothing" else "has not"
        within = f"landed within {self.load.bounds.wait:g} s"
        return TransientError(f"{self.table.name}: {what} {has} {within}; start the producer, or wait longer with --wait")

    def _segments(self, resume: str) -> Iterator[tuple[dict[Key, SourceRow], str]]:
        """Yield rows of the source from `resume` on, at most the sample, and where the next ones begin (empty: nowhere)."""
        bounds, left = self.load.bounds, self.load.bounds.sample or None
        rows: dict[Key, SourceRow] = {}
        while not self.load.is_over and left != 0:
            reading = self.live.chunk(resume, limit=bounds.chunk if left is None else min(bounds.chunk, left))
            self.load.note(reading.read)
            self._check_position(reading.low, reading.at)
            for row in reading.rows:
                rows[key_of(self.table.schema, row.values)] = row
            left = None if left is None else max(0, left - max(reading.read, 1))
            resume = reading.resume
            if len(rows) >= SEGMENT or not resume or left == 0 or self.load.is_over:
                landing = self._decider.landing
                if landing.has(reading.high, until=self._until) is False and landing.is_beginning():
                    raise self._late("the first snapshot")
                yield rows, resume
                rows = {}
            if not resume:
                return

    def _check_position(self, low: int | None, at: str) -> None:
        if low is not None and self._lowest is not None and low < self._lowest:
            raise UsageError(f"{self.table.name}: the source is at {at}, before --at; name a position that it has reached")
        self._at.append(at)

    def _compare(self, rows: Mapping[Key, SourceRow]) -> None:
        schema = self.table.schema
        self._check_types(rows)
        for raw_only in (False, True) if self._has_state() else (False,):
            seen = set[Key]()
            for shown in self.shown.rows(raw_only=raw_only):
                key = key_of(schema, shown)
                if key in rows and key not in seen:
                    seen.add(key)
                    if unlike(schema, rows[key].values, shown):
                        self._suspect(rows[key].values)
            for key in rows.keys() - seen:
                self._suspect(rows[key].values)
        if ServedRows.exists(self.table):
            keys = {key: key_values(schema, row.values) for key, row in rows.items()}
            for key in ServedRows(self.table, self.shown).differing(keys):
                self._suspect(keys[key])
        self._compared |= rows.keys()

    def _has_state(self) -> bool:
        """Whether raw alone may show something else than the view does, and is whole."""
        table = self.table
        if table.project.is_remote or not is_delta(table.state_location):
            return False
        try:
            check_raw_is_whole(table, what="what raw alone shows")
        except UsageError:
            return False
        return True

    def _check_types(self, rows: Mapping[Key, SourceRow]) -> None:
        """Report a column whose values are none of the schema's type; once a column."""
        told = {found.column for found in self._findings}
        for row in rows.values():
            for column in row.unfit.keys() - told:
                told.add(column)
                key, value = key_values(self.table.schema, row.values), quote(row.unfit[column])
                self._findings.append(
                    LostCell(
                        key,
                        column,
                        value,
                        "",
                        CellVerdict.LOSS,
                        WrongKind.WRONG_TYPE,
                        Lost.TYPE,
                        at=self._at[-1] if self._at else "",
                    )
                )

    def _suspect(self, values: Mapping[str, Any]) -> None:
        self._suspects.setdefault(key_of(self.table.schema, values), key_values(self.table.schema, values))

    def _look_up(self, *, is_whole: bool) -> None:
        """Look for rows of the view in the source that were not among those read: all of them, or a sample, another each run."""
        most, bounds = self.load.bounds.sample, self.load.bounds
        others = list(self._others(None if is_whole or not most else most))
        for start in range(0, len(others), bounds.chunk):
            if self.load.is_over:
                self._notes.append("the time was over before all rows of the view were looked up")
                return
            rows = {key_of(self.table.schema, row): row for row in others[start : start + bounds.chunk]}
            reading = self.live.find([key_values(self.table.schema, row) for row in rows.values()])
            self.load.note(reading.read)
            there = {key_of(self.table.schema, row.values): row for row in reading.rows}
            self._check_types(there)
            for key, row in rows.items():
                if key not in there or unlike(self.table.schema, there[key].values, row):
                    self._suspect(row)
            self._looked_up += len(rows)

    def _others(self, most: int | None) -> Iterator[Mapping[str, Any]]:
        """Return rows of the view that no chunk had: all, or `most` with the smallest digests of key and run."""
        seed = str(self._record.runs).encode()
        rows = ((key_of(self.table.schema, row), row) for row in self.shown.rows())
        others = ((key, row) for key, row in rows if key not in self._compared)
        if most is None:
            return (row for _, row in others)
        ranked = (
            (blake2b(seed + repr(key).encode(), digest_size=8).digest(), number, row) for number, (key, row) in enumerate(others)
        )
        return (row for _, _, row in heapq.nsmallest(most, ranked))

    def _applied(self) -> str:
        if self.table.project.is_remote:
            return ""
        file = applied_file(self.table)
        return file.read_text("utf-8") if file.exists() else ""

    def _check_applied(self, before: str) -> None:
        """Report a view in the engine's catalog that nobody replaces although it shows other rows than the project's.

        It may be as it was applied once, or somebody has replaced or dropped it.
        """
        until = self.load.clock() + _VIEW_SETTLES
        while before and self._applied() == before:
            rows = self._stale_rows()
            if not rows:
                return
            if self.load.clock() >= until:
                text = quote(f"{rows:,} rows differ")
                self._findings.append(LostCell({}, "", "", text, CellVerdict.LOSS, WrongKind.STALE_VIEW, Lost.VIEW))
                return
            self.load.sleep(0.5)

    def _stale_rows(self) -> int | None:
        plugin = self.table.project.engine_plugin
        try:
            with self.table.project.engine() as opened:
                return opened.stale_rows(direct_definition(self.table, plugin) or definition_on(self.table, plugin))
        except EngineError as error:
            self._notes.append(f"the view in the engine's catalog is not compared: {error}")
            return None
