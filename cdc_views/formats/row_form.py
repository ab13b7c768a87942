"""Events of one form that each write or delete one row: which values of theirs are what of the row.

What a format says about one event (`RawFormat.decode`), said once for all events that differ in these values only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.forms import EventForm, Look, Slot
from cdc_views.model.schema import Column
from cdc_views.model.types import INTEGER_BITS, Kind, LogicalType, Scalar


@dataclass(frozen=True, slots=True)
class ColumnSlot:
    """Where a column's values are, and what is known of their encoding."""

    column: Column
    slot: Slot
    hints: Hints

    @property
    def kind(self) -> Kind | None:
        """The column's type; None for one that is no scalar."""
        return self.column.type.kind if isinstance(self.column.type, Scalar) else None


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The write time (rule S2) of each event: `max(ordinal + add, least)`, where an ordinal is read.

    `file`: of a binlog, whose number comes before the position.
    """

    position: Slot
    ordinal: Slot | int
    epoch: Slot | int = 0
    file: Slot | None = None
    add: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class OriginForm:
    """Where each event was read.

    `segment`, or of a slot of partitions `topic/partition`; `position` None: the write time's, or the event's line
    where it `counts_lines`.
    """

    node: str = ""
    segment: str | Slot = ""
    topic: str = ""
    position: Slot | None = None
    counts_lines: bool = False

    @property
    def is_arrival(self) -> bool:
        """Whether the segment is a topic's."""
        return self.position is not None or self.counts_lines


@dataclass(frozen=True, slots=True)
class RowForm:
    """Events of one form, each about one row.

    Attributes:
        form: What they have in common.
        keys: The row's key columns, in key order.
        cells: Its other columns that events of this form have; a null is a tombstone.
        is_deletion: Whether the row is deleted, not written.
        written: Its write time.
        clock: The server's clock, by which deletions are dated; None: not known, 0.
        second: How many of what it counts are a second.
        origin: Where it was read.
        equal: Pairs of slots whose values are the same in each event that is read by this form.
    """

    form: EventForm
    keys: tuple[ColumnSlot, ...]
    cells: tuple[ColumnSlot, ...]
    is_deletion: bool
    written: LogPosition
    clock: Slot | None
    origin: OriginForm
    second: int = 1000
    equal: tuple[tuple[Slot, Slot], ...] = ()


_WHOLE = (Look.INTEGER,)
_STAMPS = (Look.TEXT, Look.INTEGER)
_LOOKS: dict[Kind, tuple[Look, ...]] = {
    **dict.fromkeys((Kind.ASCII, Kind.TEXT, Kind.JSON, Kind.UUID), (Look.TEXT,)),
    **dict.fromkeys(INTEGER_BITS, _WHOLE),
    **dict.fromkeys((Kind.DATE, Kind.DATETIME, Kind.INSTANT), _STAMPS),
    Kind.BOOLEAN: (Look.BOOLEAN,),
    Kind.DECIMAL: (Look.TOKEN, Look.TEXT),
}
"""What values of a kind mostly look like, the likeliest first; anything else is a token."""


def look_of(kind: LogicalType, seen: Sequence[Any]) -> Look:
    """Return what values of a type are read as, given some of them."""
    given = {type(value) for value in seen} - {type(None)}
    likely = _LOOKS.get(kind.kind, ()) if isinstance(kind, Scalar) else ()
    if not given:
        return next(iter(likely), Look.TOKEN)
    return next((look for look in likely if given == {look.value}), Look.TOKEN)
