"""The snapshot of a Cassandra table: every row, with write times and expiries of its cells, by token range.

Run it beside the commit log's reader, or before it once the log is kept: changes during the snapshot come from the log, and
the two merge by write time. A stopped snapshot continues at its last partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from threading import Event

from cdc_producers.cassandra.gaps import Gaps
from cdc_producers.cassandra.lists import ListRow, OldLists, lists_of
from cdc_producers.cassandra.options import SnapshotOptions
from cdc_producers.cassandra.snapshot_events import SnapshotEventWriter
from cdc_producers.cassandra.snapshot_query import FIRST_TOKEN, WHOLE, RawRow, RingPosition, Selection, remaining, split
from cdc_producers.cassandra.snapshot_reading import Page, SnapshotReader, list_event
from cdc_producers.metrics import Metrics
from cdc_producers.source import Emit, Emitted, Source, SourceStatus
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget, shown_nowhere
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import ListOf

_REREAD = "lists:"
_EVENT_ROWS = 100
"""The most rows of a partition in one event."""


@dataclass
class SnapshotSource(Source):
    """Snapshots of tables that have no whole one. `run` returns once all are whole (`is_whole`); `standing` is the progress."""

    targets: Mapping[str, StreamTarget]
    options: SnapshotOptions
    log: ProducerLog
    metrics: Metrics
    gaps: Gaps
    lists: OldLists
    progress: SnapshotProgress = shown_nowhere
    is_whole: bool = False
    begun: int = field(default_factory=lambda: time.time_ns() // 1000)
    standing: SourceStatus = field(default_factory=SourceStatus)
    _readings: dict[str, int] = field(default_factory=dict)
    _emitted_whole: set[tuple[str, str, str]] = field(default_factory=set)
    _host_id: str = ""
    _since: dict[str, int] = field(default_factory=dict)
    _rereading: list[tuple[ListRow, float, Position]] = field(default_factory=list)

    def run(self, emit: Emit, stop: Event) -> None:
        if not self.is_whole:
            with SnapshotReader.connected(self.options) as reader:
                self._host_id = reader.host_id
                self._tell_lists(reader)
                for name in self.targets:
                    if not stop.is_set() and self._is_needed(name):
                        self._read(reader, name, emit, stop)
            self.is_whole = not stop.is_set()

    def _tell_lists(self, reader: SnapshotReader) -> None:
        """Note up to when lists are emitted, before the log goes on: the snapshot may hide older events of them in the log."""
        for name, target in self.targets.items():
            if reader.tells_elements and lists_of(target.schema):
                if self._is_needed(name):
                    self.lists.tell(name, self.log_since(name))
                elif not self.lists.is_known(name):  # its snapshot is by an agent that did not record this
                    self.lists.tell(name, self.begun)

    def read_lists_again(self, emit: Emit) -> None:
        """Read again the lists for which the log has shown something old; see `lists`."""
        self._note_reread()
        under_way = {row for row, _, _ in self._rereading}
        rows = [row for row in self.lists.due() if row.name in self.targets and row not in under_way]
        rows = [row for row in rows if not self.gaps.holds_back(row.name)]
        if not rows:
            return
        with SnapshotReader.connected(self.options) as reader:
            self._host_id = reader.host_id
            stream, segment = _REREAD + self._host_id, time.time_ns() // 1_000_000
            for number, row in enumerate(rows):
                found_before, position = time.time(), Position(segment, number)
                content, until = list_event(reader, self.targets[row.name].schema, row, node=stream, position=position)
                self.lists.replacing([row], until)
                emit(Emitted(row.name, stream, position, content))
                self._rereading.append((row, found_before, position))
            self.log.info(
                f"lists of {len(rows):,} rows were read again: the log had elements of theirs that are older than the snapshot",
                rows=len(rows),
            )

    def _note_reread(self) -> None:
        stream, waiting = _REREAD + self._host_id, []
        landed = {name: self.targets[name].lander(stream).position() for name in {row.name for row, _, _ in self._rereading}}
        for row, found_before, position in self._rereading:
            through = landed[row.name]
            if through is None or through < position:
                waiting.append((row, found_before, position))
            else:
                self.lists.landed(row, found_before)
        self._rereading = waiting

    def look(self) -> None:
        """Note repeated snapshots that have landed, and update `is_whole`."""
        for name in self.gaps.due():
            if name in self.targets and self._host_id and self._landed(name) == WHOLE:
                self.gaps.taken(name)
        self.is_whole = self.is_whole and not any(self._is_needed(name) for name in self.targets)

    def _is_needed(self, name: str) -> bool:
        if self.gaps.holds_back(name) or self._key(name) in self._emitted_whole:
            return False
        if self._landed(name) != WHOLE:
            return True
        self._emitted_whole.add(self._key(name))
        if not self.options.own_ranges:
            what = "nothing is read, as a whole snapshot has landed in this raw table"
            self.log.warning(f"{name}: {what}; to read it again, {self.gaps.anew(name)}", table=name)
        return False

    def _key(self, name: str) -> tuple[str, str, str]:
        """Return what identifies a whole snapshot: another raw table needs another snapshot."""
        return name, self.stream_of(name), self.targets[name].place

    def _read(self, reader: SnapshotReader, name: str, emit: Emit, stop: Event) -> None:
        is_first, key = not self.gaps.retake(name), self._key(name)
        if is_first and self.options.passes_over_logged and reader.is_logged_whole(self.targets[name].schema):
            self.lists.tell(name, 0)
            self.log.info(
                f"{name}: no snapshot: it has had CDC since it was created, and this agent has let no segment go yet, so the log "
                "has everything; where something else deleted segments of the log, run this once with --snapshot only",
                table=name,
            )
        else:
            _TableSnapshot(self, reader, name, emit, stop).read()
        if not stop.is_set():
            for stream in sorted({self._first_stream, key[1]}):  # a repeated one of a new raw table is its first one, too
                emit(Emitted(name, stream, WHOLE))
            self._emitted_whole.add(key)

    def status(self) -> SourceStatus:
        return self.standing

    def next_reading(self, name: str) -> tuple[RingPosition | None, int]:
        """Return where a table's snapshot continues, and a number above those of its earlier readings."""
        landed = self._landed(name)
        place = None if landed is None else RingPosition.of(landed)
        reading = max(self._readings.get(name, -1), -1 if place is None else place.reading) + 1
        self._readings[name] = reading
        return place, reading

    def stream_of(self, name: str) -> str:
        """Return the stream of a table's positions."""
        retake = self.gaps.retake(name)
        return f"{self._first_stream}:{retake}" if retake else self._first_stream

    @property
    def _first_stream(self) -> str:
        return f"{self.options.name}:{self._host_id}" if self.options.own_ranges else self.options.name

    def is_again(self, name: str) -> bool:
        """Return whether the first snapshot is whole in this raw table, so that it has what is older than a gap."""
        streams = self.options.name, f"{self.options.name}:{self._host_id}"
        return any(self.targets[name].lander(stream).position() == WHOLE for stream in streams)

    def log_since(self, name: str) -> int:
        """Return from when on (µs) the log has everything of a table; see `SnapshotEventWriter`."""
        if not self.gaps.retake(name):
            return self.begun
        return self._since.setdefault(self.stream_of(name) + name, time.time_ns() // 1000)

    def _landed(self, name: str) -> Position | None:
        return self.targets[name].lander(self.stream_of(name)).position()


@dataclass
class _TableSnapshot:
    source: SnapshotSource
    reader: SnapshotReader
    name: str
    emit: Emit
    stop: Event
    rows: int = 0
    _token: int = FIRST_TOKEN
    _ordinal: int = 0
    _events: int = 0
    _partition: RawRow | None = None

    def read(self) -> None:
        source, name = self.source, self.name
        table = source.targets[name].schema
        place, reading = source.next_reading(name)
        selection = Selection.of(table, tells_elements=self.reader.tells_elements)
        lacks_from, is_again = source.gaps.lacks_from(name), source.is_again(name)
        writer = SnapshotEventWriter(
            selection,
            node=source.stream_of(name),
            segment=time.time_ns() // 1_000_000,
            log_since=source.log_since(name),
            # if the log probably has everything, it also shows which rows were inserted
            marks_rows=source.gaps.is_sure(name) or not is_again,
            lacks_from=lacks_from if lacks_from is None or is_again else 0,
        )
        self._tell_limits(table, place)
        whole = self.reader.ranges()
        done, total = _covered(whole, place), sum(through - after for after, through in whole)
        for page in self.reader.pages(selection, remaining(split(whole, source.options.ranges), place), self.stop):
            self._emit_page(page, writer, reading)
            done = _covered(whole, RingPosition(page.tokens.through)) if page.is_last else done
            self.rows += len(page.rows)
            source.metrics.snapshot_rows(name).inc(len(page.rows))
            source.standing = SourceStatus(f"{name} at token {self._token}", heard=time.time())
            part = done / total
            source.progress(name, done=self.rows, total=int(self.rows / part) if part else None)
        if not self.stop.is_set():
            source.progress(name, done=self.rows, total=self.rows, is_over=True)
            source.log.info(f"{name}: snapshot: read all {self.rows:,} rows", table=name, rows=self.rows)

    def _emit_page(self, page: Page, writer: SnapshotEventWriter, reading: int) -> None:
        """Emit a page's rows grouped by partition; a partition may continue in the next page."""
        for partition, of_partition in groupby(page.rows, writer.partition_of):
            while rows := list(islice(of_partition, _EVENT_ROWS)):
                token = int.from_bytes(rows[0][0] or b"", "big", signed=True)
                is_new, self._partition = partition != self._partition, partition
                self._ordinal = 0 if token != self._token else self._ordinal + 1
                self._token = token
                self._events += 1
                content = writer.event(rows, page.moment, number=self._events, with_static=is_new)
                if writer.lacks_from is not None:
                    self.source.lists.told_again(self.name, writer.selection.table, content, writer.log_since)
                place = RingPosition(token, reading, self._ordinal)
                self.emit(Emitted(self.name, writer.node, place.position, content))

    def _tell_limits(self, table: TableSchema, place: RingPosition | None) -> None:
        log, name = self.source.log, self.name
        log.info(f"{name}: snapshot {'begins' if place is None else 'goes on'} at {self.source.options.consistency}", table=name)
        several = [column for column in (*table.statics, *table.regulars) if column.type.is_multicell]
        if several and not self.reader.tells_elements:
            names = ", ".join(column.name for column in several)
            log.warning(
                f"{name}: this server has no write times of the elements of {names}: they rank below any event", table=name
            )
        lists = ", ".join(column.name for column in several if isinstance(column.type, ListOf))
        if lists:
            log.warning(
                f"{name}: CQL does not tell how the elements of {lists} are identified: where the log has something of an old "
                + ("one, the row's list is read again" if self.reader.tells_elements else "one, views may show it twice"),
                table=name,
            )


def _covered(ranges: Iterable[tuple[int, int]], place: RingPosition | None) -> int:
    """Return how many tokens of the ranges are at or below a place."""
    if place is None:
        return 0
    return sum(max(0, min(through, place.token) - after) for after, through in ranges)
