"""The Cassandra source: one node's commit log, as events of the format `cassandra-mutation`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from uuid import NAMESPACE_OID, UUID, uuid5

from cdc_producers.cassandra import schema_file
from cdc_producers.cassandra.columns import ColumnPlan
from cdc_producers.cassandra.following import Follower, Landmark
from cdc_producers.cassandra.gaps import Gaps
from cdc_producers.cassandra.kept_events import KeptEvents
from cdc_producers.cassandra.lists import OldLists, lists_of
from cdc_producers.cassandra.node import Node, NodeFacts
from cdc_producers.cassandra.node_schema import NodeSchema, NodeTable
from cdc_producers.cassandra.options import CassandraOptions, SnapshotMode
from cdc_producers.cassandra.reader import CommitLogReader
from cdc_producers.cassandra.same_tables import SameTables
from cdc_producers.cassandra.schemas import Schemas
from cdc_producers.cassandra.segments import AfterLanding
from cdc_producers.metrics import Health
from cdc_producers.source import Emit, Emitted, Source, SourceStatus
from cdc_views.errors import TransientError, UsageError
from cdc_views.landing import Position
from cdc_views.landing.raw_table import another_raw
from cdc_views.landing.targets import ProducerLog, StreamTarget

_WATCH_EVERY = 1.0
_OLDEST = 4
"""In earlier versions, segments came to cdc_raw only after their tables were flushed, and without an index."""


@dataclass
class CassandraSource(Source):
    """A node's `cdc_raw` as a source. The snapshot beside it uses its `gaps` and `lists`."""

    targets: Mapping[str, StreamTarget]
    options: CassandraOptions
    log: ProducerLog
    health: Health
    gaps: Gaps = field(init=False)
    lists: OldLists = field(init=False)
    _work: _Work | None = None

    def __post_init__(self) -> None:
        folder, takes_snapshots = self.options.work_folder, self.options.snapshot is SnapshotMode.INITIAL
        self.gaps = Gaps(folder, self.log, self.health, takes_snapshots=takes_snapshots, names=self.targets, anew=self._anew)
        self.lists = OldLists(folder)

    def _anew(self, name: str) -> str:
        if self.targets[name].raw is not None:
            return another_raw(name)
        return f"publish {name} under another --topic-prefix, and land that topic in a new raw table"

    def run(self, emit: Emit, stop: Event) -> None:
        self.close()
        options = self.options
        keyspaces = frozenset(target.schema.keyspace for target in self.targets.values())
        schemas = Schemas(Node(options.host, options.port), keyspaces, options.work_folder, options.schema_file, self.log)
        facts = schemas.open()
        try:
            self._work = work = self._begun(schemas, facts)
            work.reader.start()
        except BaseException:
            schemas.node.close()
            raise
        work.push()
        folder = work.follower.folder
        self.log.info(f"following {folder}", folder=str(folder), node=facts.address)
        work.follow(emit, stop)

    def _begun(self, schemas: Schemas, facts: NodeFacts) -> _Work:
        options, log, health, stream = self.options, self.log, self.health, f"cassandra:{facts.host_id}"
        landed = [name for name, target in self.targets.items() if target.lander(stream).position() is not None]
        same = SameTables(options.work_folder, landed, log, health, self._anew)
        _check_node(facts, options.host, log)
        for name in self.targets:
            # a table that was followed before is set aside later, and the others go on
            refusal = _refusal(name, schemas.current.table(name))
            if refusal and not same.was_followed(name):
                raise UsageError(refusal)
        self._pass_over_truncated(schemas, stream)
        reader = CommitLogReader(options, facts.address, log)
        follower = Follower(
            folder=self._folder(facts),
            node=facts.address,
            names=list(self.targets),
            landed={name: target.lander(stream).position() for name, target in self.targets.items()},
            stream=stream,
            reader=reader,
            schemas=schemas,
            push=lambda: self._work.push() if self._work is not None else None,
            aside=options.work_folder / "aside",
            log=log,
        )
        after = AfterLanding(options.after, options.archive, facts.host_id, log, health, options.work_folder)
        aside = KeptEvents(options.work_folder, self.targets, log, health)
        return _Work(self, schemas, reader, follower, after, same, aside)

    def _pass_over_truncated(self, schemas: Schemas, stream: str) -> None:
        """Begin behind a table's TRUNCATE, as the node does when it replays its log."""
        for name, target in self.targets.items():
            table, lander = schemas.current.table(name), target.lander(stream)
            found = None if table is None else schemas.truncated.get(table.id)
            if found is not None:
                # has no effect if the table has landed further; a commit of its own, so that the next batch is cut there
                lander.land([], through=Position(found.segment, found.position), now=datetime.now(timezone.utc))

    def _folder(self, facts: NodeFacts) -> Path:
        given = self.options.cdc_folder or (Path(facts.cdc_folder) if facts.cdc_folder else None)
        if given is None:
            raise UsageError("the node does not tell where cdc_raw is; name it with --cdc-folder")
        if not given.is_dir():
            raise TransientError(f"{given}: is no folder here; run the agent on the node's machine, or name it with --cdc-folder")
        return given

    def keep_alive(self) -> None:
        if self._work is not None:
            self._work.act()  # while the target is slow or away, the folder fills

    def landed(self, token: object) -> None:
        if isinstance(token, Landmark) and self._work is not None:
            self._work.landed.append(token)

    def status(self) -> SourceStatus:
        work = self._work
        if work is None:
            return SourceStatus()
        facts = work.schemas.facts
        limit = None if facts is None else facts.total_space or None
        return SourceStatus(work.read_to, work.follower.behind, work.held, work.heard, held_limit_bytes=limit)

    def close(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.close()


@dataclass
class _Work:
    source: CassandraSource
    schemas: Schemas
    reader: CommitLogReader
    follower: Follower
    after: AfterLanding
    same: SameTables
    aside: KeptEvents
    landed: deque[Landmark] = field(default_factory=deque)
    read_to: str = ""
    heard: float = 0.0
    held: int = 0
    _emitted: deque[Landmark] = field(default_factory=deque)
    _watched: float = 0.0
    _pushed: list[object] = field(default_factory=list)
    _emit: Emit | None = None
    _lists: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def push(self) -> None:
        """Give the reader the current schema, after updating the project's files: they must have all columns of events."""
        source, schema = self.source, self.schemas.current
        self._pushed = self._versions
        troubles = self._troubles(schema)
        wanted: list[UUID] = []
        plans: list[ColumnPlan | None] = []
        for name, target in source.targets.items():
            table = schema.table(name)
            # no table has this id, but each table's number is its index
            wanted.append(uuid5(NAMESPACE_OID, name) if table is None else table.id)
            raw = None if name in troubles else target.lander(self.follower.stream).raw
            lists = lists_of(target.schema)
            since = source.lists.newest(name) if lists else 0
            # policies are applied to events, not to rows that the reader made
            makes_rows = raw is not None and target.format.redaction is None
            plans.append(None if raw is None or not makes_rows else ColumnPlan(raw.relation, self.follower.node, since))
            self._lists[name] = lists if since else ()
        self.reader.take(schema, wanted, plans=plans, passed_over=self.follower.gone)
        source.gaps.aside = frozenset(troubles)
        source.gaps.look(schema, [name for name in source.targets if name not in troubles], unseen=self.schemas.unseen)
        self.aside.set(troubles, self._emit)

    def _troubles(self, schema: NodeSchema) -> dict[str, str]:
        """Return what is wrong with tables; raises `UsageError` for one that no agent has followed yet."""
        troubles: dict[str, str] = {}
        for name, target in self.source.targets.items():
            trouble = self._trouble(target, schema)
            if trouble and not self.same.was_followed(name):
                raise UsageError(trouble)
            if trouble:
                troubles[name] = trouble
        places = {name: target.place for name, target in self.source.targets.items()}
        return {**self.same.check(schema, places, self.schemas.truncated), **troubles}

    def _trouble(self, target: StreamTarget, schema: NodeSchema) -> str:
        """Update a table's schema file from the node; return why its events cannot land, or ""."""
        table = schema.table(target.name)
        if table is None or table.is_compact:
            return _refusal(target.name, table)
        try:
            if table.columns:
                schema_file.follow(target, table, schema.types, mode=self.source.options.follow_schema, log=self.source.log)
        except UsageError as error:
            return str(error)
        return ""

    @property
    def _versions(self) -> list[object]:
        """Versions of what rows depend on: the project's files and the known lists."""
        return [self.source.lists.version, *(target.version() for target in self.source.targets.values())]

    def follow(self, emit: Emit, stop: Event) -> None:
        """Emit the folder's events until `stop` is set."""

        def note(item: Emitted) -> None:
            if item.table in self.aside.troubles:
                self.aside.keep(item)
                return
            if isinstance(item.token, Landmark):
                self.aside.sync()
                self.read_to = f"{item.token.segment}:{item.token.position}"
                self._emitted.append(item.token)
            looked_at(item)

        def looked_at(item: Emitted) -> None:
            """Emit an event, kept earlier or not, after checking its lists."""
            if isinstance(item.content, bytes) and self._lists.get(item.table):
                self._note_lists(item.table, item.content)
            emit(item)

        self._emit = looked_at
        self.aside.give_back(looked_at)
        while not stop.is_set():
            truncated = self.schemas.truncated
            if self.schemas.look() or self._versions != self._pushed or self.schemas.truncated != truncated:
                self.push()
            self.source.health.set("node", self.schemas.trouble)
            was_new = self.follower.round(note, stop)
            self.heard = time.time()
            self.act()
            if not was_new:
                stop.wait(self.source.options.poll_seconds)

    def _note_lists(self, name: str, content: bytes) -> None:
        source = self.source
        source.lists.note(name, self._lists[name], content)
        if source.options.snapshot is not SnapshotMode.INITIAL and source.lists.is_waiting():
            source.health.set(
                f"lists of {name}",
                f"{name}: the log has old elements of lists that a snapshot told; these rows have to be read again: start "
                "without --snapshot never",
            )

    def act(self) -> None:
        """Act on segments that have landed, and check how full the folder is."""
        while self.landed:
            through = self.landed.popleft()
            # compare places, because what lands may have been emitted before the reader was restarted
            while self._emitted and self._emitted[0][:2] <= through[:2]:
                landmark = self._emitted.popleft()
                if landmark.is_done:
                    self.after.add(landmark.log)
        self.after.run()
        self.aside.forget_landed()
        facts = self.schemas.facts
        if facts is not None and time.monotonic() - self._watched > _WATCH_EVERY:
            self._watched = time.monotonic()
            self.source.lists.refresh()
            self.held = self.after.watch(self.follower.folder, facts.total_space, self.source.options.warns_at)

    def close(self) -> None:
        """Act on landed segments, and release the node and the reader."""
        self.act()
        self.aside.close()
        self.reader.close()
        self.schemas.node.close()


def _check_node(facts: NodeFacts, host: str, log: ProducerLog) -> None:
    if facts.version and int(facts.version.partition(".")[0]) < _OLDEST:
        raise UsageError(
            f"the node at {host} is Cassandra {facts.version}: its log cannot be followed while it is written; "
            f"{_OLDEST}.0 or newer was expected"
        )
    if not facts.has_cdc:
        raise UsageError(f"the node at {host} has cdc_enabled: false; set it true in cassandra.yaml and restart the node")
    if not facts.blocks_writes:
        log.warning("cdc_block_writes is false: the node deletes segments that have not landed once cdc_total_space is full")
    if not facts.logs_repair:
        log.warning(
            "cdc_on_repair_enabled is false: what a repair streams to this node is in no commit log, so it is missing here "
            "unless another replica's agent had it"
        )


def _refusal(name: str, found: NodeTable | None) -> str:
    """Return why a table cannot be followed, or ""."""
    if found is None:
        return f"the node has no table {name}; correct the project file, or create the table"
    if not found.has_cdc:
        return f"{name} has no CDC: its changes are not in cdc_raw; ALTER TABLE {name} WITH cdc = true"
    if not found.is_durable:
        return (
            f"{name}: keyspace {found.keyspace} has durable_writes = false: its changes are in no commit log; ALTER KEYSPACE "
            f"{found.keyspace} WITH durable_writes = true"
        )
    if found.is_compact:
        return (
            f"{name} is of COMPACT STORAGE: its log has other columns than CQL shows; ALTER TABLE {name} DROP COMPACT "
            "STORAGE, and take the schema file from DESCRIBE TABLE"
        )
    return ""
