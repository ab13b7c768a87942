"""Table schemas written by hand, in YAML or JSON::

    keyspace: shop                      # default: the project's
    table: orders                       # or `name:`, which may be keyspace.table
    types:                              # user types, in any order
      addr: {street: text, zip: int}
    columns:                            # CQL type text; also datetime, instant, json and decimal(12,4)
      tenant: text
      placed: {type: timestamp, order: desc}
      country: {type: text, role: static}
      total: {type: decimal, description: With tax.}
      ship_to: frozen<addr>
    primary_key: [[tenant], placed]     # as in CQL: (partition columns…), clustering columns…
    dropped:                            # columns dropped in the past (rule W6), at in microseconds
      - {name: old, at: 1700000000000000, type: text}

Instead of `primary_key`: `partition_key: [tenant]` and `clustering_key: [placed]`, or `role: partition` and `role: clustering` on
columns, in key order. Several tables: a list `tables:` of such mappings, which share the `keyspace` and `types` beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import yaml

from cdc_views.errors import SchemaError, did_you_mean
from cdc_views.model.schema import Column, DroppedColumn, Role, TableSchema
from cdc_views.schemas.catalog import Catalog, build_catalog, full_name
from cdc_views.schemas.cql.types import Fields, TypeScope
from cdc_views.schemas.cql.written import WrittenType, read_type_text

_TABLE_KEYS = {"keyspace", "table", "name", "columns", "primary_key", "partition_key", "clustering_key", "types", "dropped"}

_Types = dict[tuple[str, str], Fields]


def read_yaml(text: str, *, keyspace: str = "", where: str = "") -> Catalog:
    """Return the tables of a YAML or JSON schema in the form above, which messages call `where`. `keyspace` is for tables without
    one. Raises `SchemaError` if the text is not YAML, or no mapping with `columns` or `tables`. The catalog's `refused` has the
    errors of single tables, with their lines.
    """
    root = _root(text, where=where)
    if "tables" not in root:
        tables = [_Table(root, keyspace=keyspace, shared={})]
    else:
        root.allow({"keyspace", "types", "tables"})
        shared_keyspace = root.text("keyspace", default=keyspace)
        shared = _types(root, keyspace=shared_keyspace)
        tables = [_Table(part, keyspace=shared_keyspace, shared=shared) for part in root.child("tables").items()]
    return build_catalog({table.full_name: table.schema for table in tables}, where=where)


def _types(place: _Node, *, keyspace: str) -> _Types:
    types = place.child("types").mapping() if "types" in place else {}
    return {
        (keyspace, name): tuple((field, _written(kind)) for field, kind in fields.mapping().items())
        for name, fields in types.items()
    }


def _written(place: _Node) -> WrittenType:
    return read_type_text(place.as_text("a type"), place.where, *place.start)


class _Table:
    def __init__(self, place: _Node, *, keyspace: str, shared: _Types) -> None:
        self._place, self._shared = place, shared
        name = place.text("table" if "table" in place else "name", default="")
        if not name:
            raise place.error("the table has no name; expected `table: …`")
        own, dot, last = name.partition(".")
        self._keyspace = place.text("keyspace", default=own if dot else keyspace)
        self._name = last if dot else name
        self.full_name = full_name(self._keyspace, self._name)

    def schema(self) -> TableSchema:
        self._place.allow(_TABLE_KEYS)
        written = self._shared | _types(self._place, keyspace=self._keyspace)
        scope = TypeScope(self._keyspace, written=written, where=self._place.where, allows_relational=True)
        columns = {name: _column(place, name=name, scope=scope) for name, place in self._place.child("columns").mapping().items()}
        key = self._key(columns)
        others = [column for name, column in columns.items() if name not in {column.name for column in key}]
        dropped = self._place.child("dropped").items() if "dropped" in self._place else []
        return TableSchema(self._keyspace, self._name, (*key, *others), tuple(_dropped(place, scope=scope) for place in dropped))

    def _key(self, columns: Mapping[str, Column]) -> list[Column]:
        """Return the key columns in key order; a table may declare them in any of the three ways."""
        place = self._place
        if "primary_key" in place:
            parts = place.child("primary_key").one_or_more()
            partition, clustering = (parts[0].one_or_more() if parts else []), parts[1:]
        elif "partition_key" in place:
            partition = place.child("partition_key").one_or_more()
            clustering = place.child("clustering_key").one_or_more() if "clustering_key" in place else []
        else:
            return [column for role in (Role.PARTITION, Role.CLUSTERING) for column in columns.values() if column.role is role]
        key = [(name, Role.PARTITION) for name in partition] + [(name, Role.CLUSTERING) for name in clustering]
        return [self._key_column(name, role=role, columns=columns) for name, role in key]

    def _key_column(self, place: _Node, *, role: Role, columns: Mapping[str, Column]) -> Column:
        name = place.as_text("a key column's name")
        if name not in columns:
            raise place.error(f"{self.full_name} has no key column {name!r}{did_you_mean(name, columns)}")
        declared = columns[name]
        if declared.role not in (Role.REGULAR, role):
            raise place.error(f"column {name!r} has `role: {declared.role.value}`, but the key says {role.value}")
        return Column(name, declared.type, role, declared.descending, declared.description)


def _column(place: _Node, *, name: str, scope: TypeScope) -> Column:
    if place.is_scalar:
        return Column(name, scope.resolve(_written(place)))
    place.allow({"type", "role", "order", "description"})
    role = place.choice("role", among={role.value: role for role in Role}, default=Role.REGULAR)
    descending = place.choice("order", among={"asc": False, "desc": True}, default=False)
    kind = scope.resolve(_written(place.child("type")))
    return Column(name, kind, role, descending, place.text("description", default=""))


def _dropped(place: _Node, *, scope: TypeScope) -> DroppedColumn:
    place.allow({"name", "at", "type"})
    kind = scope.resolve(_written(place.child("type"))) if "type" in place else None
    return DroppedColumn(place.text("name"), place.child("at").as_integer("the drop's time in microseconds"), kind)


Choice = TypeVar("Choice")


def _root(text: str, *, where: str) -> _Node:
    is_json = text.lstrip().startswith("{")  # it may be indented with tabs
    try:
        root = yaml.compose(text.replace("\t", " ") if is_json else text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        message = f"not YAML: {error.problem or error.context}"
        raise SchemaError(message, where=where, line=line, column=column) from error
    except yaml.YAMLError as error:
        raise SchemaError(f"not YAML: {error}", where=where) from error
    if root is None:
        raise SchemaError("the file is empty; expected a mapping with `table` and `columns`", where=where)
    return _Node(root, where)


@dataclass(frozen=True, slots=True)
class _Node:
    """One node of a document; a node of an unexpected kind raises `SchemaError` with its place."""

    node: yaml.Node
    where: str

    @property
    def start(self) -> tuple[int, int]:
        """Line and column, from 1, of the node's text (after an opening quote)."""
        mark = self.node.start_mark
        quoted = isinstance(self.node, yaml.ScalarNode) and self.node.style in ("'", '"')
        return mark.line + 1, mark.column + 1 + quoted

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode)

    def error(self, message: str) -> SchemaError:
        line, column = self.start
        return SchemaError(message, where=self.where, line=line, column=column)

    def mapping(self) -> dict[str, _Node]:
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"expected a mapping (`name: …`), found {_kind(self.node)}")
        found: dict[str, _Node] = {}
        for key, value in self.node.value:
            name = _Node(key, self.where).as_text("a name")
            if name in found:
                raise _Node(key, self.where).error(f"{name!r} is given twice; keep one of them")
            found[name] = _Node(value, self.where)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.mapping()

    def allow(self, known: Iterable[str]) -> None:
        for key, _ in self.node.value if isinstance(self.node, yaml.MappingNode) else ():
            if key.value not in known:
                hint = did_you_mean(key.value, sorted(known))
                raise _Node(key, self.where).error(f"unknown key {key.value!r}{hint}")

    def child(self, name: str) -> _Node:
        entries = self.mapping()
        if name not in entries:
            raise self.error(f"missing `{name}`{did_you_mean(name, entries)}")
        return entries[name]

    def items(self) -> list[_Node]:
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"expected a list, found {_kind(self.node)}")
        return [_Node(item, self.where) for item in self.node.value]

    def one_or_more(self) -> list[_Node]:
        """Return the items of a list, or the node itself if it is one name without brackets."""
        return [self] if self.is_scalar else self.items()

    def as_text(self, what: str) -> str:
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error(f"expected {what}, found {_kind(self.node)}")
        # JSON writes characters past U+FFFF as two escapes, which YAML does not join
        return str(self.node.value).encode("utf-16", "surrogatepass").decode("utf-16")

    def as_integer(self, what: str) -> int:
        written = self.as_text(what)
        try:
            return int(written)
        except ValueError:
            raise self.error(f"expected {what}, a whole number, found {written!r}") from None

    def text(self, name: str, *, default: str | None = None) -> str:
        entries = self.mapping()
        if name not in entries and default is not None:
            return default
        return self.child(name).as_text(f"`{name}` to be text")

    def choice(self, name: str, *, among: Mapping[str, Choice], default: Choice) -> Choice:
        entries = self.mapping()
        if name not in entries:
            return default
        written = entries[name].as_text(f"one of {', '.join(among)}").lower()
        if written not in among:
            raise entries[name].error(f"`{name}` is {written!r}; expected one of {', '.join(among)}")
        return among[written]


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value) if node.value else "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
