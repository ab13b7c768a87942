"""`init`: a new project file for a schema file, or for a running source."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from cdc_views.errors import ConfigError, SchemaError, UsageError, choose_one, did_you_mean
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.formats.registry import format_names
from cdc_views.model.live_addresses import without_password
from cdc_views.project import load_project, split_name
from cdc_views.project.paths import is_live_source
from cdc_views.schemas import Catalog, read_catalog
from cdc_views.schemas.live import Ddl, LiveCatalog, describe

_FORMAT_OF = {".cql": CassandraMutation.name, ".sql": Debezium.name}
"""The usual raw format of events from the kind of database that a schema file describes; key-value for others."""


_IS_THERE = "is there already and is not overwritten; remove it, or name another place with --dir or --project"
_HEADER = """\
# Merged views over raw change events; keys: `cdc-views init --json-schema`; commands: `cdc-views --help`.
# A relative path is relative to this file. Secrets come only from ${ENV_VAR} references.
"""


@dataclass(frozen=True, slots=True)
class StartedProject:
    """A new project file, and its tables.

    Attributes:
        following: The command that comes next, without `cdc-views`.
        schema_file: What was written beside it, of a running source; None if the schema is a file.
        left_out: Why tables of the source are not in it, a line each.
        notes: What looks like a slip in the schema file, a line each.
    """

    file: Path
    tables: tuple[str, ...]
    following: str
    schema_file: Path | None = None
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def start_project(
    source: str, file: Path, *, name: str | None, raw_format: str | None, only: Sequence[str] = ()
) -> StartedProject:
    """Write `file` for the tables of the schema file or running source `source`; overwrites nothing.

    The file names a schema file by a path relative to itself. Of a running source, what it says of its tables is written to
    `schema.sql` or `schema.cql` beside `file`. Defaults: the name of its folder, the raw format that fits the source, and all
    tables. Raises `ConfigError` if a file exists or cannot be written, `SchemaError` if the schema cannot be read or has no
    table, `TransientError` if the source is away.
    """
    if file.exists():
        raise ConfigError(f"{file}: {_IS_THERE}")
    if raw_format is not None and raw_format not in format_names():
        raise UsageError(f"there is no raw format {raw_format!r}; {choose_one(raw_format, format_names())}")
    project = name or file.absolute().parent.name or "views"
    found = _of_source(source, file, only) if is_live_source(source) else _of_file(Path(source), project, only)
    chosen = _FORMAT_OF.get(found.file.suffix.lower(), KeyValue.name) if raw_format is None else raw_format
    relative = Path(os.path.relpath(found.file.absolute(), file.absolute().parent)).as_posix()
    if found.text:
        _write(found.file, found.text)
    _write(file, new_project(project, schema=relative, tables=found.tables, raw_format=chosen, source=found.source))
    load_project(file, environment={})  # the file that we write must be valid
    following = f"produce {found.producer}" if found.producer else f"land {chosen} FILE… --table {found.tables[0]}"
    return StartedProject(file, found.tables, following, found.file if found.text else None, found.refused, found.notes)


@dataclass(frozen=True, slots=True)
class _Found:
    """The tables to start with; `text` is to be written to `file` if the schema is a running `source`'s."""

    file: Path
    tables: tuple[str, ...]
    refused: tuple[str, ...]
    text: str = ""
    source: str = ""
    producer: str = ""
    notes: tuple[str, ...] = ()


def _of_file(source: Path, project: str, only: Sequence[str]) -> _Found:
    if not source.is_file():
        raise UsageError(f"{source}: no such schema file; a CQL or SQL file, an .avsc or a YAML schema was expected")
    catalog = read_catalog(source, keyspace=project)
    return _Found(source, *_selected(catalog, only), notes=catalog.notes)


def _of_source(address: str, file: Path, only: Sequence[str]) -> _Found:
    shown = without_password(address)
    found = describe(address, only)
    tables, refused = _selected(LiveCatalog.of(found, where=shown).catalog, only, names=found.names)
    place = file.parent / f"schema.{'cql' if found.ddl is Ddl.CQL else 'sql'}"
    if place.exists():
        raise ConfigError(f"{place}: {_IS_THERE}")
    text = f"-- {found.server}, {shown}: as `cdc-views init` read it\n{found.only(tables).text}"
    return _Found(place, tables, refused, text, shown, found.producer)


def _selected(found: Catalog, only: Sequence[str], *, names: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the tables to take, and why others that have no views are left out."""
    known = names or found.names
    for name in only:
        if name in found.refused:
            raise found.refused[name].with_traceback(None)
        if name not in found.tables:
            raise UsageError(f"{found.where}: has no table {name!r}{did_you_mean(name, known)}")
    if not found.names:
        raise SchemaError("defines no table; a CREATE TABLE was expected", where=found.where)
    if not found.tables:
        raise next(iter(found.refused.values()))
    chosen = tuple(name for name in found.tables if not only or name in only)
    return chosen, () if only else tuple(str(error) for error in found.refused.values())


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror}); name another place with --dir or --project") from error


def new_project(name: str, *, schema: str, tables: Sequence[str], raw_format: str, source: str = "") -> str:
    """Return the text of a project file for tables in this order, with the path `schema` and the running source, if any."""
    lines = [_HEADER, f"name: {_scalar(name)}", "engine: duckdb", "warehouse: ./warehouse", "tables:"]
    taken: set[str] = set()
    for table in tables:
        keyspace, own = split_name(table)
        # engines ignore the case of names: of two that differ only in case, one gets a number
        candidates = (own if number == 1 else f"{own}_{number}" for number in count(1))
        view = next(view for view in candidates if f"{keyspace}.{view}".casefold() not in taken)
        taken.add(f"{keyspace}.{view}".casefold())
        lines += [f"  - name: {_scalar(table)}", f"    schema: {_scalar(schema)}", "    raw:", f"      format: {raw_format}"]
        if source:
            lines.append(f"    source: {_scalar(source)}")
        if view != own:
            lines.append(f"    view: {{name: {_scalar(view)}}}  # engines do not tell names apart by case")
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Return a YAML scalar; quoted unless it is certainly plain (`no`, `1.0` and `null` are not text in YAML)."""
    plain = all(part.isidentifier() and part.isascii() and len(part) > 1 for part in text.replace("/", ".").split("."))
    ambiguous = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "nan"}
    return text if plain and not ambiguous else json.dumps(text, ensure_ascii=False)
