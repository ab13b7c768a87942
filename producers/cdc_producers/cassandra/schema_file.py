"""Keeps the project's schema file equal to the node's schema: columns added, dropped (with the time) and added again.

Statements go to the end of the user's CQL file, since the order of ALTERs matters. For other kinds of files, a warning
explains what to change.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from cdc_producers.cassandra.node_schema import NodeColumn, NodeTable, NodeType, quoted
from cdc_producers.cassandra.options import FollowSchema
from cdc_views.errors import SchemaError, UsageError
from cdc_views.landing.targets import ProducerLog, StreamTarget
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import LogicalType, Udt, children
from cdc_views.schemas.cql.reader import read_cql

_CQL = (".cql", ".ddl")


def changes(project: TableSchema, node: NodeTable, types: Sequence[NodeType]) -> list[str]:
    """Return statements that make the project's table equal to the node's; they change columns and fields only (see `check`)."""
    return [*_fields(project, types), *_columns(project, node, types)]


def _fields(project: TableSchema, types: Sequence[NodeType]) -> Iterator[str]:
    known = {kind.name: kind for column in project.columns for kind in _user_types(column.type)}
    for kind in types:
        if kind.name in known and kind.keyspace == project.keyspace:
            names = {name for name, _ in known[kind.name].fields}
            if not names <= {name for name, _ in kind.fields}:
                continue  # a field was renamed, as `check` reports: adding it would make another type
            for name, text in kind.fields:
                if name not in names:
                    yield f"ALTER TYPE {kind.place} ADD {quoted(name)} {text};"


def _user_types(kind: LogicalType) -> Iterator[Udt]:
    if isinstance(kind, Udt):
        yield kind
    for part in children(kind):
        yield from _user_types(part)


def _columns(project: TableSchema, node: NodeTable, types: Sequence[NodeType]) -> Iterator[str]:
    here = {column.name for column in project.columns}
    drops = {drop.column.name: drop for drop in sorted(node.dropped, key=lambda found: found.at)}
    for name, drop in drops.items():
        if project.drop_time(name) != drop.at:
            if name not in here:
                yield from _added(node, drop.column, types)
            yield f"ALTER TABLE {node.place} DROP {quoted(name)} USING TIMESTAMP {drop.at};"
            here.discard(name)
    for column in node.columns:
        if column.name not in here:
            yield from _added(node, column, types)


def _added(node: NodeTable, column: NodeColumn, types: Sequence[NodeType]) -> Iterator[str]:
    for kind in _needed(column.type, node.keyspace, types):
        yield kind.cql.replace("CREATE TYPE", "CREATE TYPE IF NOT EXISTS", 1)
    yield f"ALTER TABLE {node.place} ADD {column.cql};"


def _needed(text: str, keyspace: str, types: Sequence[NodeType]) -> Iterator[NodeType]:
    names = NodeType(keyspace, "", (("", text),)).names_used
    for kind in types:
        if kind.keyspace == keyspace and kind.name in names:
            for _, field in kind.fields:
                yield from _needed(field, keyspace, types)
            yield kind


def check(project: TableSchema, node: NodeTable, types: Sequence[NodeType]) -> None:
    """Raise `UsageError` if the project's table, after `changes`, still differs from the node's."""
    text = "\n".join([*(kind.cql for kind in types if kind.keyspace == node.keyspace), *node.cql])
    wanted = read_cql(text, where="the node's schema").table(node.full_name)
    for here, there in zip(project.row_key, wanted.row_key, strict=False):
        if here != there:
            raise UsageError(f"{project.full_name}: key column {_shown(here)} in the schema file is {_shown(there)} in the node")
    if len(project.row_key) != len(wanted.row_key):
        sizes = f"{len(project.row_key)} columns in the schema file and {len(wanted.row_key)} in the node"
        raise UsageError(f"{project.full_name}: the key has {sizes}; correct the file")
    for column in project.columns:
        if wanted.has(column.name) and (found := wanted.column(column.name)) != column:
            inside = next(_inside(column.type, found.type), "")
            differs = f"{_shown(column)} in the schema file is {_shown(found)} in the node; correct the file"
            raise UsageError(f"{project.full_name}: {f'column {column.name!r}: {inside}' if inside else differs}")


def _inside(here: LogicalType, there: LogicalType) -> Iterator[str]:
    """Yield the differences between fields of user types that have the same name on both sides."""
    if isinstance(here, Udt) and isinstance(there, Udt) and here.name == there.name:
        for number, (mine, theirs) in enumerate(zip_longest(here.fields, there.fields), start=1):
            if mine != theirs:
                within = _inside(mine[1], theirs[1]) if mine and theirs and mine[0] == theirs[0] else iter(())
                yield next(within, None) or (
                    f"field {number} of user type {here.name} is {_field(mine)} in the schema file and {_field(theirs)} in the "
                    f"node; {_remedy(here, mine, theirs)}"
                )
    elif type(here) is type(there) and not isinstance(here, Udt):
        for part, other in zip(children(here), children(there), strict=False):
            yield from _inside(part, other)


def _remedy(kind: Udt, mine: tuple[str, LogicalType] | None, theirs: tuple[str, LogicalType] | None) -> str:
    if mine and theirs and mine[0] != theirs[0]:
        renamed = f"ALTER TYPE {kind.keyspace}.{kind.name} RENAME {mine[0]} TO {theirs[0]};"
        return f"where it was renamed, add `{renamed}` to the end of the file: what has landed follows the new name"
    return f"write it so in the file's CREATE TYPE {kind.name}"


def _field(field: tuple[str, LogicalType] | None) -> str:
    return "missing" if field is None else f"{field[0]!r} {field[1]}"


def _shown(column: Column) -> str:
    return f"{column.name!r}, {column.role.value} {column.type}{' DESC' * column.descending},"


def follow(target: StreamTarget, node: NodeTable, types: Sequence[NodeType], *, mode: FollowSchema, log: ProducerLog) -> None:
    """Write the node's changes to the project's schema file, or warn of them. Raises `UsageError` if the key or types differ."""
    wanted = changes(target.schema, node, types)
    path = target.schema_file
    if wanted and path is not None and mode is FollowSchema.APPEND and path.suffix in _CQL:
        wanted = _append(path, node, types, log=log)
    if wanted and path is None:
        log.warning(
            f"{node.full_name}: the node's schema changed since this agent read it; events with what it lacks go to quarantine "
            f"until the agent starts again, and land with `cdc-views replay {node.full_name}`",
            table=node.full_name,
            statements=wanted,
        )
    elif wanted:
        log.warning(
            f"{node.full_name}: the node's schema is another than that of {path}; events with what is not there go to quarantine "
            f"until it is, and land with `cdc-views replay {node.full_name}`. Add to it: {' '.join(wanted)}",
            table=node.full_name,
            statements=wanted,
        )
    else:
        check(target.schema, node, types)


def _append(path: Path, node: NodeTable, types: Sequence[NodeType], *, log: ProducerLog) -> list[str]:
    """Add the statements to the file; return those that could not be added."""
    with _locked(path) as descriptor:
        text = path.read_text("utf-8")
        # read the file again: another node's agent may have changed it first
        project = read_cql(text, keyspace=node.keyspace, where=str(path)).table(node.full_name)
        wanted = changes(project, node, types)
        if not wanted:
            return []
        added = f"\n-- {node.full_name}: the node's schema changed\n" + "\n".join(wanted) + "\n"
        try:
            became = read_cql(text + added, keyspace=node.keyspace, where=str(path)).table(node.full_name)
        except SchemaError as error:
            log.warning(f"{path}: cannot take {' '.join(wanted)}: {error}", table=node.full_name)
            return wanted
        check(became, node, types)
        # one write at the end of the file: a reader sees all of it or nothing
        os.write(descriptor, added.encode())
        log.info(f"{path}: {node.full_name} follows the node: {' '.join(wanted)}", table=node.full_name, statements=wanted)
        return []


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; let the agent write to it, or start with --follow-schema warn") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
