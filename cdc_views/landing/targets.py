"""What a producer is given: where each table's events go, and how it talks. The seam to `cdc_producers`."""

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
    """What lands one stream of one table: `StreamLander` into its raw table, or another elsewhere."""

    @property
    def raw(self) -> RawTable | None:
        """The raw table; None where events land elsewhere."""

    def position(self) -> Position | None:
        """Return the position that has landed, itself included; None where nothing of the stream has."""

    def land(self, events: Sequence[StreamEvent], *, through: Position, now: datetime) -> BatchReport:
        """Land events, ascending, and record that all up to `through` has landed, as one; what had landed is skipped."""


class StreamTarget(Protocol):
    """One table that a producer lands into."""

    @property
    def name(self) -> str:
        """As in the project file."""

    @property
    def schema(self) -> TableSchema:
        """The table's schema, as its file is now."""

    @property
    def schema_file(self) -> Path:
        """The file that `schema` was read from, as the project file names it."""

    @property
    def raw(self) -> RawTable | None:
        """Its raw table, which need not be there yet; None where events land elsewhere."""

    @property
    def format(self) -> RawFormat:
        """The raw format of its events, as the project file names it now."""

    def lander(self, stream: str) -> EventLander:
        """Return a lander of that stream, by the project file and schema as they are now; raises as those do."""

    def version(self) -> object:
        """Return something that differs once the project file or the schema's file was changed."""

    def follow(self) -> None:
        """Let an applied view show what has landed."""


class ProducerLog(Protocol):
    """Where a producer says what it does; `facts` are members of a JSON log."""

    def info(self, message: str, **facts: Any) -> None:
        """Say what was done."""

    def warning(self, message: str, **facts: Any) -> None:
        """Say what deserves attention."""


class SnapshotProgress(Protocol):
    """Shows how far the snapshot of a table is."""

    def __call__(self, name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
        """Take note of `done` rows of about `total` (None: not known); once `is_over`, no more come of this table."""


def shown_nowhere(name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
    """Show nothing; a `SnapshotProgress`."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where events are published instead of landing in raw tables: `scheme://…`, by a `Publish` of that scheme's name.

    `topic_prefix` precedes each table's name; `output_format` is what messages are written in.
    """

    address: str
    topic_prefix: str = ""
    output_format: str = "json"


@dataclass(frozen=True, slots=True)
class ProducerProject:
    """What a producer may know of the project beside its tables.

    Attributes:
        name: For slots, consumer groups and positions: `cdc_views_` and the project's name, in letters that all take.
        folder: Where the project file is.
        warehouse: The folder of the raw tables; None where it is elsewhere than on this machine.
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
        targets: The tables.
        log: Where it says what it does.
        stop: Set when it is to land what it has and end.
        exits_on_error: Whether an event that cannot be landed ends it; it goes to quarantine either way.
        listen: `host:port` of `/healthz` and `/metrics`, port 0 for any free one; None: neither.
        project: What it may know of the project beside its tables.
        progress: Where snapshots say how far they are, as often as they like.
        to: Where events go instead of the raw tables; None: into these.
    """

    targets: Sequence[StreamTarget]
    log: ProducerLog
    stop: Event
    exits_on_error: bool = False
    listen: str | None = "127.0.0.1:0"
    project: ProducerProject = field(default_factory=ProducerProject)
    progress: SnapshotProgress = shown_nowhere
    to: Destination | None = None


Publish = Callable[[ProducerOrder], ProducerOrder]
"""What an entry point of group `cdc_views.targets` is: the order with the targets that its `to` names.

Raises:
    UsageError: The destination cannot be.
"""
