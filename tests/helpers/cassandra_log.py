"""A cdc_raw folder of made-up segments, and a reader of them that needs no Java."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

from cdc_producers.cassandra.following import Follower
from cdc_producers.cassandra.node_schema import NodeSchema, NodeTable
from cdc_producers.cassandra.reader import Bad, Ended, ReadEvents
from cdc_producers.cassandra.segments import WHOLE, index_of
from cdc_producers.source import Emitted

from cdc_views.errors import MalformedEventError, TransientError
from cdc_views.landing import Position
from helpers.captured import Said

ORDERS, ITEMS = "shop.orders", "shop.items"
IDS = {ORDERS: UUID(int=1), ITEMS: UUID(int=2)}
STREAM = "cassandra:host"


@dataclass
class Log:
    """A folder of segments; a segment holds (table, end) pairs, what is in the way at an end; `odd`: read as lines only."""

    folder: Path
    mutations: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    faults: dict[tuple[int, int], list[Ended]] = field(default_factory=dict)
    odd: set[tuple[int, int]] = field(default_factory=set)
    restarted: int = 0

    def path(self, number: int) -> Path:
        return self.folder / f"CommitLog-7-{number}.log"

    def write(self, number: int, *mutations: tuple[str, int], index: str | None) -> None:
        """Write a segment; `index` is the text of its index file, None for no such file."""
        self.mutations[number] = list(mutations)
        self.path(number).write_bytes(b"log")
        if index is not None:
            index_of(self.path(number)).write_text(index)

    def start(self) -> None:
        self.restarted += 1

    def read(
        self, log: Path, segment: int, *, start: int, limit: int, passes_over: bool = False, as_lines: bool = False
    ) -> Iterator[ReadEvents | Bad | Ended]:
        """As `Reader.read`; a fault at an end is met once for each time that it was given."""
        reached = start
        for table, end in self.mutations[segment]:
            if start < end <= limit:
                if self.faults.get((segment, end)):
                    yield self.faults[segment, end].pop(0)
                    return
                if (segment, end) in self.odd and not as_lines:
                    raise MalformedEventError("a value is not of its type")
                yield ReadEvents(list(IDS).index(table), end, f"{segment}:{end}".encode())
                reached = end
        yield Ended(reached, 1)


@dataclass
class Asked:
    """The schema of a node; `newer` is what it has when it is asked again, an error where it is away."""

    current: NodeSchema
    newer: NodeSchema | TransientError | None = None
    file: Path | None = None

    def refresh(self) -> bool:
        if isinstance(self.newer, TransientError):
            raise self.newer
        has_changed = self.newer is not None and self.newer != self.current
        self.current = self.newer or self.current
        return has_changed


def schema(version: str, *more: UUID) -> NodeSchema:
    """A schema of the tables and of others, with these ids."""
    tables = [NodeTable(*name.split("."), number, True) for name, number in IDS.items()]
    tables += [NodeTable("shop", f"other{number}", number) for number in more]
    return NodeSchema(version, {table.id: table for table in tables})


@dataclass
class Followed:
    """A follower of a log, and what it emitted."""

    log: Log
    asked: Asked = field(default_factory=lambda: Asked(schema("1")))
    landed: dict[str, Position | None] = field(default_factory=lambda: dict.fromkeys(IDS))
    emitted: list[Emitted] = field(default_factory=list)
    pushed: int = 0
    said: Said = field(default_factory=Said)

    def __post_init__(self) -> None:
        reader: Any = self.log
        schemas: Any = self.asked
        self.follower = Follower(
            self.log.folder,
            "10.0.0.1",
            list(IDS),
            self.landed,
            STREAM,
            reader,
            schemas,
            self._push,
            self.log.folder / "aside",
            self.said,
            abandoned_after=0.0,
            pause=0.0,
        )

    def _push(self) -> None:
        self.pushed += 1

    def round(self) -> bool:
        return self.follower.round(self.emitted.append, Event())

    @property
    def events(self) -> list[tuple[str, int, int]]:
        """Table, segment and position of what was emitted with a content."""
        return [(item.table, *item.position) for item in self.emitted if item.content is not None]

    @property
    def done(self) -> list[int]:
        """Segments that were read wholly, in that order."""
        return [item.token.segment for item in self.emitted if item.token is not None and item.token.is_done]  # type: ignore[attr-defined]


__all__ = ["IDS", "ITEMS", "ORDERS", "WHOLE", "Asked", "Followed", "Log", "schema"]
