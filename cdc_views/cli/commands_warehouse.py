"""`status`: what a warehouse holds of each table."""

from __future__ import annotations

from pathlib import Path

from cdc_views.cli.options import FormatOption, LogFormatOption, ProjectOption, SelectOption
from cdc_views.cli.printing import as_json_rows, check_format, print_rows

_COLUMNS = ("table", "raw", "raw_rows", "raw_bytes", "view", "view_state")


def status(
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Print what BigQuery has of each table: rows and bytes of raw, and whether the view is as planned."""
    from cdc_views.api import Project
    from cdc_views.applying import definition_of

    check_format(format)
    loaded = Project.load(project)
    records = []
    with loaded.remote() as engine:
        for table in loaded.select(select or ()):
            found = engine.standing(definition_of(table))
            record = {"table": table.name, "raw": found.raw, "raw_rows": found.raw_rows, "raw_bytes": found.raw_bytes}
            records.append({**record, "view": found.view, "view_state": found.view_state})
    print_rows(_COLUMNS, as_json_rows(records), format=format)
