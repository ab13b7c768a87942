"""A new project file: every table of a schema file, engine duckdb, the rest by default."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count

from cdc_views.project.paths import split_name

_HEADER = """\
# Merged views over raw change events; keys and commands: `cdc-views --help`.
# A relative path is relative to this file. Secrets come only from ${ENV_VAR} references.
"""


def new_project(name: str, *, schema: str, tables: Sequence[str], raw_format: str) -> str:
    """Return the text of a project file.

    Args:
        name: The project's name.
        schema: Path of the schema file, as it is to stand in the file.
        tables: Full names of the tables, in the order wanted.
        raw_format: How the events of all of them read.
    """
    lines = [_HEADER, f"name: {_scalar(name)}", "engine: duckdb", "warehouse: ./warehouse", "tables:"]
    for table, view in zip(tables, _view_names(tables), strict=True):
        lines += [f"  - name: {_scalar(table)}", f"    schema: {_scalar(schema)}", "    raw:", f"      format: {raw_format}"]
        if view != split_name(table)[1]:
            lines.append(f"    view: {{name: {_scalar(view)}}}  # engines do not tell names apart by case")
    return "\n".join(lines) + "\n"


def _view_names(tables: Sequence[str]) -> list[str]:
    """The tables' own names, numbered where two of a keyspace differ in case alone."""
    taken: set[str] = set()
    names = []
    for table in tables:
        keyspace, own = split_name(table)
        candidates = (own if number == 1 else f"{own}_{number}" for number in count(1))
        name = next(name for name in candidates if f"{keyspace}.{name}".casefold() not in taken)
        taken.add(f"{keyspace}.{name}".casefold())
        names.append(name)
    return names


def _scalar(text: str) -> str:
    """A YAML scalar; quoted unless it is plain beyond doubt (`no`, `1.0` and `null` are not text in YAML)."""
    plain = all(part.isidentifier() and part.isascii() and len(part) > 1 for part in text.replace("/", ".").split("."))
    ambiguous = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "nan"}
    return text if plain and not ambiguous else json.dumps(text, ensure_ascii=False)
