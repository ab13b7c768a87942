"""Follows the commit log: segments in order, each as far as it is safely on disk, every mutation once."""

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
    """Token of `Source.landed`: a segment was emitted up to `position`, or wholly if `is_done`."""

    segment: int
    position: int
    is_done: bool
    log: Path


@dataclass
class Follower:
    """A follower of one folder's segments for some tables.

    Attributes:
        names: The wanted tables, in the order in which the reader numbers them.
        landed: How far each table had landed at the start.
        schemas: The node's schema; asked again about tables that the reader does not know.
        push: Gives the reader the current schema and the project's files.
        aside: Folder for copies of segments that could not be read wholly.
        gone: Ids of tables that the node has dropped.
        behind: Bytes not read yet.
        abandoned_after: Seconds to wait for a segment's completion once a later segment exists.
        pause: Seconds before corrupt bytes are read again.
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
    pause: float = 0.5
    _reached: dict[int, int] = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)
    _followed_since: dict[int, float] = field(default_factory=dict)
    _corrupt: dict[int, int] = field(default_factory=dict)
    _emitted: dict[str, int] = field(default_factory=dict)
    _told_at: float = 0.0

    def round(self, emit: Emit, stop: Event) -> bool:
        """Emit everything readable now; return whether anything was new.
        Raises `LostError` if a segment disappeared before all of it was read, `TransientError` if the reader ended or the node is
        needed and does not answer.
        """
        found = segments_in(self.folder)
        self._check_gone(found)
        self._done &= {segment.id for segment in found}
        unread = [segment for segment in found if segment.id not in self._done]
        for segment in unread:
            if segment.limit is not None:
                self._reached.setdefault(segment.id, self._start(segment))  # so that it is missed even before its turn
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
                continue  # the segment has no tracked mutation
            if segment.limit is None and not ends:
                break
            was_new |= self._segment(segment, ends=ends, emit=emit)
            if not ends:
                break  # later segments wait until this one is whole
        return was_new

    def _start(self, segment: Segment) -> int:
        """Return where to begin: after what this run has read, or else after what all tables had landed before it."""
        if segment.id in self._reached:
            return self._reached[segment.id]
        return min((_within(position, segment.id) for position in self.landed.values()), default=0)

    def _is_abandoned(self, segment: Segment) -> bool:
        """Return whether the node stopped while it wrote this segment, and has begun another since."""
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
        passes_over, as_lines = False, False
        while True:
            try:
                ended = self._emit_range(segment, start, limit, passes_over=passes_over, as_lines=as_lines, emit=emit)
            except MalformedEventError:
                # reading as lines finds the event with the bad value, which goes to its table's quarantine
                as_lines = True
                self.reader.start()
                self.push()
                continue
            start = self._reached[segment.id] = max(start, ended.position)
            if ends and not ended.why and ended.mutations == start == 0 and segment.limit:
                # Cassandra's reader silently skips a segment with an unreadable header
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
        """Ask for the schema again because of an unknown table id; skip mutations only if the node says the table is gone."""
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
            # the node wrote the mutation, so it had the table then; it has dropped it since
            self.gone.append(unknown)
            self.log.warning(
                f"table id {unknown} has mutations here, and the node no longer has it: the table was dropped, so no read shows "
                "anything of it; its mutations are passed over",
                table_id=str(unknown),
            )
        self.push()

    def _emit_unreadable(self, segment: Segment, at: int, reason: str, emit: Emit, *, content: bytes = b"") -> None:
        """Emit unreadable content for quarantine: to the table of the mutation `content`, or to all if that is unknown."""
        # a mutation of one update has a count of one byte, then the table's id
        is_of_one = len(content) >= 17 and content[0] == 1
        table = self.schemas.current.ids.get(UUID(bytes=content[1:17])) if is_of_one else None
        for name in self.names:
            if table is None or table.full_name == name:
                keyspace, _, short = name.partition(".")
                said = {"format": "cassandra-mutation/1", "node": self.node, "segment": segment.id, "position": at}
                said |= {"keyspace": keyspace, "table": short, "unreadable": {"reason": reason, "bytes": content.hex()}}
                emit(Emitted(name, self.stream, Position(segment.id, at), json.dumps(said).encode(), segment.synced))

    def _is_corrupt(self, segment: Segment, ended: Ended) -> bool:
        """Return whether bytes stay wrong when read again: bytes that are being written may look wrong for a moment."""
        self._check_gone(segments_in(self.folder))
        tries = self._corrupt[segment.id] = self._corrupt.get(segment.id, 0) + 1
        if tries >= _TRIES:
            return True
        if tries == 1:
            self.log.warning(f"{segment.log.name} after {ended.position}: {ended.reason}; read again", segment=segment.id)
        time.sleep(self.pause)
        return False

    def _give_up(self, segment: Segment, position: int, reason: str, emit: Emit) -> None:
        """Skip the rest of a segment that stays unreadable: keep a copy, and report it in each table's quarantine."""
        kept = set_aside(segment.log, self.aside)
        reason = f"{segment.log.name} cannot be read after {position}: {reason}; a copy is kept: {kept}"
        self.log.warning(f"{reason}. Other replicas have what it held; repair this node's tables", segment=segment.id)
        self._emit_unreadable(segment, WHOLE - 1, reason, emit)
        self._reached[segment.id] = WHOLE

    def _tell_idle(self, segment: Segment, emit: Emit) -> None:
        """Now and then record progress for tables without writes: else a restart rereads everything after their last event."""
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
