"""`land`, `replay`, `tail`, `quarantine` and `late`: events land in raw tables, or wait in quarantine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.completion import table_names
from cdc_views.cli.groups import CommandGroups, helped
from cdc_views.cli.log import log
from cdc_views.cli.printing import WRITTEN, fields_of
from cdc_views.cli.progress import shown_progress
from cdc_views.cli.shared import Request, TableArgument, TableOption, shared
from cdc_views.errors import CdcViewsError, UsageError, choose_one
from cdc_views.rules.codec.jsontext import JsonRow

if TYPE_CHECKING:
    from cdc_views.landing import LandingReport, Rejection
    from cdc_views.model.schema import TableSchema
    from cdc_views.operations.lateness import LatePart
    from cdc_views.table import Table

WithValuesOption = Annotated[
    bool, typer.Option("--with-values", help="Print the values of bad events too; quarantine keeps them anyway.")
]
_FILE_COLUMNS = ("file", "events", "facts", "quarantined", "skipped_bytes", "landed_bytes")
_REPLAY_COLUMNS = ("table", "events", "facts", "waiting")
_TAIL_SECONDS = 0.3
quarantine = typer.Typer(
    cls=CommandGroups, help="List, show, discard or replay events that could not land.", no_args_is_help=True
)

_LISTED = ("table", "event", "source", "line", "quarantined_at", "reason")
_SHOWN = (*_LISTED, "content")
_DISCARDED = ("table", "discarded")
_LATE = ("key", "what", "column", "path", "written", "purged_through", "value", "landed_at", "node", "segment", "position")
_ID = 12
"""Digits of an event's id to show, enough to identify it."""

EventOption = Annotated[list[str] | None, typer.Option("--event", metavar="ID", help="Only this event; may be repeated.")]


@shared("project", "select", "format")
def land(
    asked: Request,
    *,
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="cassandra-mutation, debezium-cassandra, debezium or key-value.")
    ],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Event files or URLs, plain or gzip; -: standard input.")],
    table: TableOption,
    force: Annotated[bool, typer.Option("--force", help="Land a file even if none of its first events decodes.")] = False,
    with_values: WithValuesOption = False,
) -> None:
    """Append event files to a raw table.

    Bad events go to quarantine and make the exit code 1. Refuses a file, with exit code 2 and nothing quarantined, if it
    has 20 events or more and none of the first 1,000 decodes.
    """
    from cdc_views.formats.registry import format_names
    from cdc_views.operations.ingest import land_files

    if format_name not in format_names():
        raise UsageError(f"there is no raw format {format_name!r}; {choose_one(format_name, format_names())}")
    target = asked.table(table)
    where, declared = asked.project_file, target.config.raw.format
    if declared != format_name:
        raise UsageError(
            f"{where}: {target.name} has `raw: {{format: {declared}}}`, not {format_name}; is it the table that is meant?"
        )
    with shown_progress() as progress:
        now = datetime.now(timezone.utc)
        report = land_files(target, files, now=now, progress=progress, refuses_wrong_files=not force)
    asked.print(_FILE_COLUMNS, ({"file": file.name, **fields_of(file, _FILE_COLUMNS[1:])} for file in report.files))
    if report.facts:
        _refresh(target)
    _warn_of_files(report, schema=None if with_values else target.schema)
    _warn_of_forgotten(target.name, report.forgotten)
    if not report.events and not report.quarantined:
        _warn_of_waiting(target)
    if report.quarantined:
        log.warning(f"{report.quarantined:,} events are in quarantine: {_quarantine_of(target)}")
        raise typer.Exit(1)


def _warn_of_waiting(table: Table) -> None:
    """Say of a run that landed nothing that events of earlier ones wait: what was tried again is not mended."""
    from cdc_views.landing.quarantine import waiting

    count = 0 if table.project.is_remote else waiting(table.raw)[0]
    if count:
        log.warning(f"{count:,} events wait in quarantine: {_quarantine_of(table)}")


def _quarantine_of(table: Table) -> str:
    """What shows the events: a command, or in a warehouse its table."""
    from cdc_views.landing import quarantine_location

    return quarantine_location(table.raw) if table.project.is_remote else f"`cdc-views quarantine list --select {table.name}`"


def _warn_of_files(report: LandingReport, *, schema: TableSchema | None) -> None:
    for file in report.files:
        _warn_of_rejections(file.name, file.rejections, file.quarantined, schema=schema)
        if file.events or file.quarantined or file.forgotten:
            continue
        if file.skipped_bytes:
            log.info(f"{file.name}: landed before", file=file.name)
        else:
            log.warning(f"{file.name}: has no events", file=file.name)


def _refresh(table: Table) -> None:
    from cdc_views.operations.applying import refresh_view

    try:
        if refresh_view(table):
            log.info(f"view {table.config.keyspace}.{table.config.view_name} shows them")
    except CdcViewsError as error:
        log.warning(f"the events have landed, but the view does not show them yet: {error}; run `cdc-views apply`")


def _warn_of_rejections(name: str, rejections: tuple[Rejection, ...], count: int, *, schema: TableSchema | None) -> None:
    """Warn of the first rejections; a `schema` hides the table's values in the reasons."""
    from cdc_views.landing.redaction import without_values

    for rejection in rejections:
        reason = rejection.reason if schema is None else without_values(rejection.reason, schema)
        log.warning(f"{name}:{rejection.line}: {reason}", file=name, line=rejection.line)
    if count > len(rejections):
        log.warning(f"{name}: … and {count - len(rejections):,} more")


def _warn_of_forgotten(table: str, count: int) -> None:
    if count:
        log.info(f"{table}: {count:,} events are older than the forgetting of their key; quarantine has where they were only")


@shared("project", "select", "format")
def replay(asked: Request, *, table: TableArgument, with_values: WithValuesOption = False) -> None:
    """Land quarantined events again.

    After a fix of the schema or of cdc-views. Exit code 1 while some stay.
    """
    target = asked.table(table)
    report = target.replay()
    if report.facts:
        _refresh(target)
    asked.print(_REPLAY_COLUMNS, [{"table": target.name, **fields_of(report, _REPLAY_COLUMNS[1:])}])
    _warn_of_rejections(target.name, report.rejections, report.waiting, schema=None if with_values else target.schema)
    _warn_of_forgotten(target.name, report.forgotten)
    if report.waiting:
        raise typer.Exit(1)


@shared("project", "select")
def tail(
    asked: Request,
    *,
    table: TableArgument,
    from_start: Annotated[bool, typer.Option("--from-start", help="Start with the facts that have already landed.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop after the facts that have landed by now.")] = False,
) -> None:
    """Print the changes of a table as they land.

    One JSON object a line, until interrupted.
    """
    from cdc_views.operations.tailing import BEFORE_ALL, current_version, landed_after

    log.is_timed = not once
    target = asked.table(table)
    try:
        version = BEFORE_ALL if from_start else current_version(target)
        while True:
            landed = landed_after(target, version)
            if landed.note:
                log.warning(landed.note)
            for line in landed.lines:
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
            version = landed.version
            if once:
                return
            time.sleep(_TAIL_SECONDS)
    except KeyboardInterrupt:
        return


@helped(quarantine, "quarantine list")
@shared("project", "select", "format")
def list_waiting(
    asked: Request,
    *,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Of this table.", autocompletion=table_names)] = None,
) -> None:
    """List the events that wait in quarantine and why, without their content."""
    _print_waiting(asked, asked.tables if table is None else [asked.table(table)], events=(), columns=_LISTED)


@helped(quarantine, "quarantine show")
@shared("project", "format")
def show(asked: Request, *, table: TableArgument, event: EventOption = None) -> None:
    """Show waiting events: their bytes as text, or in hex if they are not UTF-8."""
    _print_waiting(asked, [asked.table(table)], events=event or (), columns=_SHOWN)


@helped(quarantine, "quarantine discard")
@shared("project", "format")
def discard_waiting(
    asked: Request,
    *,
    table: TableArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why they must not land; kept beside them.")],
    event: EventOption = None,
    is_all: Annotated[bool, typer.Option("--all", help="All that wait.")] = False,
) -> None:
    """Discard waiting events.

    Tests and replays skip them then. Their bytes stay, with the reason.
    """
    from cdc_views.operations.quarantining import discard

    if is_all == bool(event):
        raise UsageError("give either --event ID, as `quarantine list` shows it, or --all")
    target = asked.table(table)
    count = discard(target, events=event or (), why=reason)
    asked.print(_DISCARDED, [{"table": target.name, "discarded": count}])
    log.info(f"{target.name}: {count:,} events of quarantine are discarded; their bytes and reasons stay there")


helped(quarantine, "quarantine replay")(replay)


def _print_waiting(asked: Request, tables: Sequence[Table], *, events: Sequence[str], columns: Sequence[str]) -> None:
    from cdc_views.landing.redaction import without_values
    from cdc_views.operations.quarantining import waiting_of

    records = [
        {
            "table": table.name,
            "event": one.event_id[:_ID],
            **fields_of(one, ("source", "line")),
            "reason": one.reason if "content" in columns else without_values(one.reason, table.schema),
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
    """List the changes that landed too late to be merged.

    Cell by cell: each landed after the table's lateness horizon, and is older than what the state had purged by then.
    """
    target = asked.table(table)
    asked.print_json(_LATE, _late_rows(target.schema, target.late()), WRITTEN)


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
