"""`quarantine` and `late`: events that could not land, and facts that landed too late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.commands_events import replay
from cdc_views.cli.log import log
from cdc_views.cli.printing import fields_of
from cdc_views.cli.shared import Request, TableArgument, shared
from cdc_views.errors import UsageError
from cdc_views.rules.codec.jsontext import JsonRow

if TYPE_CHECKING:
    from cdc_views.model.schema import TableSchema
    from cdc_views.operations.lateness import LatePart
    from cdc_views.table import Table

quarantine = typer.Typer(help="Events that could not land: list, show, discard, replay.", no_args_is_help=True)
quarantine.command("replay")(replay)

_LISTED = ("table", "event", "source", "line", "quarantined_at", "reason")
_SHOWN = (*_LISTED, "content")
_DISCARDED = ("table", "discarded")
_LATE = ("key", "what", "column", "path", "written", "purged_through", "value", "landed_at", "node", "segment", "position")
_ID = 12
"""Shown digits of an event's id, enough to name it."""

EventOption = Annotated[list[str] | None, typer.Option("--event", metavar="ID", help="Only this event; may be repeated.")]


@quarantine.command("list")
@shared("project", "select", "format")
def list_waiting(asked: Request) -> None:
    """List the events that wait in quarantine and why, without their content."""
    _print(asked, asked.tables, events=(), columns=_LISTED)


@quarantine.command("show")
@shared("project", "format")
def show(asked: Request, *, table: TableArgument, event: EventOption = None) -> None:
    """Show waiting events: their bytes as text, or in hex if they are not UTF-8."""
    _print(asked, [asked.table(table)], events=event or (), columns=_SHOWN)


@quarantine.command("discard")
@shared("project", "format")
def discard_waiting(
    asked: Request,
    *,
    table: TableArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why they must not land; kept beside them.")],
    event: EventOption = None,
    is_all: Annotated[bool, typer.Option("--all", help="All that wait.")] = False,
) -> None:
    """Discard waiting events: tests and replays skip them; their bytes stay, with the reason."""
    from cdc_views.operations.quarantining import discard

    if is_all == bool(event):
        raise UsageError("give either --event ID, as `quarantine list` shows it, or --all")
    count = discard(asked.table(table), events=event or (), why=reason)
    asked.print(_DISCARDED, [{"table": table, "discarded": count}])
    log.info(f"{table}: {count:,} events of quarantine are discarded; their bytes and reasons stay there")


def _print(asked: Request, tables: Sequence[Table], *, events: Sequence[str], columns: Sequence[str]) -> None:
    from cdc_views.operations.quarantining import waiting_of

    records = [
        {
            "table": table.name,
            "event": one.event_id[:_ID],
            **fields_of(one, ("source", "line", "reason")),
            "quarantined_at": one.landed_at.isoformat(),
            "content": _text(one.event),
        }
        for table in tables
        for one in waiting_of(table, events=events)
    ]
    asked.print(columns, records)


def _text(event: bytes) -> str:
    try:
        return event.decode()
    except UnicodeDecodeError:
        return f"0x{event.hex()}"


@shared("project", "select", "format")
def late(asked: Request, *, table: TableArgument) -> None:
    """List, cell by cell, the facts in quarantine that landed after a table's lateness horizon."""
    target = asked.table(table)
    asked.print_json(_LATE, _late_rows(target.schema, target.late()))


def _late_rows(schema: TableSchema, parts: Iterable[LatePart]) -> Iterator[JsonRow]:
    from cdc_views.operations.explained import part_row, value_text
    from cdc_views.rules.codec.jsontext import quote
    from cdc_views.rules.codec.times import timestamp_text

    for part in parts:
        yield {
            **part_row(schema, part),
            "purged_through": str(part.purged_through),
            "value": "null" if part.column is None or part.value is None else value_text(part.column.type, part.path, part.value),
            "landed_at": quote(timestamp_text(part.landed_at // 1000)),
            "node": quote(part.origin.node),
            "segment": quote(part.origin.segment),
            "position": str(part.origin.position),
        }
