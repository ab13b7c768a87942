"""`init`: a new project file for a schema file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc_views.errors import ConfigError, SchemaError, UsageError, did_you_mean
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.formats.registry import format_names
from cdc_views.model.schema import TableSchema
from cdc_views.project import load_project, new_project
from cdc_views.schemas import read_schemas

_FORMAT_OF = {".cql": CassandraMutation.name, ".sql": Debezium.name}
"""How events read that come from the kind of database a schema file is of; for the others key-value."""


@dataclass(frozen=True, slots=True)
class StartedProject:
    """A project file that was written, and the tables in it."""

    file: Path
    tables: tuple[str, ...]
    raw_format: str


def start_project(
    source: Path, file: Path, *, name: str | None, raw_format: str | None, only: Sequence[str] = ()
) -> StartedProject:
    """Write `file` for the tables of the schema file `source`.

    Args:
        source: The schema file; the project file names it relative to itself.
        file: The project file; one that is there is not overwritten.
        name: The project's name, by default that of its folder.
        raw_format: How events read, by default as fits the kind of schema file.
        only: Full names of the tables wanted; all where none is given.

    Raises:
        ConfigError: The file is there already, or cannot be written.
        SchemaError: The schema cannot be read or has no table.
    """
    if file.exists():
        raise ConfigError(f"{file}: is there already and is not overwritten; remove it, or choose another folder with --dir")
    if not source.is_file():
        raise UsageError(f"{source}: no such schema file; a CQL or SQL file, an .avsc or a YAML schema was expected")
    project = name or file.absolute().parent.name or "views"
    tables = _selected(read_schemas(source, keyspace=project), only, source)
    chosen = _raw_format(raw_format, source)
    relative = Path(os.path.relpath(source.absolute(), file.absolute().parent)).as_posix()
    _write(file, new_project(project, schema=relative, tables=tables, raw_format=chosen))
    load_project(file, environment={})  # what we write must be what we read
    return StartedProject(file, tables, chosen)


def _selected(found: Mapping[str, TableSchema], only: Sequence[str], source: Path) -> tuple[str, ...]:
    names = tuple(schema.full_name for schema in found.values())
    for name in only:
        if name not in names:
            raise UsageError(f"{source}: has no table {name!r}{did_you_mean(name, names)}")
    if not names:
        raise SchemaError("defines no table; a CREATE TABLE was expected", where=str(source))
    return tuple(name for name in names if not only or name in only)


def _raw_format(name: str | None, source: Path) -> str:
    if name is None:
        return _FORMAT_OF.get(source.suffix.lower(), KeyValue.name)
    if name not in format_names():
        raise UsageError(f"there is no raw format {name!r}{did_you_mean(name, format_names())}")
    return name


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error}); choose another folder with --dir") from error
