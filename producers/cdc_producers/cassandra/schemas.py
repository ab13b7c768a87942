"""The schema for reading mutations: follows the node's, and remembers it while the node is away."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from cdc_producers.cassandra.node import Node, NodeFacts, Truncation
from cdc_producers.cassandra.node_schema import Definition, NodeSchema, NodeTable, schema_of_text
from cdc_producers.cassandra.remembered import claim, recall, remember
from cdc_views.errors import TransientError, UsageError
from cdc_views.landing.targets import ProducerLog

_LOOK_EVERY = 1.0
_REMEMBERED = "schema.json"


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The part of a node's schema that reading its segments needs; `ids` has each table's keyspace, name and CDC."""

    facts: NodeFacts
    ids: dict[UUID, tuple[str, str, bool]]
    definitions: tuple[Definition, ...]


@dataclass
class Schemas:
    """The newest known schema of one node, remembered in `folder`.

    Attributes:
        keyspaces: Keyspaces whose mutations are read.
        file: CQL with table ids, used instead of asking the node.
        truncated: The last TRUNCATE of each table by id, as far as the node was asked.
        unseen: Seconds between the node's last two answers about its schema; infinite before the second one.
    """

    node: Node
    keyspaces: frozenset[str]
    folder: Path
    file: Path | None
    log: ProducerLog
    facts: NodeFacts | None = None
    trouble: str = ""
    truncated: dict[UUID, Truncation] = field(default_factory=dict)
    unseen: float = math.inf
    _looked: float = 0.0
    _seen: float = -math.inf
    _known: NodeSchema | None = None

    @property
    def current(self) -> NodeSchema:
        """The schema when last seen; without one, asks as `refresh` does."""
        if self._known is None:
            self.refresh()
        assert self._known is not None
        return self._known

    def open(self) -> NodeFacts:
        """Return the node's facts, remembered ones if it is away; raises `TransientError` if it is away and was never seen."""
        if self.file is not None:
            self.facts = NodeFacts("file", self.node.host, "", 0, has_cdc=True, blocks_writes=True)
            self.refresh()
            return self.facts
        try:
            self.facts = self.node.facts()
            claim(self.folder, self.facts.host_id)
            self.truncated = self.node.truncated()
            self.refresh()
        except TransientError as error:
            found = recall(self.folder / _REMEMBERED, _Remembered)
            if found is None:
                raise
            self.facts = found.facts
            # the version differs from the node's, so that the first contact takes its schema
            ids = {table_id: NodeTable(keyspace, name, table_id, cdc) for table_id, (keyspace, name, cdc) in found.ids.items()}
            self._known = NodeSchema("remembered", ids, (), found.definitions)
            self._away(error)
        return self.facts

    def refresh(self) -> bool:
        """Ask the node; return whether the schema has changed. Raises `TransientError` if the node is away."""
        self._looked = time.monotonic()
        found = self._asked()
        self._note_seen()
        has_changed = found != self._known
        self._known, self.trouble = found, ""
        if has_changed and self.facts is not None and self.file is None:
            ids = {table.id: (table.keyspace, table.name, table.has_cdc) for table in found.ids.values()}
            remember(self.folder / _REMEMBERED, _Remembered(self.facts, ids, found.definitions))
        return has_changed

    def look(self) -> bool:
        """Do as `refresh` about once a second, but only note a node that is away."""
        if time.monotonic() - self._looked < _LOOK_EVERY:
            return False
        self._looked = time.monotonic()
        if self.file is not None:
            return False
        try:
            self.truncated = self.node.truncated()
            if self.node.schema_version() == self.current.version:
                self.trouble = ""
                self._note_seen()
                return False
            return self.refresh()
        except TransientError as error:
            self._away(error)
            return False

    def _note_seen(self) -> None:
        self.unseen, self._seen = time.monotonic() - self._seen, time.monotonic()

    def _asked(self) -> NodeSchema:
        if self.file is None:
            return self.node.schema(self.keyspaces)
        try:
            text = self.file.read_text("utf-8")
        except OSError as error:
            raise UsageError(f"--schema-file {self.file}: {error.strerror}") from error
        return schema_of_text(text, str(self.file))

    def _away(self, error: TransientError) -> None:
        if not self.trouble:
            self.log.warning(f"{error}. Segments are read by the schema as it was last seen", part="node")
        self.trouble = str(error)
