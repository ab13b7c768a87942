"""Many events at once into rows: those of a known form by columns, the rest is left to be decoded one by one.

A form is learned from events that matched none, and compared with the format's own decoder on one of them before it is
used. It is kept for as long as its `FormReader` lives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.formats.base import RawFormat, SourceLine
from cdc_views.formats.forms import without_values
from cdc_views.formats.row_form import RowForm
from cdc_views.landing.formed_rows import rows_of_tokens
from cdc_views.landing.tokens import UnfitError
from cdc_views.storage.relation import Relation

_SEEN_BEFORE = 3
"""How many events of one form make it worth learning; where it does not match them all, again at twice as many."""
_MOST_FORMS, _MOST_KINDS = 32, 256
"""Forms and kinds of text that are kept."""
_LONGEST = 256 << 10
"""Bytes of an event; to match each escape in a string takes 270 bytes of memory."""


@dataclass(frozen=True, slots=True)
class Formed:
    """Rows of some of a batch's events: `events` has the index of each row's event, ascending."""

    table: pa.Table
    events: list[int]


def in_order(parts: Sequence[Formed], *, empty: pa.Table) -> pa.Table:
    """Return the rows of all parts in the order of their events, those of one event as they were; `empty` has no rows."""
    filled = [part for part in parts if part.events]
    if len(filled) < 2:
        return filled[0].table if filled else empty
    order = pc.sort_indices(pa.array([event for part in filled for event in part.events], pa.int64()))  # a stable sort
    return pa.concat_tables([part.table for part in filled]).combine_chunks().take(order)


@dataclass(slots=True)
class _Matches:
    """The events of a batch that a form matched."""

    form: RowForm
    events: list[int] = field(default_factory=list)
    tokens: list[tuple[str | None, ...]] = field(default_factory=list)

    def take(self, index: int, text: str) -> bool:
        """Add an event if it is of the form; returns whether it is."""
        found = self.form.form.tokens(text)
        if found is None:
            return False
        self.events.append(index)
        self.tokens.append(found)
        return True

    def take_run(self, contents: Sequence[bytes], start: int) -> int:
        """Add the events from `start` on that are of the form, up to one that is not; returns the index of that."""
        whole = self.form.form.whole
        try:
            return self._take_parts(contents, start) if whole is None else self._take_whole(whole, contents, start)
        except UnicodeDecodeError:
            return self.events[-1] + 1 if self.events and self.events[-1] >= start else start

    def _take_parts(self, contents: Sequence[bytes], start: int) -> int:
        tokens_of = self.form.form.tokens
        for index in range(start, len(contents)):
            found = tokens_of(contents[index].decode()) if len(contents[index]) <= _LONGEST else None
            if found is None:
                return index
            self.events.append(index)
            self.tokens.append(found)
        return len(contents)

    def _take_whole(self, whole: re.Pattern[str], contents: Sequence[bytes], start: int) -> int:
        """As `_take_parts`, without a call for each event."""
        match, add_event, add_tokens = whole.fullmatch, self.events.append, self.tokens.append
        for index in range(start, len(contents)):
            content = contents[index]
            matched = match(content.decode()) if len(content) <= _LONGEST else None
            if matched is None:
                return index
            add_event(index)
            add_tokens(matched.groups())
        return len(contents)


def _text(content: bytes) -> str | None:
    """The text of an event; None for one that is too long or no text."""
    if len(content) > _LONGEST:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


@dataclass(slots=True)
class FormReader:
    """Reads events of one table in one format; its forms grow with what it has read."""

    relation: Relation
    format: RawFormat
    _forms: list[RowForm] = field(default_factory=list)
    _unmatched: _Unmatched = field(default_factory=lambda: _Unmatched())

    def read(self, contents: Sequence[bytes], *, lines: Sequence[int], landed_at: int) -> list[Formed]:
        """Return the rows of the events that are of a known form, apart for each form; `lines` as in `SourceLine.line`."""
        if not self.format.has_forms:
            return []
        known = [_Matches(form) for form in self._forms]  # the first is the one that matched last
        index = 0
        while index < len(contents):
            if known:
                index = known[0].take_run(contents, index)
            if index < len(contents) and (text := _text(contents[index])) is not None:
                self._look_for(known, index, text)
            index += 1
        self._forms = [matches.form for matches in known[:_MOST_FORMS]]
        return [formed for matches in known if matches.events and (formed := self._formed(matches, lines, landed_at)).events]

    def _look_for(self, known: list[_Matches], index: int, text: str) -> None:
        """Find the form of an event that the first did not match, and put it first; learn it where that is worth it."""
        for place in range(1, len(known)):
            if known[place].take(index, text):
                known.insert(0, known.pop(place))
                return
        like = self._unmatched.note(text)
        if like is None:
            return
        form = self._learned(like)
        if form is None:
            self._unmatched.give_up(text)
            return
        known.insert(0, _Matches(form))
        known[0].take(index, text)

    def _learned(self, texts: list[str]) -> RowForm | None:
        """Return the form of events that are the same but for values, where it reads one of them as the decoder does."""
        schema = self.relation.schema
        try:
            form = self.format.row_form(texts, schema)
            matches = None if form is None else _Matches(form)
            if matches is None or not matches.take(0, texts[-1]):
                return None
            found = self._formed(matches, [1], 0)
            expected = self.relation.rows(self.format.decode(SourceLine(texts[-1]), schema), landed_at=0)
        except Exception:
            # what cannot be learned is decoded one by one, which says what is wrong
            return None
        # their print tells -0.0 from 0.0, and NaN from nothing else
        is_right = not found.events or repr(found.table.to_pylist()) == repr(expected.to_pylist())
        return form if is_right else None

    def _formed(self, matches: _Matches, lines: Sequence[int], landed_at: int) -> Formed:
        """Return the rows of a form's events but those that are to be read one by one."""
        events, tokens = matches.events, matches.tokens
        while events:
            try:
                mine = [lines[index] for index in events]
                return Formed(rows_of_tokens(self.relation, matches.form, tokens, lines=mine, landed_at=landed_at), events)
            except UnfitError as error:
                events = [event for index, event in enumerate(events) if index not in error.indexes]
                tokens = [found for index, found in enumerate(tokens) if index not in error.indexes]
        return Formed(self.relation.arrow_schema().empty_table(), [])


@dataclass(slots=True)
class _Unmatched:
    """Events that no form matched, by their text without values: how many there were, and the last few."""

    _seen: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    _hopeless: set[str] = field(default_factory=set)

    def note(self, text: str) -> list[str] | None:
        """Take note of an event; returns some events like it where their form is worth learning now."""
        kind = without_values(text)
        if kind in self._hopeless:
            return None
        if len(self._seen) >= _MOST_KINDS:
            self._seen.clear()
        count, texts = self._seen.get(kind, (0, []))
        count, texts = count + 1, [*texts[1 - _SEEN_BEFORE :], text]
        self._seen[kind] = count, texts
        times, rest = divmod(count, _SEEN_BEFORE)
        return texts if rest == 0 and times.bit_count() == 1 else None

    def give_up(self, text: str) -> None:
        """Take note that the form of an event cannot be learned."""
        if len(self._hopeless) >= _MOST_KINDS:
            self._hopeless.clear()
        self._hopeless.add(without_values(text))


__all__ = ["FormReader", "Formed", "in_order"]
