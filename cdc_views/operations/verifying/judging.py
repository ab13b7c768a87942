"""One look at one key: is raw right, is the state right, is the serving table right, compared with what the source answered.

Raw is compared at the source's own position: the rules make the row of the events before it, so a later write cannot look like
a loss, nor hide one. State and serving table are compared with raw, between two reads of raw that found equally many facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_views.landing.live_sources import SourceReading, SourceRow
from cdc_views.model.schema import TableSchema
from cdc_views.operations.explaining import CellPlace
from cdc_views.operations.verifying.findings import Lost, WrongKind, text_of_origins
from cdc_views.operations.verifying.raw_facts import KeyHistory
from cdc_views.operations.verifying.rows import is_same, unlike
from cdc_views.rules.oracle import Row

_CLOCKS = (0, -1, 1)
"""Seconds by which the source's clock and ours may differ where a cell expires."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look at a key saw; `place` None: everything agrees.

    `columns` differ (`""`: only one side has the row), `source` and `shown` are the two rows, `facts` how many facts raw
    has of the key, `texts` the serving table's values in columns that differ. `is_unsure`: raw is right, and was written while
    the view was read.
    """

    place: Lost | None
    kind: WrongKind = WrongKind.WRITTEN_MEANWHILE
    columns: tuple[str, ...] = ()
    source: SourceRow | None = None
    shown: Mapping[str, Any] | None = None
    facts: int = 0
    texts: Mapping[str, str] | None = None
    is_unsure: bool = False

    @property
    def sign(self) -> tuple[object, ...]:
        """Equal in two looks only if they saw the same."""
        version = None if self.source is None else (self.source.version, repr(sorted(self.source.values.items())))
        return self.place, self.columns, version, repr(self.shown), repr(self.texts)


def values_of(row: SourceRow | None) -> Mapping[str, Any] | None:
    """Return a row's values; None if there is no row."""
    return None if row is None else row.values


@dataclass(frozen=True, slots=True)
class RawJudge:
    """Compares raw with a reading of the source; `is_positioned`: everything before the reading's position has landed."""

    schema: TableSchema
    reading: SourceReading
    is_positioned: bool

    def sight(self, source: SourceRow | None, history: KeyHistory) -> Sight:
        """Return whether raw has the row of the source."""
        wanted, shown = values_of(source), None
        for shown in self._rows(history):
            if is_same(self.schema, wanted, shown):
                return Sight(None, source=source, shown=shown, facts=history.count)
        columns = ("",) if wanted is None or shown is None else tuple(unlike(self.schema, wanted, shown))
        return Sight(Lost.RAW, _kind(source, shown, history, columns), columns, source, shown, history.count)

    def _rows(self, history: KeyHistory) -> Iterator[Row | None]:
        """Yield each row that raw may have had when the source was read; the last one at its highest position."""
        clock, low, high = self.reading.clock, self.reading.low, self.reading.high
        if not self.is_positioned or low is None or high is None:
            for shift in reversed(_CLOCKS):
                yield history.row(as_of=clock + shift)
            return
        for before in history.positions(low, high):
            yield history.row(as_of=clock, before=before)


def _kind(source: SourceRow | None, shown: Mapping[str, Any] | None, history: KeyHistory, columns: Sequence[str]) -> WrongKind:
    if source is None:
        return WrongKind.LOST_DELETION
    if shown is None:
        if not history.has_writes:
            return WrongKind.MISSING_ROW
        written = max(source.written.values(), default=None)
        is_false = written is not None and history.deleted is not None and history.deleted >= written
        return WrongKind.FALSE_DELETION if is_false else WrongKind.MISSING_WRITE
    gone = [name for name in columns if source.values[name] is None and not source.is_whole]
    return WrongKind.LOST_DELETION if len(gone) == len(columns) else WrongKind.MISSING_WRITE


def reasons(places: Sequence[CellPlace]) -> tuple[str, str, int]:
    """Return the rule that chose a cell's value, the nodes that it landed from, and the number of its candidates."""
    candidates = [candidate for place in places for candidate in place.candidates]
    if not candidates:
        return "", "", 0
    loser = next((one.rule for one in candidates[1:] if one.rule), "")
    return candidates[0].rule or loser, text_of_origins(candidates[0].origins), len(candidates)
