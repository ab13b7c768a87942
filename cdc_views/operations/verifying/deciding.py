"""Tells loss from lag: keys that differ are read again from source, raw, view and serving table until each has a verdict.

A verdict of loss never rests on one read. Where the source has positions, raw lacks something that the source had at a position
which has landed, several times in a row. Where it has none (Cassandra), the source's row stays as it is, the view stays another,
and meanwhile every node's log has landed past the moment of the first read. Everything else is lag.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_views.errors import UsageError
from cdc_views.formats.base import WriteOrder
from cdc_views.landing.blocks import Position
from cdc_views.landing.live_sources import LiveTable, SourceReading, SourceRow
from cdc_views.landing.quarantine import waiting
from cdc_views.landing.raw_table import raw_log
from cdc_views.landing.streams import positions_in
from cdc_views.operations.context import TableContext
from cdc_views.operations.explained import json_object
from cdc_views.operations.explaining import CellPlace
from cdc_views.operations.ingest import forgotten_of
from cdc_views.operations.verifying.findings import CellVerdict, Lost, LostCell, WrongKind
from cdc_views.operations.verifying.judging import RawJudge, Sight, reasons, values_of
from cdc_views.operations.verifying.load import SourceLoad
from cdc_views.operations.verifying.raw_facts import KeyHistory, RawFacts, landed_since, newest
from cdc_views.operations.verifying.rows import Key, Keys, ServedRows, Shown, is_same, key_of, unlike
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.storage.table_log import TableLog

_LOOKS = 3
"""Looks in a row that must see the same loss."""
_PAUSES = (0.3, 1.0, 2.0)
_MOST_UNSURE = 6
"""Looks at a row that is always written; then the next run looks at its state."""
_POLL = 0.2
_SKEW = 1
"""Seconds by which clocks of clients and nodes may differ."""


@dataclass
class LandedSoFar:
    """How far a table's raw has landed; `has` waits for a source's position."""

    table: TableContext
    live: LiveTable
    load: SourceLoad
    _log: TableLog | None = None

    def _positions(self) -> Mapping[str, Position]:
        """Return the position of each stream of raw now; waiting asks often, so the log is followed and not opened again."""
        if not self.table.project.is_remote:
            followed = None if self._log is None else self._log.followed()
            self._log = followed or raw_log(self.table.raw, format_name=self.table.format.name)
        return {} if self._log is None else positions_in(self._log)

    def through(self) -> int | None:
        """Return the write time before which everything has landed; None: no stream of raw tells."""
        return self.live.landed(self._positions())

    def has(self, high: int | None, *, until: float) -> bool | None:
        """Wait until everything before `high` has landed, at most to `until` of the load's clock; None: nothing tells."""
        while True:
            through = self.through()
            if high is None or (through is None and not self.is_beginning()):
                return None
            if through is not None and through >= high:
                return True
            if self.load.clock() >= until:
                return False
            self.load.sleep(_POLL)

    def is_beginning(self) -> bool:
        """Whether nothing has landed but parts of a relational source's first snapshot."""
        positions = self._positions()
        return bool(positions) and all(name.endswith(":snapshot") or position.at == 0 for name, position in positions.items())

    def is_empty(self) -> bool:
        """Whether nothing has landed at all; False for a table elsewhere, which is not looked at."""
        positions = self._positions()
        return not (self.table.project.is_remote or positions or (self._log is not None and self._log.added))

    def has_begun(self, *, until: float) -> bool:
        """Wait until something has landed, at most to `until` of the load's clock."""
        while self.is_empty():
            if self.load.clock() >= until:
                return False
            self.load.sleep(_POLL)
        return True

    def nodes(self) -> int:
        """Return from how many nodes or partitions events land, by the streams; at least one."""
        return max(1, sum(not name.startswith("snapshot") for name in self._positions()))

    def has_passed(self, clock: int) -> bool:
        """Whether each node has landed something that was written after a second, in this table or another of its format.

        A client may choose its write times: one that is not between that second and its landing says nothing.
        """
        passed = set[str]()
        for table in self.table.project.tables:
            if table.config.raw.format == self.table.config.raw.format and not table.project.is_remote:
                passed |= _nodes_past(table, clock + _SKEW)
        return len(passed) >= self.nodes()


def _nodes_past(table: TableContext, clock: int) -> set[str]:
    if raw_log(table.raw, format_name=table.format.name) is None:
        return set()
    # log positions are no times: whatever landed later counts
    is_timed = table.format.order is WriteOrder.MICROS
    timely = (fact for fact, at in landed_since(table, clock) if not is_timed or clock * 1_000_000 < newest(fact) <= at)
    return {fact.origin.node or fact.origin.segment for fact in timely}


@dataclass
class Decider:
    """Decides about differing keys of one table."""

    table: TableContext
    live: LiveTable
    load: SourceLoad
    shown: Shown
    landing: LandedSoFar = field(init=False)
    raw: RawFacts = field(init=False)
    _since: dict[Key, tuple[Sight, int, float, int]] = field(default_factory=dict)
    """The first of equal looks at a key, how many there were, when the first was, and the source's clock then."""
    _unsure: dict[Key, int] = field(default_factory=dict)
    _passed: set[int] = field(default_factory=set)
    """Clocks of first looks past which each node's log had landed before this look."""

    def __post_init__(self) -> None:
        self.landing = LandedSoFar(self.table, self.live, self.load)
        self.raw = RawFacts(self.table)

    def decide(self, suspects: Keys) -> list[LostCell]:
        """Return a finding for each differing cell of keys that stay different, or that are late."""
        schema, forgotten = self.table.schema, forgotten_of(self.table)
        undecided = {
            key: values for key, values in suspects.items()
            if forgotten is None or forgotten.over(schema, _row_fact(self.table, values)) is None
        }  # fmt: skip
        found: list[LostCell] = []
        until = self.load.clock() + max(self.load.bounds.wait, _POLL)
        look = 0
        while undecided:
            for key, findings in self._look(undecided, until=until):
                found += findings
                del undecided[key]
            if undecided:
                self.load.sleep(_PAUSES[min(look, len(_PAUSES) - 1)])
            look += 1
        return found

    def _look(self, keys: Keys, *, until: float) -> list[tuple[Key, list[LostCell]]]:
        """Look at keys once; return those that are decided, with their findings."""
        # asked before raw and view are read: what passed the source's first read must be in them
        clocks = {since[3] for key in keys if (since := self._since.get(key)) is not None and since[1] >= _LOOKS - 1}
        self._passed = {clock for clock in clocks if self.landing.has_passed(clock)}
        before = self._about(keys)
        reading = self._read(keys)
        is_landed = self.landing.has(reading.high, until=until)
        sources = {key_of(self.table.schema, row.values): row for row in reading.rows}
        sights = self._sights(keys, reading, sources, is_landed=is_landed)
        for key, history in before.items():
            # what had landed before the source was read cannot be beyond the end of the source's log
            is_beyond = reading.high is not None and history.newest is not None and history.newest >= reading.high
            if sights[key].place is None and is_beyond:
                sights[key] = self._foreign(sources.get(key), history, reading)
        is_last = self.load.clock() >= until
        decided = []
        for key, seen in sights.items():
            outcome = self._outcome(key, seen, reading, is_landed=is_landed, is_last=is_last)
            if outcome is not None:
                said = [] if seen.place is None else self._findings(keys[key], seen, outcome, reading, is_landed=is_landed)
                decided.append((key, list(said)))
        return decided

    def _read(self, keys: Keys) -> SourceReading:
        found = self.live.find(list(keys.values()))
        self.load.note(found.read)
        return found

    def _sights(
        self, keys: Keys, reading: SourceReading, sources: Mapping[Key, SourceRow], *, is_landed: bool | None
    ) -> dict[Key, Sight]:
        known = self._about(keys, since=reading.low)
        rows = self.shown.of(keys)
        again = self._counts(keys)
        judge = RawJudge(self.table.schema, reading, is_positioned=is_landed is True)
        serving = ServedRows(self.table, self.shown) if ServedRows.exists(self.table) else None
        served = {} if serving is None else serving.differing(keys)
        found = {}
        for key, values in keys.items():
            history, source, row = known.get(key), sources.get(key), rows.get(key)
            if history is None:
                found[key] = self._without_raw(source, row)
                continue
            seen = judge.sight(source, history)
            if seen.place is None and history.count != again.get(key):
                seen = replace(seen, is_unsure=True)
            elif seen.place is None:
                seen = self._of_state(source, row, history, clock=reading.clock)
                if seen.place is None and serving is not None and key in served:
                    seen = self._of_serving(values, seen, served[key], version=serving.raw_version)
            found[key] = seen
        return found

    def _foreign(self, source: SourceRow | None, history: KeyHistory, reading: SourceReading) -> Sight:
        row, wanted = history.row(as_of=reading.clock), values_of(source)
        if is_same(self.table.schema, wanted, row):
            return Sight(None, source=source)
        columns = ("",) if wanted is None or row is None else tuple(unlike(self.table.schema, wanted, row))
        return Sight(Lost.RAW, WrongKind.FOREIGN_WRITE, columns, source, row, history.count)

    def _about(self, keys: Keys, *, since: int | None = None) -> dict[Key, KeyHistory]:
        """Return what raw has of keys; nothing if raw is not whole, so that the rows of the view alone tell."""
        try:
            return self.raw.about(keys, since=since)
        except UsageError:
            return {}

    def _counts(self, keys: Keys) -> dict[Key, int]:
        """Return how many facts raw has of keys; nothing if raw is not whole."""
        try:
            return self.raw.counts(keys)
        except UsageError:
            return {}

    def _without_raw(self, source: SourceRow | None, row: Mapping[str, Any] | None) -> Sight:
        wanted = values_of(source)
        if is_same(self.table.schema, wanted, row):
            return Sight(None, source=source)
        columns = ("",) if wanted is None or row is None else tuple(unlike(self.table.schema, wanted, row))
        return Sight(Lost.STATE, WrongKind.STALE_STATE, columns, source, row)

    def _of_state(self, source: SourceRow | None, row: Mapping[str, Any] | None, history: KeyHistory, *, clock: int) -> Sight:
        """Return whether the view shows what raw does now; both are compared in all columns."""
        schema = self.table.schema
        for shift in (-1, 1, 0):
            expected = history.row(as_of=clock + shift)
            if is_same(schema, expected, row):
                return Sight(None, source=source, shown=row, facts=history.count)
        columns = ("",) if expected is None or row is None else tuple(unlike(schema, expected, row))
        return Sight(Lost.STATE, WrongKind.STALE_STATE, columns, source, row, history.count)

    def _of_serving(self, key: Mapping[str, Any], seen: Sight, texts: Mapping[str, str], *, version: int | None) -> Sight:
        """Return whether the serving table is wrong: it differs, and nothing about the key landed since it was written."""
        if self.raw.count_at(key, version) != seen.facts:
            return seen
        return Sight(Lost.SERVING, WrongKind.STALE_SERVING, tuple(texts), seen.source, seen.shown, seen.facts, texts)

    def _outcome(
        self, key: Key, seen: Sight, reading: SourceReading, *, is_landed: bool | None, is_last: bool
    ) -> CellVerdict | None:
        """Return the outcome for a key; None: look again."""
        if seen.place is None:
            self._unsure[key] = self._unsure.get(key, 0) + 1
            return None if seen.is_unsure and not is_last and self._unsure[key] < _MOST_UNSURE else CellVerdict.LAG
        first, looks, since, clock = self._since.get(key, (seen, 0, self.load.clock(), reading.clock))
        # at the source's own position, or compared with raw, a row may change between two looks, and be wrong in both
        is_proof = is_landed if seen.place is Lost.RAW else bool(seen.facts)
        is_same_loss = first.place is seen.place if is_proof else first.sign == seen.sign
        if not is_same_loss:
            first, looks, since, clock = seen, 0, self.load.clock(), reading.clock
        self._since[key] = first, looks + 1, since, clock
        if looks + 1 >= _LOOKS and self._is_proven(seen, is_landed=is_landed, clock=clock):
            return CellVerdict.LOSS
        return CellVerdict.LAG if is_last and looks + 1 >= _LOOKS else None

    def _is_proven(self, seen: Sight, *, is_landed: bool | None, clock: int) -> bool:
        if seen.place in (Lost.SERVING, Lost.STATE) and seen.facts:
            return True  # both were compared with raw, not with the source
        if is_landed is not None:
            return is_landed
        return clock in self._passed

    def _places(self, key: Mapping[str, Any], seen: Sight, *, now: int) -> tuple[CellPlace, ...]:
        """Return what competed for the differing columns; without facts nothing did. A key column has no cells."""
        names = [name for name in seen.columns if name and not self.table.schema.column(name).is_key]
        return self.raw.places(key, names, now=now) if seen.facts else ()

    def _findings(
        self, key: Mapping[str, Any], seen: Sight, outcome: CellVerdict, reading: SourceReading, *, is_landed: bool | None
    ) -> Iterator[LostCell]:
        schema, wanted = self.table.schema, values_of(seen.source)
        count = 0 if self.table.project.is_remote else waiting(self.table.raw)[0]
        late = WrongKind.WRITTEN_MEANWHILE if is_landed else WrongKind.NOT_LANDED
        kind = seen.kind if outcome is CellVerdict.LOSS else late
        places = self._places(key, seen, now=reading.clock)
        for column in seen.columns:
            rule, replica, candidates = reasons([p for p in places if not column or (p.column and p.column.name == column)])
            shown = _text(self.table, seen.shown, column) if seen.texts is None else json.dumps(seen.texts[column])
            of_key = {c.name: key[c.name] for c in schema.row_key}
            value = _text(self.table, wanted, column)
            yield LostCell(of_key, column, value, shown, outcome, kind, seen.place, rule, replica, candidates, reading.at, count)


def _text(table: TableContext, row: Mapping[str, Any] | None, column: str) -> str:
    if row is None:
        return ""
    kinds = {c.name: c.type for c in table.schema.columns}
    if column:
        return to_json(kinds[column], row[column])
    return json_object((name, to_json(kinds[name], value)) for name, value in row.items())


def _row_fact(table: TableContext, values: Mapping[str, Any]) -> Fact:
    partition = tuple(values[column.name] for column in table.schema.partition)
    return Fact(FactKind.ROW, partition, clustering=tuple(values[column.name] for column in table.schema.clustering))
