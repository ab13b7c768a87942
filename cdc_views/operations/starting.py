"""`init`: a new project file for a schema file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from cdc_views.errors import ConfigError, SchemaError, UsageError, did_you_mean
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.formats.registry import format_names
from cdc_views.model.schema import TableSchema
from cdc_views.project import load_project, split_name
from cdc_views.schemas import read_schemas

_FORMAT_OF = {".cql": CassandraMutation.name, ".sql": Debezium.name}
"""The usual raw format of events from the kind of database that a schema file describes; key-value for others."""


_HEADER = """\
# Merged views over raw change events; keys and commands: `cdc-views --help`.
# A relative path is relative to this file. Secrets come only from ${ENV_VAR} references.
"""


@dataclass(frozen=True, slots=True)
class StartedProject:
    """A new project file, and its tables."""

    file: Path
    tables: tuple[str, ...]
    raw_format: str


def start_project(
    source: Path, file: Path, *, name: str | None, raw_format: str | None, only: Sequence[str] = ()
) -> StartedProject:
    """Write `file` for the tables of the schema file `source`, with a path relative to itself; overwrites nothing.

    Defaults: the name of its folder, the raw format that fits the schema file, and all tables. Raises `ConfigError` if the file
    exists or cannot be written, `SchemaError` if the schema cannot be read or has no table.
    """
    if file.exists():
        raise ConfigError(f"{file}: is there already and is not overwritten; remove it, or choose another folder with --dir")
    if not source.is_file():
        raise UsageError(f"{source}: no such schema file; a CQL or SQL file, an .avsc or a YAML schema was expected")
    project = name or file.absolute().parent.name or "views"
    tables = _selected(read_schemas(source, keyspace=project), only, source)
    chosen = _FORMAT_OF.get(source.suffix.lower(), KeyValue.name) if raw_format is None else raw_format
    if chosen not in format_names():
        raise UsageError(f"there is no raw format {chosen!r}{did_you_mean(chosen, format_names())}")
    relative = Path(os.path.relpath(source.absolute(), file.absolute().parent)).as_posix()
    _write(file, new_project(project, schema=relative, tables=tables, raw_format=chosen))
    load_project(file, environment={})  # the file that we write must be valid
    return StartedProject(file, tables, chosen)


def _selected(found: Mapping[str, TableSchema], only: Sequence[str], source: Path) -> tuple[str, ...]:
    names = tuple(schema.full_name for schema in found.values())
    for name in only:
        if name not in names:
            raise UsageError(f"{source}: has no table {name!r}{did_you_mean(name, names)}")
    if not names:
        raise SchemaError("defines no table; a CREATE TABLE was expected", where=str(source))
    return tuple(name for name in names if not only or name in only)


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error}); choose another folder with --dir") from error


def new_project(name: str, *, schema: str, tables: Sequence[str], raw_format: str) -> str:
    """Return the text of a project file for tables in this order; it contains `schema` as the path."""
    lines = [_HEADER, f"name: {_scalar(name)}", "engine: duckdb", "warehouse: ./warehouse", "tables:"]
    taken: set[str] = set()
    for table in tables:
        keyspace, own = split_name(table)
        # engines ignore the case of names: of two that differ only in case, one gets a number
        candidates = (own if number == 1 else f"{own}_{number}" for number in count(1))
        view = next(view for view in candidates if f"{keyspace}.{view}".casefold() not in taken)
        taken.add(f"{keyspace}.{view}".casefold())
        lines += [f"  - name: {_scalar(table)}", f"    schema: {_scalar(schema)}", "    raw:", f"      format: {raw_format}"]
        if view != own:
            lines.append(f"    view: {{name: {_scalar(view)}}}  # engines do not tell names apart by case")
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Return a YAML scalar; quoted unless it is certainly plain (`no`, `1.0` and `null` are not text in YAML)."""
    plain = all(part.isidentifier() and part.isascii() and len(part) > 1 for part in text.replace("/", ".").split("."))
    ambiguous = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "nan"}
    return text if plain and not ambiguous else json.dumps(text, ensure_ascii=False)
