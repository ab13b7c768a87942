"""Events of one form that each write or delete one row: which tokens of theirs are what of the row.

What a format says about one event (`RawFormat.decode`), said once for all events that differ in these tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_views.formats.connect.hints import Decimals, Hints
from cdc_views.formats.forms import EventForm, Look, Slot
from cdc_views.model.schema import Column
from cdc_views.model.types import INTEGER_BITS, Kind, LogicalType, Scalar


@dataclass(frozen=True, slots=True)
class ColumnSlot:
    """Where a column's tokens are, and what is known of their encoding."""

    column: Column
    slot: Slot
    hints: Hints

    @property
    def kind(self) -> Kind | None:
        """The column's type; None for one that is no scalar."""
        return self.column.type.kind if isinstance(self.column.type, Scalar) else None


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The write time (rule S2) of each event: `max(ordinal + add, least)`, where an ordinal has tokens.

    `file`: of a binlog, whose number comes before the position.
    """

    position: Slot
    ordinal: Slot | int
    epoch: int = 0
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
        form: Their text.
        keys: The row's key columns, in key order.
        cells: Its other columns that events of this form have; a null is a tombstone.
        is_deletion: Whether the row is deleted, not written.
        written: Its write time.
        clock: The server's clock, by which deletions are dated; None: not known, 0.
        second: How many of what it counts are a second.
        origin: Where it was read.
        equal: Pairs of slots whose tokens are the same in each event that is read by this form.
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


_MOST_PLACES = 6
"""Digits after the point up to which a decimal's text has no exponent."""
_STAMPS = (Look.INSTANT, Look.INTEGER)
_LOOKS: dict[Kind, tuple[Look, ...]] = {
    Kind.ASCII: (Look.STRING,),
    Kind.TEXT: (Look.STRING,),
    Kind.JSON: (Look.STRING,),
    **dict.fromkeys((kind for kind in INTEGER_BITS), (Look.INTEGER,)),
    Kind.FLOAT: (Look.NUMBER,),
    Kind.DOUBLE: (Look.NUMBER,),
    Kind.BOOLEAN: (Look.BOOLEAN,),
    Kind.DATE: (Look.DAY, Look.INTEGER),
    Kind.DATETIME: _STAMPS,
    Kind.INSTANT: _STAMPS,
    Kind.UUID: (Look.UUID,),
}
"""What values of a kind mostly look like, the likeliest first; all else is read one by one."""


def look_of(kind: LogicalType, hints: Hints, seen: Sequence[str]) -> Look | None:
    """Return what values of a type look like, given some of them (`null` where there are none); None: like nothing known."""
    given = [token for token in seen if token != "null"]
    likely = (*_looks(kind, hints), *((Look.ANY,) if isinstance(kind, Scalar) else ()), Look.FLAT)
    return next((look for look in likely if all(look.pattern().fullmatch(token) for token in given)), None)


def _looks(kind: LogicalType, hints: Hints) -> tuple[Look, ...]:
    if not isinstance(kind, Scalar):
        return ()
    if kind.kind in (Kind.TEXT, Kind.ASCII) and hints.semantic in ("Decimal", "VariableScaleDecimal"):
        return ()
    if kind.kind is Kind.DECIMAL:
        return _decimal_looks(kind, hints)
    return _LOOKS.get(kind.kind, ())


def _decimal_looks(kind: Scalar, hints: Hints) -> tuple[Look, ...]:
    scale = hints.scale_of(kind)
    if scale is None or not 0 <= scale <= _MOST_PLACES:
        return ()
    is_precise = hints.decimals is Decimals.PRECISE if hints.declared is None else hints.declared.type == "bytes"
    return (Look.BASE64, Look.DECIMAL) if is_precise else (Look.DECIMAL,)
