"""Lines into facts and facts into Arrow rows, every failure pinned to the one event that caused it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc_views.errors import CdcViewsError, MalformedEventError
from cdc_views.facts import Fact
from cdc_views.raw.base import RawFormat, SourceLine
from cdc_views.relation import RawTable

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the events of one table; `landed_at` (µs) is what its rows are stamped with."""

    raw: RawTable
    format: RawFormat
    landed_at: int

    def facts(self, content: bytes, *, line: int, offset: int) -> list[Fact]:
        """Return the facts of one event; raises `MalformedEventError` whatever is wrong with it."""
        if offset == 0:
            content = content.removeprefix(_BYTE_ORDER_MARK)
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise MalformedEventError(f"not UTF-8: {error.reason} at byte {error.start} of the line") from error
        try:
            return self.format.decode(SourceLine(text, line, offset), self.raw.relation.schema)
        except MalformedEventError:
            raise
        except CdcViewsError as error:
            raise MalformedEventError(str(error)) from error
        except Exception as error:
            # a hole in a decoder must cost one event, not the whole load
            raise MalformedEventError(f"the {self.format.name} decoder failed: {type(error).__name__}: {error}") from error

    def rows(self, facts: Sequence[Fact]) -> pa.Table:
        """Return the rows of the raw table; raises `MalformedEventError` for a value that does not fit its column."""
        try:
            return self.raw.relation.rows(facts, landed_at=self.landed_at)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise MalformedEventError(f"a value does not fit the raw table: {error}") from error


def rows_of_events(decoder: Decoder, events: Sequence[Sequence[Fact]]) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows of all events that fit, and the reason of each that does not, by its index in `events`."""
    try:
        return decoder.rows([fact for facts in events for fact in facts]), {}
    except MalformedEventError:
        return _one_by_one(decoder, events)


def _one_by_one(decoder: Decoder, events: Sequence[Sequence[Fact]]) -> tuple[pa.Table, dict[int, str]]:
    tables, reasons = [decoder.raw.relation.arrow_schema().empty_table()], {}
    for index, facts in enumerate(events):
        try:
            tables.append(decoder.rows(facts))
        except MalformedEventError as error:
            reasons[index] = str(error)
    return pa.concat_tables(tables), reasons
