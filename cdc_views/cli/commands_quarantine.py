"""`quarantine`: what could not land: listed, shown, discarded, replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.commands_events import replay
from cdc_views.cli.log import log
from cdc_views.cli.options import FormatOption, LogFormatOption, ProjectOption, SelectOption, TableArgument
from cdc_views.cli.printing import as_json_rows, check_format, print_rows
from cdc_views.errors import UsageError

quarantine = typer.Typer(help="Events that could not land: list, show, discard, replay.", no_args_is_help=True)
quarantine.command("replay")(replay)

_LISTED = ("table", "event", "source", "line", "quarantined_at", "reason")
_SHOWN = (*_LISTED, "content")
_DISCARDED = ("table", "discarded")
_ID = 12
"""Digits of an event's id that are shown, and enough to name it."""

EventOption = Annotated[list[str] | None, typer.Option("--event", metavar="ID", help="Only this event; may be repeated.")]


@quarantine.command("list")
def list_waiting(
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """List the events that wait in quarantine, with the reason of each; without what they say."""
    from cdc_views.api import Project

    tables = Project.load(project).select(select or ())
    _print([table.name for table in tables], project, events=(), with_content=False, format=format)


@quarantine.command("show")
def show(
    table: TableArgument,
    event: EventOption = None,
    project: ProjectOption = Path("cdc_views.yml"),
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Show events that wait in quarantine as they are: their bytes as text, or in hex where they are none."""
    _print([table], project, events=event or (), with_content=True, format=format)


@quarantine.command("discard")
def discard_waiting(
    table: TableArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why they are not to land; kept beside them.")],
    event: EventOption = None,
    is_all: Annotated[bool, typer.Option("--all", help="All that wait.")] = False,
    project: ProjectOption = Path("cdc_views.yml"),
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Let waiting events rest: no test counts them and no replay tries them. Their bytes stay, with the reason."""
    from cdc_views.api import Project
    from cdc_views.operations.quarantining import discard

    check_format(format)
    if is_all == bool(event):
        raise UsageError("give either --event ID, as `quarantine list` shows it, or --all")
    count = discard(Project.load(project).table(table), events=event or (), why=reason)
    print_rows(_DISCARDED, as_json_rows([{"table": table, "discarded": count}]), format=format)
    log.info(f"{table}: {count:,} events of quarantine are discarded; their bytes and reasons stay there")


def _print(names: list[str], project: Path, *, events: list[str] | tuple[str, ...], with_content: bool, format: str) -> None:
    from cdc_views.api import Project
    from cdc_views.operations.quarantining import waiting_of

    check_format(format)
    loaded = Project.load(project)
    records = [
        {
            "table": name,
            "event": one.event_id[:_ID],
            "source": one.source,
            "line": one.line,
            "quarantined_at": one.landed_at.isoformat(),
            "reason": one.reason,
            "content": _text(one.event),
        }
        for name in names
        for one in waiting_of(loaded.table(name), events=events)
    ]
    columns = _SHOWN if with_content else _LISTED
    print_rows(columns, as_json_rows([{key: record[key] for key in columns} for record in records]), format=format)


def _text(event: bytes) -> str:
    try:
        return event.decode()
    except UnicodeDecodeError:
        return f"0x{event.hex()}"
