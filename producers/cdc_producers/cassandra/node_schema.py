"""A node's schema: table ids, columns, dropped columns with their times, types; and the CQL that recreates it."""

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
    """A column as in system_schema; `kind` is partition_key, clustering, static or regular."""

    name: str
    type: str
    kind: str = "regular"
    position: int = -1
    descending: bool = False

    @property
    def cql(self) -> str:
        """The column in a CREATE TABLE."""
        return f"{quoted(self.name)} {self.type}{' static' if self.kind == 'static' else ''}"


@dataclass(frozen=True, slots=True)
class NodeDrop:
    """A dropped column; `at` is µs since the epoch."""

    column: NodeColumn
    at: int


class Logged(NamedTuple):
    """When the settings that bring a table into the log were last written, and the times of writes to compare with (µs).

    Attributes:
        cdc_at: The table's `cdc`; any ALTER TABLE writes it.
        altered_at: Its newest column or drop: equals `cdc_at` if the last ALTER TABLE changed columns.
        durable_at: Its keyspace's `durable_writes`; any DDL in the keyspace writes it.
        newest_at: The newest CREATE or ALTER TABLE in the keyspace: equals `durable_at` if the last DDL was one.
    """

    cdc_at: int
    altered_at: int
    durable_at: int
    newest_at: int = 0


@dataclass(frozen=True, slots=True)
class NodeTable:
    """A table or materialized view. `is_durable` is its keyspace's `durable_writes`: if False, no commit log has its writes.
    `logged` shows whether the table was always logged; None if unknown.
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
        """Whether its writes come to `cdc_raw`."""
        return self.has_cdc and self.is_durable

    @property
    def full_name(self) -> str:
        """Keyspace and name, as in a project file."""
        return f"{self.keyspace}.{self.name}"

    @property
    def cql(self) -> tuple[str, ...]:
        """Statements that recreate the table with its id and dropped columns."""
        return (self._create(), *(text for drop in self.dropped for text in self._drop(drop)))

    @property
    def place(self) -> str:
        """The quoted name."""
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
    """A user type with the names and types of its fields."""

    keyspace: str
    name: str
    fields: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        """The quoted name."""
        return quoted(self.keyspace, self.name)

    @property
    def cql(self) -> str:
        """The statement that recreates the type."""
        return f"CREATE TYPE {self.place} ({', '.join(f'{quoted(name)} {kind}' for name, kind in self.fields)});"

    @property
    def names_used(self) -> set[str]:
        """Every name in the types of its fields, which includes user types."""
        return {(a.replace('""', '"') or b) for _, kind in self.fields for a, b in _NAME.findall(kind)}


class Definition(NamedTuple):
    """Statements that are applied together or not at all; `name` is for messages."""

    name: str
    cql: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeSchema:
    """All tables of a node by id, without columns in unwanted keyspaces; types and CQL `definitions` of the wanted ones.
    `version` differs after any change.
    """

    version: str
    ids: Mapping[UUID, NodeTable]
    types: tuple[NodeType, ...] = ()
    definitions: tuple[Definition, ...] = ()

    def table(self, full_name: str) -> NodeTable | None:
        """Return the table of that name; None if the node has none."""
        return next((table for table in self.ids.values() if table.full_name == full_name), None)


def schema_of(version: str, tables: Sequence[NodeTable], types: Sequence[NodeType], keyspaces: Iterable[str]) -> NodeSchema:
    """Return the schema with definitions of whole keyspaces, because a mutation may update several tables of one."""
    wanted = sorted(set(keyspaces))
    definitions = [_keyspace(name) for name in wanted]
    definitions += [Definition(kind.place, (kind.cql,)) for kind in _ordered(types)]
    definitions += [Definition(table.full_name, table.cql) for table in tables if table.keyspace in wanted]
    return NodeSchema(version, {table.id: table for table in tables}, tuple(types), tuple(definitions))


def _keyspace(name: str) -> Definition:
    # a reader does not need the replication, and cannot know the data centers
    options = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    return Definition(name, (f"CREATE KEYSPACE {quoted(name)} WITH replication = {options};",))


def _ordered(types: Sequence[NodeType]) -> list[NodeType]:
    """Sort types after the types that they use."""
    known = {kind.place: kind for kind in sorted(types, key=lambda kind: kind.place)}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for kind in known.values():
        used = sorted(quoted(kind.keyspace, name) for name in kind.names_used - {kind.name})
        sorter.add(kind.place, *(place for place in used if place in known))
    return [known[place] for place in sorter.static_order()]


def quoted(*names: str) -> str:
    """Return a name, or nested names, quoted for CQL."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


_STATEMENT = re.compile(r"""(?:[^;'"]|'(?:[^']|'')*'|"(?:[^"]|"")*")+""")
_PLACE = r'((?:"(?:[^"]|"")*"|\w+)\.(?:"(?:[^"]|"")*"|\w+))'
_MADE = re.compile(rf"\s*(CREATE|ALTER)\s+(TABLE|TYPE)\s+(?:IF\s+NOT\s+EXISTS\s+)?{_PLACE}", re.IGNORECASE)
_KNOWN = re.compile(r"^-- known: ([0-9a-f-]{36})$", re.MULTILINE)
_ID = re.compile(r"\bID\s*=\s*([0-9a-f-]{36})", re.IGNORECASE)


def schema_of_text(text: str, where: str) -> NodeSchema:
    """Return the schema in the output of `DESCRIBE KEYSPACE … WITH INTERNALS`.
    A line `-- known: <table id>` names a table of another keyspace, whose mutations are skipped.
    Raises `UsageError` if a table has no id or there is no table.
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
