"""`query "SELECT …"`: what is a statement, and its rows on standard output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cdc_views.cli.log import log
from cdc_views.cli.printing import ROWS, check_format
from cdc_views.cli.shared import Request
from cdc_views.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from cdc_views.api import Project

_WORKS = ("as_of", "landed_as_of", "written_as_of", "raw_only", "engine")
_INSTEAD = {
    "where": "write it in the SQL, as WHERE",
    "columns": "write them in the SQL, after SELECT",
    "limit": "write it in the SQL, as LIMIT",
    "select": "the SQL names its tables",
}
"""What to do instead of an option of one table."""


def is_statement(project: Project, text: str) -> bool:
    """Return whether the argument of `query` is SQL: no table is called so, and it begins as a query.

    Raises `UsageError` for other texts of several words, which are neither.
    """
    from cdc_views.model.user_statements import EXPECTED, begins_as_query

    if any(table.is_called(text) for table in project.tables):
        return False
    if not begins_as_query(text) and len(text.split()) > 1:
        known = [table.name for table in project.tables]
        raise UsageError(f"{text!r} is no query, and {project.file} has no such table{did_you_mean(text, known)}; {EXPECTED}")
    return begins_as_query(text)


def run_statement(asked: Request, text: str, given: Mapping[str, Any], target: Mapping[str, Any], *, format: str | None) -> None:
    """Print or write the rows of a statement; `given` are the options of `query`, of which some are of one table alone."""
    for name, value in given.items():
        if name not in _WORKS and value is not None and value is not False and value not in ((), []):
            told = _INSTEAD.get(name, "query that table alone, by its name")
            raise UsageError(f"--{name} is of one table, and this is SQL; leave it out: {told}")
    read = {name: given[name] for name in _WORKS}
    if target["out"] is None and target["into"] is None:
        if target["overwrite"]:
            raise UsageError("--overwrite is of --out or --into; name one, or leave it out")
        _print(asked, text, read, format=check_format(format or "table"))
        return
    written = asked.project.write(text, format=format, **target, **read)
    if written.note:
        log.info(written.note)
    log.info(written.line())


def _print(asked: Request, text: str, read: Mapping[str, Any], *, format: str) -> None:
    from cdc_views.operations.statements import streamed_statement

    with streamed_statement(asked.project, text, **read) as found:
        for table, note in found.notes.items():
            log.info(f"{table}: {note}" if table not in note else note)
        rows = found.json_rows() if format in ("json", "jsonl") else found.shown_rows()
        replace(asked, format=format).print_json(found.columns, rows, ROWS)
