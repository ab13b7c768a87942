"""Decodes lines into facts and facts into Arrow rows; a failure concerns one event."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from cdc_views.errors import CdcViewsError, MalformedEventError
from cdc_views.formats.base import RawFormat, SourceLine
from cdc_views.formats.redaction import Redacted
from cdc_views.landing.denylist import Denylist, without_forgotten
from cdc_views.landing.redaction import without_values
from cdc_views.rules.facts import Fact
from cdc_views.storage.relation import RawTable

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the events of one table; rows get the landing time `landed_at` (µs). `forgotten` keys' older events do not land.

    Policies of columns come first: `redacted` applies them, and everything else takes what it returns, except `facts_as_written`.
    """

    raw: RawTable
    format: RawFormat
    landed_at: int
    forgotten: Denylist | None = None

    def redacted(self, content: bytes) -> Redacted:
        """Return an event as policies of columns leave it."""
        return self.format.redacted(content)

    def withheld(self, content: bytes, reason: str) -> Redacted:
        """Return an event of unknown structure; where columns have policies, without its text and values in the reason."""
        redaction = self.format.redaction
        if redaction is None or not self.format.has_policies:
            return Redacted(content, reason)
        return redaction.withheld(content, without_values(reason, redaction.schema))

    @property
    def redacts(self) -> bool:
        """Whether policies change events."""
        return self.format.redaction is not None

    def facts_as_written(self, content: bytes, *, line: int, offset: int) -> list[Fact]:
        """Return the facts of an event as its source wrote it, or as quarantine has it; raises like `facts`."""
        found = self.redacted(content)
        if found.reason:
            raise MalformedEventError(found.reason)
        return self.facts(found.content, line=line, offset=offset)

    def facts(self, content: bytes, *, line: int, offset: int) -> list[Fact]:
        """Return the facts of one event; raises `MalformedEventError` for any fault in it."""
        try:
            return self.format.decode(_source_line(content, line, offset), self.raw.relation.schema)
        except MalformedEventError:
            raise
        except CdcViewsError as error:
            raise MalformedEventError(str(error)) from error
        except Exception as error:
            # a bug in a decoder must cost one event, not the whole load
            raise MalformedEventError(f"the {self.format.name} decoder failed: {type(error).__name__}: {error}") from error

    def without_forgotten(self, facts: list[Fact], content: bytes, *, line: int, offset: int) -> tuple[list[Fact], str]:
        """Return the `facts` of an event that may land, and why the others may not (a forgotten key), or an empty text."""
        if self.forgotten is None or not self.holds_back:
            return facts, ""
        event = _source_line(content, line, offset)
        return without_forgotten(
            self.forgotten, self.format, facts, schema=self.raw.relation.schema, event=event, now=self.landed_at
        )

    @property
    def holds_back(self) -> bool:
        """Whether any key is forgotten, so that some facts may not land."""
        return self.forgotten is not None and bool(self.forgotten.entries)

    @property
    def has_secret(self) -> bool:
        """Whether it holds a secret, of forgotten keys or of hashes, that stays in this process."""
        redaction = self.format.redaction
        return self.holds_back or (redaction is not None and redaction.policies.has_secret)

    def is_current(self) -> bool:
        """Whether no key was forgotten since the decoder was created."""
        return self.forgotten is None or self.forgotten.is_current()

    def reread(self) -> Decoder:
        """Return a decoder with the keys forgotten up to now."""
        return self if self.forgotten is None else replace(self, forgotten=self.forgotten.reread())

    def rows(self, facts: Sequence[Fact]) -> pa.Table:
        """Return the rows of the raw table; raises `MalformedEventError` if a value does not fit its column."""
        try:
            return self.raw.relation.rows(facts, landed_at=self.landed_at)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise MalformedEventError(f"a value does not fit the raw table: {error}") from error


def _source_line(content: bytes, line: int, offset: int) -> SourceLine:
    try:
        text = (content.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else content).decode()
    except UnicodeDecodeError as error:
        raise MalformedEventError(f"not UTF-8: {error.reason} at byte {error.start} of the line") from error
    return SourceLine(text, line, offset)


def rows_of_events(decoder: Decoder, events: Sequence[Sequence[Fact]]) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows of the events that fit, and the reason for each other event, by its index in `events`."""
    with suppress(MalformedEventError):
        return decoder.rows([fact for facts in events for fact in facts]), {}
    tables, reasons = [decoder.raw.relation.arrow_schema().empty_table()], {}
    for index, facts in enumerate(events):
        try:
            tables.append(decoder.rows(facts))
        except MalformedEventError as error:
            reasons[index] = str(error)
    return pa.concat_tables(tables), reasons
