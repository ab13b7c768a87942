"""The form of events: what many have in common, as a type by which msgspec reads each of them.

The events of one source differ in their values only: the names of members stay. A form says which values are read, which
stay the same and which may be anything. An event that is not of the form is left to the format's own decoder, which
defines what every event means.

msgspec is as strict as that decoder but for members that occur twice: it takes the last. So names are counted beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from cdc_views.errors import MalformedEventError
from cdc_views.formats.connect.hints import Hints
from cdc_views.model.schema import Column
from cdc_views.model.types import INTEGER_BITS, Kind, LogicalType, Scalar
from cdc_views.rules.codec.jsonread import parse_json

JsonPath = tuple[str | int, ...]
"""Names of members and indexes of arrays from the outside in."""


class NoFormError(Exception):
    """Events like this one are left to be read one by one."""


class Look(Enum):
    """What the values of a slot are read as."""

    TEXT = str
    INTEGER = int
    BOOLEAN = bool
    TOKEN = Raw
    """Any value, as text, so that numbers keep their digits."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is read; null is one only where it `takes_null`. `allowed`: it is a whole number in this range."""

    look: Look
    takes_null: bool = False
    allowed: range | None = None


class Unread(Enum):
    """What is known of a value that is not read."""

    SAME = "same"
    """Other events have the same."""
    WRITE = "write"
    """It is `"c"` or `"u"`, a row inserted or updated, where both mean the same."""
    INSIDE = "inside"
    """It is an object or array, of whose parts some are read."""


Values = Sequence[Any]
"""Of one slot, in the order of events: str, int or bool, tokens as bytes, and null as None."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value is read: `get` takes it out of an event that a form decoded; `group` is its number in the form."""

    group: int
    get: Callable[[Any], Any]
    value: Value

    def values(self, events: Sequence[Any]) -> Values:
        """Return the values of some events."""
        found = map(self.get, events)
        if self.value.look is not Look.TOKEN:
            return list(found)
        return [None if token == b"null" else token for token in map(bytes, found)]


_SCALAR = str | int | float | bool | None
_ANYTHING = _SCALAR | list[_SCALAR]
"""The type of a value that is not read: no object, and no array with more than scalars."""


@dataclass(frozen=True, slots=True)
class EventForm:
    """Events that differ in some values only.

    Attributes:
        decode: Reads one; raises where it is not of this form.
        names: How many members it has, those inside `same` included.
        same: What takes a value out of an event, and what that value is.
        slots: What is read, by `Slot.group`.
    """

    decode: Callable[[bytes], Any]
    names: int
    same: tuple[tuple[Callable[[Any], Any], Raw], ...]
    slots: tuple[Slot, ...]

    def run(self, contents: Sequence[bytes], start: int, end: int) -> list[Any]:
        """Return the events from `start` to `end` that are of this form, up to one that is not; slots are read from them."""
        decode, same = self.decode, self.same
        found: list[Any] = []
        try:
            for index in range(start, end):
                event = decode(contents[index])
                for get, known in same:
                    if get(event) != known:
                        return found
                found.append(event)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # it is of another form, or no JSON
        return found

    def doubtful(self, contents: Sequence[bytes]) -> list[int]:
        """Return which of the events, all of this form, are to be read one by one: a member may occur twice."""
        if _have_names(b"".join(contents), self.names * len(contents)):
            return []
        return [index for index, content in enumerate(contents) if not (_have_names(content, self.names) or _is_json(content))]


def _have_names(text: bytes, names: int) -> bool:
    """Whether a text, which has at least so many members, has no more; true only where that is certain.

    Each name ends in a quote and a colon where no blank is between them; inside texts these are more.
    """
    codes = pa.Array.from_buffers(pa.uint8(), len(text), [None, pa.py_buffer(text)])
    colons = pc.equal(codes, _code(":"))[1:]
    if pc.and_(pc.less_equal(codes, _code(" "))[:-1], colons).true_count:
        return False
    ends = pc.and_(pc.equal(codes, _code('"'))[:-1], colons)
    if ends.true_count == names:
        return True
    return bool(ends.true_count - pc.and_(pc.equal(codes, _code("\\"))[:-2], ends[1:]).true_count == names)


def _code(letter: str) -> pa.Scalar:
    return pa.scalar(ord(letter), pa.uint8())


def _is_json(content: bytes) -> bool:
    """Whether the parser takes it that refuses what occurs twice."""
    with suppress(MalformedEventError, UnicodeDecodeError):
        parse_json(content.decode())
        return True
    return False


Reads = Callable[[JsonPath, Sequence[Any]], "Value | Unread | None"]
"""What is read at a path where some events have these values; None: nothing."""


def learned(contents: Sequence[bytes], reads: Reads) -> tuple[EventForm, Mapping[JsonPath, Slot]]:
    """Return the form of some events that have the same `shape`, and its slots; raises `NoFormError`.

    What stays the same is as in the last of them.
    """
    learner = _Learner(reads)
    decoder = msgspec.json.Decoder(learner.type_of((), (), [parse_json(content.decode()) for content in contents]))
    event = decoder.decode(contents[-1])
    same = [(get, bytes(get(event))) for get in learner.same]
    if any(b"\\" in known for _, known in same):
        raise NoFormError  # names are not easily counted
    names = learner.names + sum(known.count(b'":') for _, known in same)
    known = tuple((get, Raw(found)) for get, found in same)
    return EventForm(decoder.decode, names, known, tuple(learner.slots.values())), learner.slots


def shape(document: Any) -> Any:
    """Return the names of a parsed event's members: the same for one form."""
    return tuple((name, shape(value)) for name, value in document.items()) if isinstance(document, dict) else None


_Place = tuple[str, ...]
"""Names of attributes, one for each part of a `JsonPath`."""


@dataclass
class _Learner:
    """Makes the type of events, and takes note of what is where."""

    reads: Reads
    slots: dict[JsonPath, Slot] = field(default_factory=dict)
    same: list[Callable[[Any], Any]] = field(default_factory=list)
    names: int = 0

    def type_of(self, path: JsonPath, place: _Place, seen: Sequence[Any]) -> Any:
        """Return the type of the values at a path, given some of them."""
        found = self.reads(path, seen)
        if isinstance(found, Value):
            self.slots[path] = Slot(len(self.slots), attrgetter(".".join(place)), found)
            return found.look.value | None if found.takes_null and found.look is not Look.TOKEN else found.look.value
        if found is Unread.WRITE:
            return Literal["c", "u"]
        if found is Unread.SAME:
            return self._same(seen[-1], place)
        if isinstance(seen[-1], dict) or found is Unread.INSIDE:
            return self._inside(path, place, seen)
        return _ANYTHING

    def _same(self, value: Any, place: _Place) -> Any:
        if value is None or isinstance(value, str) or type(value) is int:
            return Literal[value]
        self.same.append(attrgetter(".".join(place)))
        return Raw

    def _inside(self, path: JsonPath, place: _Place, seen: Sequence[Any]) -> Any:
        is_object, fields = isinstance(seen[-1], dict), []
        for index, name in enumerate(seen[-1] if is_object else range(len(seen[-1]))):
            attribute = f"_{index}"
            inner = self.type_of((*path, name), (*place, attribute), [each[name] for each in seen])
            fields.append((attribute, inner, msgspec.field(name=str(name))))
        self.names += len(fields) * is_object
        return msgspec.defstruct("Inside", fields, array_like=not is_object, forbid_unknown_fields=True, gc=False)


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
    """The write time (rule S2) of each event; `add` is added to its ordinal.

    `file`: of a binlog, whose number comes before the position.
    """

    position: Slot
    ordinal: Slot | int
    epoch: Slot | int = 0
    file: Slot | None = None
    add: int = 0


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


@dataclass(frozen=True, slots=True)
class RowForm:
    """Events of one form, each about one row: `RawFormat.decode`, said once for all events that differ in some values only.

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


_LOOKS: dict[Kind, tuple[Look, ...]] = {
    **dict.fromkeys((Kind.ASCII, Kind.TEXT, Kind.JSON, Kind.UUID), (Look.TEXT,)),
    **dict.fromkeys(INTEGER_BITS, (Look.INTEGER,)),
    **dict.fromkeys((Kind.DATE, Kind.DATETIME, Kind.INSTANT), (Look.TEXT, Look.INTEGER)),
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
