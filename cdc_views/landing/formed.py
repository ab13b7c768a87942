"""Many events at once into rows: those of a known form by columns, the rest is left to be decoded one by one.

A form is learned from events that matched none, and compared with the format's own decoder on one of them before it is
used. It is kept for as long as its `FormReader` lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.landing.formed_rows import rows_of_tokens
from cdc_views.landing.tokens import UnfitError
from cdc_views.raw.base import RawFormat, SourceLine
from cdc_views.raw.forms import without_values
from cdc_views.raw.row_form import RowForm
from cdc_views.relation import Relation

_SEEN_BEFORE = 3
"""How many events of one form make it worth learning; a form that does not match them all is learned again at twice as many."""
_MOST_FORMS, _MOST_SKELETONS = 32, 256


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


@dataclass(slots=True)
class FormReader:
    """Reads events of one table in one format; its forms grow with what it has read."""

    relation: Relation
    format: RawFormat
    _forms: list[RowForm] = field(default_factory=list)
    _seen: dict[str, list[str] | None] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def read(self, contents: Sequence[bytes], *, landed_at: int) -> list[Formed]:
        """Return the rows of the events that are of a known form, apart for each form."""
        if not self.format.has_forms:
            return []
        known = [_Matches(form) for form in self._forms]
        for index, content in enumerate(contents):
            try:
                text = content.decode()
            except UnicodeDecodeError:
                continue
            if not _matched(known, index, text) and self._learn(text):
                known.insert(0, _Matches(self._forms[-1]))
                _matched(known[:1], index, text)
        self._forms = [matches.form for matches in known]
        return [formed for matches in known if matches.events and (formed := self._formed(matches, landed_at)).events]

    def _learn(self, text: str) -> bool:
        """Take note of an event that is of no known form; returns whether it is of one now, the last of `_forms`."""
        if len(self._forms) >= _MOST_FORMS or len(self._counts) >= _MOST_SKELETONS:
            return False
        skeleton = without_values(text)
        seen = self._seen.setdefault(skeleton, [])
        if seen is None:
            return False
        self._counts[skeleton] = count = self._counts.get(skeleton, 0) + 1
        seen[:] = [*seen[1 - _SEEN_BEFORE :], text]
        if count % _SEEN_BEFORE or (count // _SEEN_BEFORE).bit_count() != 1:
            return False
        form = self._learned(seen)
        if form is None:
            self._seen[skeleton] = None
            return False
        self._forms.append(form)
        return True

    def _learned(self, texts: list[str]) -> RowForm | None:
        """Return the form of events that are the same but for values, where it reads one of them as the decoder does."""
        schema = self.relation.schema
        try:
            form = self.format.row_form(texts, schema)
            tokens = form.form.tokens(texts[-1]) if form else None
            if form is None or tokens is None:
                return None
            expected = self.relation.rows(self.format.decode(SourceLine(texts[-1]), schema), landed_at=0)
            found = self._formed(_Matches(form, [0], [tokens]), 0)
        except Exception:
            # what cannot be learned is decoded one by one, which says what is wrong
            return None
        # their print tells -0.0 from 0.0, and NaN from nothing else
        return form if not found.events or repr(found.table.to_pylist()) == repr(expected.to_pylist()) else None

    def _formed(self, matches: _Matches, landed_at: int) -> Formed:
        """Return the rows of a form's events but those that are to be read one by one."""
        events, tokens = matches.events, matches.tokens
        while events:
            try:
                return Formed(rows_of_tokens(self.relation, matches.form, tokens, landed_at=landed_at), events)
            except UnfitError as error:
                events = [event for index, event in enumerate(events) if index not in error.indexes]
                tokens = [found for index, found in enumerate(tokens) if index not in error.indexes]
        return Formed(self.relation.arrow_schema().empty_table(), [])


def _matched(known: list[_Matches], index: int, text: str) -> bool:
    for place, matches in enumerate(known):
        tokens = matches.form.form.tokens(text)
        if tokens is not None:
            matches.events.append(index)
            matches.tokens.append(tokens)
            if place:
                known.insert(0, known.pop(place))  # the next event is mostly of the same form
            return True
    return False


__all__ = ["FormReader", "Formed", "in_order"]
