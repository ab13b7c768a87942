"""What a producer receives: the targets of each table's events, and its log. The interface to `cdc_producers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from cdc_views.formats.base import RawFormat
from cdc_views.landing.blocks import Position, StreamEvent
from cdc_views.landing.streams import BatchReport
from cdc_views.model.schema import TableSchema
from cdc_views.storage.relation import RawTable


class EventLander(Protocol):
    """Lands one stream of one table: `StreamLander` into its raw table, other classes elsewhere."""

    @property
    def raw(self) -> RawTable | None:
        """The raw table; None if events land elsewhere."""

    def position(self) -> Position | None:
        """Return the last position that has landed; None if nothing of the stream has landed."""

    def note(self) -> str:
        """Return the note that landed with the last position; empty if none did."""

    def land(self, events: Sequence[StreamEvent], *, through: Position, now: datetime, note: str = "") -> BatchReport:
        """Land ascending events and record, in one step, that all up to `through` has landed; skip events that have landed."""


class StreamTarget(Protocol):
    """One table into which a producer lands."""

    @property
    def name(self) -> str:
        """The table's name in the project file."""

    @property
    def schema(self) -> TableSchema:
        """The table's schema in its source, as in its file now."""

    @property
    def schema_file(self) -> Path | None:
        """The file that `schema` was read from, as the project file names it; None if a running source told it, once."""

    @property
    def raw(self) -> RawTable | None:
        """The raw table, which need not exist yet; None if events land elsewhere."""

    @property
    def place(self) -> str:
        """Where its events land now: the raw table's location, or a topic. Another place lacks what has landed here."""

    @property
    def format(self) -> RawFormat:
        """The raw format of its events, as the project file names it now, with the policies of columns."""

    def lander(self, stream: str) -> EventLander:
        """Return a lander of a stream, by the current project file and schema; raises what reading these raises."""

    def version(self) -> object:
        """Return a value that changes when the project file or the schema's file changes."""

    def follow(self) -> None:
        """Let an applied view show the new facts."""


class ProducerLog(Protocol):
    """A producer's log; `facts` become members of a JSON log."""

    def info(self, message: str, **facts: Any) -> None:
        """Report what was done."""

    def warning(self, message: str, **facts: Any) -> None:
        """Report what deserves attention."""


class SnapshotProgress(Protocol):
    """Shows the progress of a table's snapshot."""

    def __call__(self, name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
        """Note `done` rows of about `total` (None: unknown); after `is_over`, the table has no more."""


def shown_nowhere(name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
    """Show nothing; a `SnapshotProgress`."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The place where events are published instead of landing; `address` is `scheme://…`, and `scheme` names a `Publish`.

    `topic_prefix` precedes each table's name; `output_format` is the format of messages. `by_stream`: other producers publish
    the same tables at the same time, each its own streams.
    """

    address: str
    topic_prefix: str = ""
    output_format: str = "json"
    by_stream: bool = False


@dataclass(frozen=True, slots=True)
class ProducerProject:
    """What a producer may know of the project besides its tables.

    Attributes:
        name: For slots, consumer groups and positions: `cdc_views_` and the project's name, in letters that all accept.
        folder: The project file's folder.
        warehouse: The folder of the project's warehouse; None if it is not on this machine.
        topics: The topics that the project file names, by table.
    """

    name: str = "cdc_views"
    folder: Path = Path()
    warehouse: Path | None = None
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ProducerOrder:
    """What a producer is asked to do.

    Attributes:
        stop: Set when it must land what it has and end.
        exits_on_error: Whether an event that cannot land ends it; the event goes to quarantine in both cases.
        listen: `host:port` of `/healthz` and `/metrics`, port 0 for any free one; None: neither.
        connect_seconds: A source that has not answered so long after the start ends the run; 0: it is waited for.
        progress: Called by snapshots, as often as they like.
        to: Where events go instead of the raw tables; None: into the raw tables.
    """

    targets: Sequence[StreamTarget]
    log: ProducerLog
    stop: Event
    exits_on_error: bool = False
    listen: str | None = "127.0.0.1:0"
    connect_seconds: float = 60.0
    project: ProducerProject = field(default_factory=ProducerProject)
    progress: SnapshotProgress = shown_nowhere
    to: Destination | None = None


Publish = Callable[[ProducerOrder], ProducerOrder]
"""An entry point of group `cdc_views.targets`: returns the order with the targets of its `to`; raises `UsageError`."""
