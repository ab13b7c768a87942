"""A node's schema: table ids, columns with the dropped ones and their times, types; as CQL that makes the same again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple
from uuid import UUID

from cdc_views.errors import UsageError

_NAME = re.compile(r'"((?:[^"]|"")*)"|(\w+)')
_KINDS = {"partition_key": 0, "clustering": 1, "static": 2, "regular": 3}


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """A column as system_schema has it; `kind` is partition_key, clustering, static or regular."""

    name: str
    type: str
    kind: str = "regular"
    position: int = -1
    descending: bool = False

    @property
    def cql(self) -> str:
        """Its place in a CREATE TABLE."""
        return f"{quoted(self.name)} {self.type}{' static' if self.kind == 'static' else ''}"


@dataclass(frozen=True, slots=True)
class NodeDrop:
    """A dropped column; `at` is µs since the epoch."""

    column: NodeColumn
    at: int


class Logged(NamedTuple):
    """When the settings that bring a table into the log were last written, and what else was written with them.

    Attributes:
        cdc_at: Of its `cdc` (µs); any ALTER TABLE writes it.
        altered_at: Of its newest column or drop (µs): the same as `cdc_at` where the last ALTER TABLE was of columns.
        durable_at: Of its keyspace's `durable_writes` (µs); any DDL in the keyspace writes it.
        newest_at: Of the newest CREATE or ALTER TABLE in the keyspace (µs): the same as `durable_at` where the last DDL was one.
    """

    cdc_at: int
    altered_at: int
    durable_at: int
    newest_at: int = 0


@dataclass(frozen=True, slots=True)
class NodeTable:
    """A table, or a materialized view, which has an id as well.

    Attributes:
        is_compact: Of COMPACT STORAGE.
        is_durable: `durable_writes` of its keyspace: False where nothing of it is in any commit log.
        logged: What says whether it was logged all the time, see `Logged`; None: not known.
    """

    keyspace: str
    name: str
    id: UUID
    has_cdc: bool = False
    columns: tuple[NodeColumn, ...] = ()
    dropped: tuple[NodeDrop, ...] = ()
    is_compact: bool = False
    is_durable: bool = True
    logged: Logged | None = None

    @property
    def is_logged(self) -> bool:
        """Whether what is written to it comes to `cdc_raw`."""
        return self.has_cdc and self.is_durable

    @property
    def full_name(self) -> str:
        """Keyspace and name, as a project file has it."""
        return f"{self.keyspace}.{self.name}"

    @property
    def cql(self) -> tuple[str, ...]:
        """Statements that make it, with its id and its dropped columns."""
        return (self._create(), *(text for drop in self.dropped for text in self._drop(drop)))

    @property
    def place(self) -> str:
        """Its quoted name."""
        return quoted(self.keyspace, self.name)

    def _create(self) -> str:
        gone = {drop.column.name: drop.column for drop in self.dropped}
        columns = [gone.pop(column.name, column) for column in self.columns] + list(gone.values())
        columns.sort(key=lambda column: (_KINDS.get(column.kind, 9), column.position))
        partition = ", ".join(quoted(c.name) for c in columns if c.kind == "partition_key")
        clustering = [c for c in columns if c.kind == "clustering"]
        key = "".join(f", {quoted(c.name)}" for c in clustering)
        order = ", ".join(f"{quoted(c.name)} {'DESC' if c.descending else 'ASC'}" for c in clustering)
        return (
            f"CREATE TABLE {self.place} ({', '.join(c.cql for c in columns)}, PRIMARY KEY (({partition}){key})) "
            f"WITH ID = {self.id}"
            + (f" AND CLUSTERING ORDER BY ({order})" if clustering else "")
            + (" AND cdc = true;" if self.has_cdc else ";")
        )

    def _drop(self, drop: NodeDrop) -> list[str]:
        name = drop.column.name
        made = [f"ALTER TABLE {self.place} DROP {quoted(name)} USING TIMESTAMP {drop.at};"]
        return made + [f"ALTER TABLE {self.place} ADD {column.cql};" for column in self.columns if column.name == name]


@dataclass(frozen=True, slots=True)
class NodeType:
    """A user type: its fields' names and types."""

    keyspace: str
    name: str
    fields: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        """Its quoted name."""
        return quoted(self.keyspace, self.name)

    @property
    def cql(self) -> str:
        """The statement that makes it."""
        return f"CREATE TYPE {self.place} ({', '.join(f'{quoted(name)} {kind}' for name, kind in self.fields)});"

    @property
    def names_used(self) -> set[str]:
        """Every name in its fields' types, user types' among them."""
        return {(a.replace('""', '"') or b) for _, kind in self.fields for a, b in _NAME.findall(kind)}


class Definition(NamedTuple):
    """Statements that are taken together or not at all; `name` is for messages."""

    name: str
    cql: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeSchema:
    """All tables of a node by id, and the definitions of the keyspaces that matter.

    Attributes:
        version: Differs once anything has changed.
        ids: Every table the node has, by id; the tables of other keyspaces without columns.
        types: User types of the keyspaces that matter.
        definitions: CQL that makes these keyspaces.
    """

    version: str
    ids: Mapping[UUID, NodeTable]
    types: tuple[NodeType, ...] = ()
    definitions: tuple[Definition, ...] = ()

    def table(self, full_name: str) -> NodeTable | None:
        """Return the table of that name; None where the node has none."""
        return next((table for table in self.ids.values() if table.full_name == full_name), None)


def schema_of(version: str, tables: Sequence[NodeTable], types: Sequence[NodeType], keyspaces: Iterable[str]) -> NodeSchema:
    """Return the schema, with definitions of these keyspaces: a mutation may hold updates of several of its tables."""
    wanted = sorted(set(keyspaces))
    definitions = [_keyspace(name) for name in wanted]
    definitions += [Definition(kind.place, (kind.cql,)) for kind in _ordered(types)]
    definitions += [Definition(table.full_name, table.cql) for table in tables if table.keyspace in wanted]
    return NodeSchema(version, {table.id: table for table in tables}, tuple(types), tuple(definitions))


def _keyspace(name: str) -> Definition:
    # how it is replicated does not matter to a reader, and its data centers are not known to one
    options = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    return Definition(name, (f"CREATE KEYSPACE {quoted(name)} WITH replication = {options};",))


def _ordered(types: Sequence[NodeType]) -> list[NodeType]:
    """Types after those they use."""
    known = {kind.place: kind for kind in sorted(types, key=lambda kind: kind.place)}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for kind in known.values():
        used = sorted(quoted(kind.keyspace, name) for name in kind.names_used - {kind.name})
        sorter.add(kind.place, *(place for place in used if place in known))
    return [known[place] for place in sorter.static_order()]


def quoted(*names: str) -> str:
    """Return a name, or a name within others, as CQL takes it whatever is in it."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


_STATEMENT = re.compile(r"""(?:[^;'"]|'(?:[^']|'')*'|"(?:[^"]|"")*")+""")
_PLACE = r'((?:"(?:[^"]|"")*"|\w+)\.(?:"(?:[^"]|"")*"|\w+))'
_MADE = re.compile(rf"\s*(CREATE|ALTER)\s+(TABLE|TYPE)\s+(?:IF\s+NOT\s+EXISTS\s+)?{_PLACE}", re.IGNORECASE)
_KNOWN = re.compile(r"^-- known: ([0-9a-f-]{36})$", re.MULTILINE)
_ID = re.compile(r"\bID\s*=\s*([0-9a-f-]{36})", re.IGNORECASE)


def schema_of_text(text: str, where: str) -> NodeSchema:
    """Return the schema that `DESCRIBE KEYSPACE … WITH INTERNALS` printed.

    A line `-- known: <table id>` is about a table of another keyspace, whose mutations are passed over.

    Raises:
        UsageError: A table has no id, or there is no table.
    """
    ids: dict[UUID, NodeTable] = {}
    parts: dict[str, list[str]] = {}
    keyspaces: set[str] = set()
    for statement in _STATEMENT.findall(text.replace("\n--\n", "\n")):
        made = _MADE.match(statement)
        if made is None:
            continue
        keyspace, name = (a.replace('""', '"') or b for a, b in _NAME.findall(made[3]))
        keyspaces.add(keyspace)
        parts.setdefault(made[3], []).append(statement.strip() + ";")
        if (made[1].upper(), made[2].upper()) == ("CREATE", "TABLE"):
            found = _ID.search(statement)
            if found is None:
                raise UsageError(f"{where}: table {keyspace}.{name} has no `WITH ID = …`; take it from DESCRIBE … WITH INTERNALS")
            ids[UUID(found[1])] = NodeTable(keyspace, name, UUID(found[1]), has_cdc=True)
    if not ids:
        raise UsageError(f"{where}: has no CREATE TABLE with keyspace and id; take it from DESCRIBE KEYSPACE … WITH INTERNALS")
    ids |= {UUID(i): NodeTable("", i, UUID(i)) for i in _KNOWN.findall(text)}
    definitions = [_keyspace(name) for name in sorted(keyspaces)]
    definitions += [Definition(place, tuple(cql)) for place, cql in parts.items()]
    return NodeSchema(str(hash(text)), ids, (), tuple(definitions))
