"""The commit-log processor: segments in order, each as far as it is on disk for good, every mutation once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import NamedTuple
from uuid import UUID

from cdc_producers.cassandra.reader import Bad, CommitLogReader, Ended, ReadEvents
from cdc_producers.cassandra.schemas import Schemas
from cdc_producers.cassandra.segments import WHOLE, Segment, index_of, segments_in, set_aside
from cdc_producers.source import Emit, Emitted, LostError
from cdc_views.errors import EngineError, MalformedEventError, TransientError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog

_TRIES = 4
_REACHED_EVERY = 10.0


class Landmark(NamedTuple):
    """Token of `Source.landed`: all of a segment up to `position` was emitted before; `is_done`: all of the segment."""

    segment: int
    position: int
    is_done: bool
    log: Path


@dataclass
class Follower:
    """Follows the segments of one folder for some tables.

    Attributes:
        folder: `cdc_raw`.
        names: The wanted tables, in the order the reader numbers them.
        landed: Up to where each table had landed at the start.
        stream: The stream that positions are kept under.
        schemas: The node's schema; asked anew for what the reader does not know.
        push: Gives the reader the schema as it is now, and the project's files with it.
        aside: Where segments are kept that could not be read wholly.
        gone: Ids of tables that the node has dropped.
        behind: Bytes that were not read yet.
    """

    folder: Path
    node: str
    names: Sequence[str]
    landed: Mapping[str, Position | None]
    stream: str
    reader: CommitLogReader
    schemas: Schemas
    push: Callable[[], None]
    aside: Path
    log: ProducerLog
    gone: list[UUID] = field(default_factory=list)
    behind: int = 0
    abandoned_after: float = 2.0
    """Seconds after which a segment that a later one follows is no longer expected to be completed."""
    pause: float = 0.5
    """Seconds before corrupt bytes are read again."""
    _reached: dict[int, int] = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)
    _followed_since: dict[int, float] = field(default_factory=dict)
    _corrupt: dict[int, int] = field(default_factory=dict)
    _emitted: dict[str, int] = field(default_factory=dict)
    _told_at: float = 0.0

    def round(self, emit: Emit, stop: Event) -> bool:
        """Emit what can be read by now; returns whether anything was new.

        Raises:
            LostError: A segment went away that was not read wholly.
            TransientError: The reader ended, or the node must be asked and does not answer.
        """
        found = segments_in(self.folder)
        self._check_gone(found)
        self._done &= {segment.id for segment in found}
        unread = [segment for segment in found if segment.id not in self._done]
        self.behind = sum(max(0, (segment.limit or 0) - self._start(segment)) for segment in unread)
        was_new = False
        for place, segment in enumerate(found):
            if stop.is_set():
                break
            if segment.id in self._done:
                continue
            later = any(other.limit is not None for other in found[place + 1 :])
            ends = segment.is_complete or (later and self._is_abandoned(segment))
            if segment.limit is None and later and not index_of(segment.log).exists():
                continue  # nothing in it is tracked
            if segment.limit is None and not ends:
                break
            was_new |= self._segment(segment, ends=ends, emit=emit)
            if not ends:
                break  # what comes later waits until this one is whole
        return was_new

    def _start(self, segment: Segment) -> int:
        """Up to where all tables have the segment: what was read in this run, else what had landed before it."""
        if segment.id in self._reached:
            return self._reached[segment.id]
        return min((_within(position, segment.id) for position in self.landed.values()), default=0)

    def _is_abandoned(self, segment: Segment) -> bool:
        """Whether the node was ended while it wrote this segment, and has begun another since."""
        if not index_of(segment.log).exists():
            return False
        since = self._followed_since.setdefault(segment.id, time.monotonic())
        return time.monotonic() - since > self.abandoned_after

    def _check_gone(self, found: list[Segment]) -> None:
        here = {segment.id for segment in found}
        for number in [number for number in self._reached if number not in here]:
            if number not in self._done and self._reached[number] < WHOLE:
                raise LostError(
                    f"segment {number} went away from {self.folder} before all of it was read: the node deletes segments where "
                    "cdc_block_writes is false, or somebody did. What it held is missing here; other replicas may have it. "
                    "Repair the table on this node, or start again to go on without"
                )
            del self._reached[number]

    def _segment(self, segment: Segment, *, ends: bool, emit: Emit) -> bool:
        start = self._start(segment)
        limit = WHOLE if ends else segment.limit or 0
        if start < limit:
            self._read(segment, start=start, limit=limit, ends=ends, emit=emit)
        reached = self._reached.get(segment.id, start)
        is_done = ends and reached >= WHOLE
        if is_done:
            self._done.add(segment.id)
            self._tell_idle(segment, emit)
        elif reached <= start:
            return False
        emit(Emitted(token=Landmark(segment.id, reached, is_done=is_done, log=segment.log)))
        return True

    def _read(self, segment: Segment, *, start: int, limit: int, ends: bool, emit: Emit) -> None:
        """Read up to the limit, mending what stops the reader where it can be mended."""
        passes_over, as_lines = False, False
        while True:
            try:
                ended = self._emit_range(segment, start, limit, passes_over=passes_over, as_lines=as_lines, emit=emit)
            except MalformedEventError:
                # line by line the event is found that holds the value, and its table's quarantine takes it
                as_lines = True
                self.reader.start()
                self.push()
                continue
            start = self._reached[segment.id] = max(start, ended.position)
            if ends and not ended.why and ended.mutations == start == 0 and segment.limit:
                # Cassandra's reader passes over a segment whose header it cannot read
                self._give_up(segment, 0, f"nothing in it can be read, and its index says {segment.limit:,} bytes", emit)
                return
            if not ended.why:
                self._reached[segment.id] = limit if limit == WHOLE else start
                return
            if ended.why == "table":
                self._learn(ended)
            elif ended.why == "mutation":
                if self.schemas.refresh():
                    self.push()
                else:
                    self._emit_unreadable(segment, ended.at, ended.reason, emit, content=ended.content)
                    start = self._reached[segment.id] = ended.at
            elif not passes_over:
                passes_over = self._is_corrupt(segment, ended)
            elif ends:
                self._give_up(segment, ended.position, ended.reason, emit)
                return
            else:
                raise TransientError(
                    f"{segment.log.name} cannot be read after {ended.position}: {ended.reason}; the node still writes it"
                )

    def _emit_range(self, segment: Segment, start: int, limit: int, *, passes_over: bool, as_lines: bool, emit: Emit) -> Ended:
        synced, names, stream, number = segment.synced, self.names, self.stream, segment.id
        for item in self.reader.read(segment.log, number, start=start, limit=limit, passes_over=passes_over, as_lines=as_lines):
            if isinstance(item, ReadEvents):
                name = names[item.table]
                emit(Emitted(name, stream, Position(number, item.position), item.content, synced))
                self._emitted[name] = number
            elif isinstance(item, Bad):
                kept = set_aside(segment.log, self.aside)
                self.log.warning(
                    f"{segment.log.name}: {item.reason}: that mutation is lost here, and other replicas have it; the rest is "
                    f"read. A copy is kept: {kept}",
                    segment=number,
                )
            else:
                return item
        raise TransientError("the reader said nothing of how it ended")

    def _learn(self, ended: Ended) -> None:
        """Take the schema anew for a table id that it did not have; without the node's word nothing is passed over."""
        unknown = ended.table_id
        assert unknown is not None
        try:
            self.schemas.refresh()
        except TransientError as error:
            raise TransientError(
                f"a mutation of table id {unknown} waits for the node's schema, which has it: {error}"
            ) from error
        if unknown in self.gone:
            raise EngineError(f"the reader asks for table id {unknown} again; what it was given of it is not enough")
        if unknown not in self.schemas.current.ids:
            if self.schemas.file is not None:
                raise TransientError(
                    f"a mutation of table id {unknown} waits: {self.schemas.file} has no such table; add it there, "
                    f"or a line `-- known: {unknown}` where it is of another keyspace"
                )
            # the node wrote the mutation, so it had the table: asked later, it has it no more
            self.gone.append(unknown)
            self.log.warning(
                f"table id {unknown} has mutations here, and the node no longer has it: the table was dropped, so no read shows "
                "anything of it; its mutations are passed over",
                table_id=str(unknown),
            )
        self.push()

    def _emit_unreadable(self, segment: Segment, at: int, reason: str, emit: Emit, *, content: bytes = b"") -> None:
        """Emit what nobody can read as that: to the table of the mutation `content`, or to each where that is not known."""
        # in a mutation of one update the count is one byte, and the table's id comes next
        is_of_one = len(content) >= 17 and content[0] == 1
        table = self.schemas.current.ids.get(UUID(bytes=content[1:17])) if is_of_one else None
        for name in self.names:
            if table is None or table.full_name == name:
                keyspace, _, short = name.partition(".")
                said = {"format": "cassandra-mutation/1", "node": self.node, "segment": segment.id, "position": at}
                said |= {"keyspace": keyspace, "table": short, "unreadable": {"reason": reason, "bytes": content.hex()}}
                emit(Emitted(name, self.stream, Position(segment.id, at), json.dumps(said).encode(), segment.synced))

    def _is_corrupt(self, segment: Segment, ended: Ended) -> bool:
        """Whether bytes stay wrong when read again: what is being written may look so for a moment."""
        tries = self._corrupt[segment.id] = self._corrupt.get(segment.id, 0) + 1
        if tries >= _TRIES:
            return True
        if tries == 1:
            self.log.warning(f"{segment.log.name} after {ended.position}: {ended.reason}; read again", segment=segment.id)
        time.sleep(self.pause)
        return False

    def _give_up(self, segment: Segment, position: int, reason: str, emit: Emit) -> None:
        """Pass over the rest of a segment that stays unreadable: keep a copy, and say so in each table's quarantine."""
        kept = set_aside(segment.log, self.aside)
        reason = f"{segment.log.name} cannot be read after {position}: {reason}; a copy is kept: {kept}"
        self.log.warning(f"{reason}. Other replicas have what it held; repair this node's tables", segment=segment.id)
        self._emit_unreadable(segment, WHOLE - 1, reason, emit)
        self._reached[segment.id] = WHOLE

    def _tell_idle(self, segment: Segment, emit: Emit) -> None:
        """Note now and then how far tables have come that nobody writes to: else a start would read all from their last event."""
        if time.monotonic() - self._told_at < _REACHED_EVERY:
            return
        self._told_at = time.monotonic()
        for name in self.names:
            if self._emitted.get(name, 0) < segment.id:
                emit(Emitted(name, self.stream, Position(segment.id, WHOLE)))


def _within(position: Position | None, segment: int) -> int:
    if position is None or position.at < segment:
        return 0
    return position.nth if position.at == segment else WHOLE
