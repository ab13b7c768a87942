"""The form of events: their text but for the values, so that many of one form are read by one regular expression.

The events of one source differ in their values only: names, their order and the blanks between them stay. A form holds
the text between the values, and for each value what it may look like. Text that is not of the form does not match: it is
left to the format's own decoder, which defines what every event means.

A token is a value as it stands in the text, so numbers keep their digits; of a text in quotes, what is between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

_CHARACTERS = r'[^"\\\x00-\x1f]*'
_STRING = rf'{_CHARACTERS}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_CHARACTERS})*'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?"
_ANY = rf'"{_STRING}"|{_NUMBER}|true|false'
_INSIDE = rf'[^"\[\]{{}}]*(?:"{_STRING}"[^"\[\]{{}}]*)*'
_DAY = r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"


class Look(Enum):
    """What the tokens of a slot look like: a regular expression with one group, the token."""

    STRING = f'"({_STRING})"'
    INTEGER = "(-?(?:0|[1-9][0-9]{0,18}))"
    NUMBER = f"({_NUMBER})"
    DECIMAL = r"(-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,6})?)"
    BASE64 = '"([A-Za-z0-9+/]+={0,2})"'
    BOOLEAN = "(true|false)"
    DAY = f'"({_DAY})Z?"'
    INSTANT = f'"({_DAY}[ T]{_CLOCK})(?:Z|[+]00|[+]00:00)?"'
    UUID = '"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"'
    ANY = f"({_ANY})"
    FLAT = rf"({_ANY}|\[{_INSIDE}\]|\{{{_INSIDE}\}})"
    """Any value, of which an object or an array has none inside; what matches it need not be JSON."""
    COUNT = "(0|[1-9][0-9]{0,17})"
    """Below 10^18."""
    POSITION = "(0|[1-9][0-9]{0,18})"
    """Below 10^19, so below 2^64."""
    ORDINAL = "(0|[1-9][0-9]{0,8})"
    """Below 10^9, so below 2^32."""
    MILLIS = "([1-9][0-9]{3,11}|[1-3][0-9]{12})"
    """Milliseconds of a clock, from a second to below 4 · 10^12, so before the year 2096."""
    MICROS = "([1-9][0-9]{6,14}|[1-3][0-9]{15})"
    """Microseconds of a clock, as far."""
    BINLOG_POSITION = "(0|[1-9][0-9]{0,11})"
    """Below 10^12, so below 2^40."""
    BINLOG_FILE = rf'"((?:{_CHARACTERS}\.)?[0-9]{{1,7}})"'
    """A name that ends in a number below 10^7, so below 2^24."""

    def pattern(self) -> re.Pattern[str]:
        """Return the expression that such a value matches; null does not."""
        return re.compile(self.value)


_SKIPPED = f"(?:{_ANY}|null)"
"""Any value but an object or an array, of which nothing is read."""
_WRITE = '"[cu]"'


class Unread(Enum):
    """What is done with a value that is no token."""

    SAME = "same"
    """It is part of the form: other events have the same."""
    SKIPPED = "skipped"
    """It may be any value but an object or an array."""
    WRITE = "write"
    """It is `"c"` or `"u"`, a row inserted or updated, where both mean the same."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where tokens stand: `group` among those of an event; null gives None where the slot `takes_null`."""

    group: int
    look: Look
    takes_null: bool = False


JsonPath = tuple[str | int, ...]
"""Names of members and indexes of arrays from the outside in."""
Read = Callable[[JsonPath, Sequence[str]], "tuple[Look, bool] | Unread"]
"""What is read at a path, given the texts of some values there: a look and whether null may stand there."""


Whole = Callable[[JsonPath], bool]
"""Whether an object or array at a path is one value."""


@dataclass(frozen=True, slots=True)
class EventForm:
    """Events that differ in some values only; `parts` are long literal texts, each with the expression that follows it."""

    parts: tuple[tuple[str, re.Pattern[str]], ...]

    def tokens(self, text: str) -> tuple[str | None, ...] | None:
        """Return the tokens of an event by group, or None for one that is not of this form."""
        if self.whole is None:
            return self._of_parts(text)
        return None if (matched := self.whole.fullmatch(text)) is None else matched.groups()

    @property
    def whole(self) -> re.Pattern[str] | None:
        """The one expression of all of an event; None where long texts are compared apart."""
        return None if len(self.parts) > 1 or self.parts[0][0] else self.parts[0][1]

    def _of_parts(self, text: str) -> tuple[str | None, ...] | None:
        found: tuple[str | None, ...] = ()
        at = 0
        for literal, pattern in self.parts:
            matched = pattern.match(text, at + len(literal)) if text.startswith(literal, at) else None
            if matched is None:
                return None
            found += matched.groups()
            at = matched.end()
        return found if at == len(text) else None


_SCANNED = re.compile(r'("(?:[^"\\]|\\.)*")|([-0-9.eE+]+|true|false|null)|[{}\[\],:]')


def _values(text: str, *, whole: Whole) -> Iterator[tuple[JsonPath, int, int]]:
    """Yield path, start and end of each value of a JSON text that is neither object nor array, or that is `whole`."""
    path: list[str | int | None] = []  # None: a member whose name is to come
    depth, begun = 0, -1  # of a whole one: how many objects and arrays are open in it, and where it begins
    for found in _SCANNED.finditer(text):
        token = found[0]
        if begun >= 0 or (token in "{[" and path and path[-1] is not None and whole(_known(path))):
            begun = found.start() if begun < 0 else begun
            depth += (token in "{[") - (token in "}]")
            if not depth:
                yield _known(path), begun, found.end()
                begun = -1
        elif token in "{[":
            path.append(None if token == "{" else 0)
        elif token in "}]":
            path.pop()
        elif token == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        elif found[1] is not None and path and path[-1] is None:
            path[-1] = json.loads(token)
        elif token != ":":
            yield _known(path), found.start(), found.end()


def _known(path: Sequence[str | int | None]) -> JsonPath:
    return tuple(part for part in path if part is not None)


_NAME_OR_VALUE = re.compile(rf'("(?:[^"\\]|\\.)*"\s*:)|"(?:[^"\\]|\\.)*"|\[{_INSIDE}\]|[-0-9.eE+]+|true|false|null')


def without_values(text: str) -> str:
    """Return a JSON text with a dot after each name, for each value and for each array of values: the same for one form."""
    return _NAME_OR_VALUE.sub(r"\1.", text)


_LONG = 200
"""Letters from which on text that stays is compared at once, and not letter by letter."""


def learned(texts: Sequence[str], read: Read, *, whole: Whole) -> tuple[EventForm, dict[JsonPath, Slot]]:
    """Return the form of some JSON texts that are the same `without_values`, and its slots.

    What `read` says is `SAME` is as in the last of them; objects and arrays at paths that are `whole` are values, too.
    """
    text = texts[-1]
    samples = [{path: other[start:end] for path, start, end in _values(other, whole=whole)} for other in texts]
    slots: dict[JsonPath, Slot] = {}
    builder, at = _Builder(), 0
    for path, start, end in _values(text, whole=whole):
        builder.literal += text[at:start]
        at = end
        found = read(path, [sample[path] for sample in samples if path in sample])
        if found is Unread.SAME:
            builder.literal += text[start:end]
        elif isinstance(found, Unread):
            builder.add(_SKIPPED if found is Unread.SKIPPED else _WRITE)
        else:
            look, takes_null = found
            slots[path] = Slot(len(slots), look, takes_null)
            builder.add(f"(?:{look.value}|null)" if takes_null else f"(?:{look.value})")
    builder.literal += text[at:]
    return builder.form(), slots


@dataclass
class _Builder:
    """A form being put together: `literal` is what stands since the last value."""

    literal: str = ""
    _start: str = ""
    _pattern: str = ""
    _parts: list[tuple[str, re.Pattern[str]]] = field(default_factory=list)

    def add(self, pattern: str) -> None:
        self._take_literal()
        self._pattern += pattern

    def form(self) -> EventForm:
        self._take_literal()
        self._close()
        return EventForm(tuple(self._parts))

    def _take_literal(self) -> None:
        if len(self.literal) >= _LONG:
            self._close()
            self._start = self.literal
        else:
            self._pattern += re.escape(self.literal)
        self.literal = ""

    def _close(self) -> None:
        if self._start or self._pattern:
            self._parts.append((self._start, re.compile(self._pattern)))
        self._start, self._pattern = "", ""
