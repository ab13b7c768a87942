"""`produce SOURCE`: a long-running process that lands what a source writes, until it is told to stop."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.cli import commands_later
from cdc_views.cli.commands_http import SETTINGS, http
from cdc_views.cli.log import log
from cdc_views.cli.options import LogFormatOption, ProjectOption
from cdc_views.cli.progress import shown_snapshots

if TYPE_CHECKING:
    from cdc_views.landing.targets import Destination, ProducerOrder

produce = typer.Typer(help="Land what a source writes, as it writes it, until told to stop.", no_args_is_help=True)
produce.command("http", context_settings=SETTINGS)(http)
_NOWHERE = "none"


class OnError(str, Enum):
    """What a bad event does; it goes to quarantine either way."""

    LOG = "log"
    EXIT = "exit"


TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="TABLE", help="Only this table; may be repeated. Default: all of the source's raw format."),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error", metavar="log|exit", help="What an event that cannot be landed does; it goes to quarantine either way."
    ),
]
ListenOption = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where /healthz and /metrics are; port 0: any free one, told at start; none: nowhere.",
    ),
]
ToOption = Annotated[
    str,
    typer.Option("--to", metavar="kafka://HOST:PORT", help="Publish there instead of landing in raw tables: rows by their key."),
]
TopicPrefixOption = Annotated[str, typer.Option("--topic-prefix", metavar="NAME", help="With --to: topics are NAME.TABLE.")]
OutputFormatOption = Annotated[str, typer.Option("--output-format", metavar="json|avro", help="With --to: of keys and rows.")]


@produce.command("postgres")
def postgres(
    project: ProjectOption = Path("cdc_views.yml"),
    table: TablesOption = None,
    slot: Annotated[
        str | None, typer.Option("--slot", metavar="NAME", help="Replication slot; default: cdc_views_ and the project's name.")
    ] = None,
    publication: Annotated[
        str | None, typer.Option("--publication", metavar="NAME", help="Publication; default: named as the slot.")
    ] = None,
    skip_snapshot: Annotated[bool, typer.Option("--skip-snapshot", help="Land only what changes from now on.")] = False,
    snapshot_again: Annotated[
        bool, typer.Option("--snapshot-again", help="Empty the views and read the tables anew: after a lost slot. Give it once.")
    ] = False,
    allow_unkeyed: Annotated[
        bool, typer.Option("--allow-unkeyed", help="Take tables whose deletions do not name their row; those do not land.")
    ] = False,
    heartbeat: Annotated[float, typer.Option("--heartbeat", metavar="SECONDS", help="How often an idle server is asked.")] = 1.0,
    echo: Annotated[
        float | None,
        typer.Option("--echo", metavar="SECONDS", help="Write a message into the log so often, and take lag by what comes back."),
    ] = None,
    confirm: Annotated[
        float,
        typer.Option("--confirm", metavar="SECONDS", help="How often tables without changes let log go; a commit each."),
    ] = 30.0,
    keep_dropped_partitions: Annotated[
        bool,
        typer.Option("--keep-dropped-partitions", help="Go on showing rows of partitions that were dropped or emptied."),
    ] = False,
    plugin: Annotated[str, typer.Option("--plugin", metavar="NAME", help="Output plugin of the slot; pgoutput.")] = "pgoutput",
    to: ToOption = "",
    topic_prefix: TopicPrefixOption = "",
    output_format: OutputFormatOption = "json",
    on_error: OnErrorOption = OnError.LOG,
    listen: ListenOption = "127.0.0.1:0",
    log_format: LogFormatOption = "text",
) -> None:
    """PostgreSQL by logical replication: a snapshot, then every change, each once.

    The connection comes from libpq's variables (PGHOST, PGUSER, PGPASSWORD …) or CDC_VIEWS_POSTGRES_DSN.
    """
    options: dict[str, Any] = {
        "skips_snapshot": skip_snapshot,
        "snapshots_again": snapshot_again,
        "allows_unkeyed": allow_unkeyed,
        "heartbeat_seconds": heartbeat,
        "echo_seconds": echo,
        "confirm_seconds": confirm,
        "keeps_dropped_partitions": keep_dropped_partitions,
        "plugin": plugin,
    }
    name = default_name(project) if slot is None else slot
    options |= {"slot": name, "publication": name if publication is None else publication}
    order = order_of(project, table, on_error=on_error, listen=listen)
    run_source("postgres", replace(order, options=options, to=destination_of(to, topic_prefix, output_format)))


def destination_of(to: str, topic_prefix: str, output_format: str) -> Destination | None:
    """Return where `--to` and its options say that events go; None: into raw tables."""
    from cdc_views.errors import UsageError
    from cdc_views.landing.targets import Destination

    if to:
        return Destination(to, topic_prefix, output_format)
    if topic_prefix or output_format != "json":
        raise UsageError("--topic-prefix and --output-format go with --to, which says where topics are")
    return None


def default_name(project: Path) -> str:
    """Return the name of a project's slot, publication or positions, where none is given."""
    from cdc_views.api import Project

    return "cdc_views_" + re.sub(r"[^a-z0-9_]", "_", Project.load(project).config.name.lower())[:50]


def order_of(
    project: Path, tables: list[str] | None, *, on_error: OnError, listen: str, format_name: str | None = "debezium"
) -> ProducerOrder:
    """Return what a source is asked to do, without its own options; its tables are those of that raw format, None: of any."""
    from cdc_views.cli.producing import targets_of
    from cdc_views.landing.targets import ProducerOrder

    return ProducerOrder(
        targets=targets_of(project, tables or (), format_name=format_name, log=log),
        log=log,
        stop=Event(),
        exits_on_error=on_error is OnError.EXIT,
        listen=None if listen == _NOWHERE else listen,
    )


def run_source(source: str, order: ProducerOrder) -> None:
    """Run a source until a signal tells it to stop."""
    from cdc_views.cli.producing import open_producer, with_destination
    from cdc_views.operations.scheduling import run_until_stopped

    run, order = open_producer(source), with_destination(order)

    def say() -> None:
        log.info("stopping: what was read lands first; a second signal ends at once, and loses nothing either")

    with shown_snapshots() as progress:
        run_until_stopped(lambda stop: run(replace(order, stop=stop, progress=progress)), on_stop=say)
    log.info("stopped")


commands_later.add_to(produce)
