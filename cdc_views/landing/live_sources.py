"""What an entry point of group `cdc_views.live_sources` offers: `verify` reads rows of the running source through it.

The entry point's name is the scheme of an address, as `postgresql` in `postgresql://host/shop`; its object is an `OpenLive`.
An address without a host means the environment, as that source's producer reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from cdc_views.formats.base import RawFormat
from cdc_views.landing.blocks import Position
from cdc_views.model.live_addresses import reader_of
from cdc_views.model.schema import TableSchema

GROUP = "cdc_views.live_sources"
"""Entry points of live sources, by the scheme of their address."""


@dataclass(frozen=True, slots=True)
class LiveOrder:
    """What to read: the table's name in the project file, the source's schema, and the raw format of its events.

    The format applies the policies of columns, if there are any: `values` of a row are as they are stored.
    """

    name: str
    schema: TableSchema
    format: RawFormat

    @property
    def stored(self) -> TableSchema:
        """The schema of what is stored and compared."""
        return self.format.stored_schema(self.schema)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of the source.

    Attributes:
        values: Native values by column, None for null; only columns that the source and the schema have.
        version: Equal in two reads only if nobody wrote the row in between; None: the source does not tell.
        written: By column, the write time (µs) of its newest cell; empty where the source keeps none.
        unfit: By column, why its value is none of the schema's type; such a column is not in `values`.
        is_whole: Whether a write is of a whole row; otherwise each cell is written, and deleted, by itself.
    """

    values: Mapping[str, Any]
    version: Hashable = None
    written: Mapping[str, int] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class SourceReading:
    """Rows of the source at one moment.

    The rows are those of a position from `low` to `high`, which are write times of raw tables: every event before `low` shows in
    them, none from `high` on. Where the source reads at one exact position they are equal; None: it has no positions.

    Attributes:
        at: The position as the source's tools print it, or the instant.
        clock: When it was read, epoch seconds by the source's clock: cells expire by it.
        resume: Where the next chunk begins; empty behind the last row.
        read: How many rows the source read.
    """

    rows: Sequence[SourceRow]
    clock: int
    low: int | None = None
    high: int | None = None
    at: str = ""
    resume: str = ""
    read: int = 0


class LiveTable(Protocol):
    """One table of a running source."""

    lacking: Sequence[str]
    """Columns of what is stored that the source does not have, or does not log."""

    def chunk(self, resume: str, *, limit: int) -> SourceReading:
        """Return about `limit` rows from `resume` on, in the source's own order; empty: from the beginning."""

    def find(self, keys: Sequence[Mapping[str, Any]]) -> SourceReading:
        """Return the rows with these keys (native values of all key columns), those that there are."""

    def position(self, text: str) -> int:
        """Return the write time just behind a position in the source's own form; raises `UsageError` for another form."""

    def landed(self, positions: Mapping[str, Position]) -> int | None:
        """Return the write time before which every event has landed, from the positions of the raw table's streams; None: they do
        not tell.
        """


OpenLive = Callable[[str, LiveOrder], AbstractContextManager[LiveTable]]
"""Connects to the source at an address; raises `UsageError` for what never works, `TransientError` if the source is away."""


def live_source(address: str) -> OpenLive:
    """Return what connects to the source of an address; raises `UnsupportedError` if no installed package knows its scheme."""
    return cast("OpenLive", reader_of(address, GROUP))
