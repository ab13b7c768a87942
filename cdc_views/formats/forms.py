"""The form of events: what many events have in common, as a type with which msgspec reads each of them.

The events of one source differ in values only; member names stay the same. A form states which values are read, which stay
the same and which may be anything. The format's own decoder, which defines the meaning of every event, reads all other events.

msgspec is as strict as that decoder, except for members that occur twice: it takes the last. So names are counted separately.
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

JsonPath = tuple[str | int, ...]  # member names and array indexes, from the outside in


class NoFormError(Exception):
    """Events like this one have no form and must be read one by one."""


class Look(Enum):
    """The type as which the values of a slot are read."""

    TEXT = str
    INTEGER = int
    BOOLEAN = bool
    TOKEN = Raw  # any value, kept as text so that numbers keep their digits


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is read; it may be null only if `takes_null`. `allowed`: it must be a whole number in this range."""

    look: Look
    takes_null: bool = False
    allowed: range | None = None


class Unread(Enum):
    """What a form states about a value that is not read."""

    SAME = "same"  # it is the same in all events
    WRITE = "write"  # it is `"c"` or `"u"`: a row was inserted or updated, and both mean the same
    INSIDE = "inside"  # it is an object or array, and some of its parts are read


Values = Sequence[Any]  # of one slot, in the order of events: str, int, bool, tokens as bytes, None for null


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where a value is read: `get` takes the value from a decoded event; `group` is the slot's number in the form."""

    group: int
    get: Callable[[Any], Any]
    value: Value

    def values(self, events: Sequence[Any]) -> Values:
        """Return the slot's values in some decoded events."""
        found = map(self.get, events)
        if self.value.look is not Look.TOKEN:
            return list(found)
        return [None if token == b"null" else token for token in map(bytes, found)]


_SCALAR = str | int | float | bool | None
_ANYTHING = _SCALAR | list[_SCALAR]  # a value that is not read: no object, no array of more than scalars


@dataclass(frozen=True, slots=True)
class EventForm:
    """What events have in common that differ only in some values.

    Attributes:
        decode: Reads one event; raises if it is not of this form.
        names: Number of members of one event, including members inside `same`.
        same: Getters of values that are the same in all events, each with its value.
        slots: The slots that are read, by `Slot.group`.
    """

    decode: Callable[[bytes], Any]
    names: int
    same: tuple[tuple[Callable[[Any], Any], Raw], ...]
    slots: tuple[Slot, ...]

    def run(self, contents: Sequence[bytes], start: int, end: int) -> list[Any]:
        """Return the decoded events from `start` to `end`, up to the first that is not of this form."""
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
            pass  # another form, or not JSON
        return found

    def doubtful(self, contents: Sequence[bytes]) -> list[int]:
        """Return the indexes of events of this form that must be read one by one: a member may occur twice."""
        if _have_names(b"".join(contents), self.names * len(contents)):
            return []
        return [index for index, content in enumerate(contents) if not (_have_names(content, self.names) or _is_json(content))]


def _have_names(text: bytes, names: int) -> bool:
    """Whether a text that has at least `names` members has no more; True only if that is certain.

    Each name ends in a quote and a colon, unless a blank separates them; texts may hold more such pairs.
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
    """Whether the strict parser, which refuses duplicate members, accepts the event."""
    with suppress(MalformedEventError, UnicodeDecodeError):
        parse_json(content.decode())
        return True
    return False


Reads = Callable[[JsonPath, Sequence[Any]], "Value | Unread | None"]
"""Returns how to read the values at a path, given those of some events; None: the value is not read."""


def learned(contents: Sequence[bytes], reads: Reads) -> tuple[EventForm, Mapping[JsonPath, Slot]]:
    """Return the form of events of the same `shape`, with the constants of the last, and its slots; raises `NoFormError`."""
    learner = _Learner(reads)
    decoder = msgspec.json.Decoder(learner.type_of((), (), [parse_json(content.decode()) for content in contents]))
    event = decoder.decode(contents[-1])
    same = [(get, bytes(get(event))) for get in learner.same]
    if any(b"\\" in known for _, known in same):
        raise NoFormError  # escapes make it hard to count names
    names = learner.names + sum(known.count(b'":') for _, known in same)
    known = tuple((get, Raw(found)) for get, found in same)
    return EventForm(decoder.decode, names, known, tuple(learner.slots.values())), learner.slots


def shape(document: Any) -> Any:
    """Return the nested member names of a parsed event; events of one form have equal shapes."""
    return tuple((name, shape(value)) for name, value in document.items()) if isinstance(document, dict) else None


_Place = tuple[str, ...]  # attribute names, one for each part of a `JsonPath`


@dataclass
class _Learner:
    reads: Reads
    slots: dict[JsonPath, Slot] = field(default_factory=dict)
    same: list[Callable[[Any], Any]] = field(default_factory=list)
    names: int = 0

    def type_of(self, path: JsonPath, place: _Place, seen: Sequence[Any]) -> Any:
        """Return the type of the values `seen` at a path."""
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
    """The slot of a column's values, and hints on their encoding."""

    column: Column
    slot: Slot
    hints: Hints

    @property
    def kind(self) -> Kind | None:
        """The column's type; None if it is not a scalar."""
        return self.column.type.kind if isinstance(self.column.type, Scalar) else None


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The write time (rule S2) of each event; a binlog `file`'s number precedes the position, and `add` is added to `ordinal`."""

    position: Slot
    ordinal: Slot | int
    epoch: Slot | int = 0
    file: Slot | None = None
    add: int = 0


@dataclass(frozen=True, slots=True)
class OriginForm:
    """The origin of each event. `segment` is a text, or `topic` and a slot of partitions, as `topic/partition`.

    `position` None: the event's line if `counts_lines`, else the position of the write time.
    """

    node: str = ""
    segment: str | Slot = ""
    topic: str = ""
    position: Slot | None = None
    counts_lines: bool = False


@dataclass(frozen=True, slots=True)
class RowForm:
    """Events of one form, each about one row: `RawFormat.decode`, stated once for all events of the form.

    Attributes:
        keys: The row's key columns, in key order.
        cells: The other columns that events of this form have; a null is a tombstone.
        is_deletion: Whether the row is deleted, not written.
        clock: The server's clock, which dates deletions; None: unknown, 0.
        second: Units of `clock` per second.
        equal: Pairs of slots whose values must be equal in each event that is read by this form.
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


_LOOKS: dict[Kind, tuple[Look, ...]] = {  # the usual types of a kind's values, the likeliest first; others are tokens
    **dict.fromkeys((Kind.ASCII, Kind.TEXT, Kind.JSON, Kind.UUID), (Look.TEXT,)),
    **dict.fromkeys(INTEGER_BITS, (Look.INTEGER,)),
    **dict.fromkeys((Kind.DATE, Kind.DATETIME, Kind.INSTANT), (Look.TEXT, Look.INTEGER)),
    Kind.BOOLEAN: (Look.BOOLEAN,),
    Kind.DECIMAL: (Look.TOKEN, Look.TEXT),
}


def look_of(kind: LogicalType, seen: Sequence[Any]) -> Look:
    """Return the type as which to read values of a column type, given some of them."""
    given = {type(value) for value in seen} - {type(None)}
    likely = _LOOKS.get(kind.kind, ()) if isinstance(kind, Scalar) else ()
    if not given:
        return next(iter(likely), Look.TOKEN)
    return next((look for look in likely if given == {look.value}), Look.TOKEN)
