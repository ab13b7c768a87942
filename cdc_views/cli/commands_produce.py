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

if TYPE_CHECKING:
    from cdc_views.landing.targets import ProducerOrder

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
    }
    name = _default_slot(project) if slot is None else slot
    options |= {"slot": name, "publication": name if publication is None else publication}
    order = _order(project, table, on_error=on_error, listen=listen)
    _run("postgres", replace(order, options=options))


@produce.command("kafka")
def kafka(
    project: ProjectOption = Path("cdc_views.yml"),
    table: TablesOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC=TABLE",
            help="The topic of a table; may be repeated. Default: `raw: {topics: …}`, else the topic that ends in its name.",
        ),
    ] = None,
    bootstrap: Annotated[
        str, typer.Option("--bootstrap", metavar="HOST:PORT", help="Brokers; default: CDC_VIEWS_KAFKA_BOOTSTRAP_SERVERS.")
    ] = "",
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="Consumer group; default: cdc_views_ and the project's name.")
    ] = None,
    begins: Annotated[
        str, typer.Option("--from", metavar="earliest|latest", help="Where a topic begins that has not landed yet.")
    ] = "earliest",
    registry: Annotated[
        str, typer.Option("--registry", metavar="URL", help="Schema registry; default: CDC_VIEWS_SCHEMA_REGISTRY_URL, or none.")
    ] = "",
    key_format: Annotated[
        str, typer.Option("--key-format", metavar="auto|text", help="text: keys are plain text even where they look like JSON.")
    ] = "auto",
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on where Kafka has deleted what had not landed. Give it once.")
    ] = False,
    heartbeat: Annotated[float, typer.Option("--heartbeat", metavar="SECONDS", help="How often lag is measured.")] = 1.0,
    on_error: OnErrorOption = OnError.LOG,
    listen: ListenOption = "127.0.0.1:0",
    log_format: LogFormatOption = "text",
) -> None:
    """Topics of Kafka: Debezium's events, keys and values, or Cassandra mutations; JSON, or Avro by a schema registry.

    CDC_VIEWS_KAFKA_SASL_PASSWORD is the client's setting sasl.password, and so on for every one.
    """
    order = _order(project, table, on_error=on_error, listen=listen, format_name=None)
    options: dict[str, Any] = {
        **_topics_of(project, [target.name for target in order.targets], topic or []),
        "bootstrap": bootstrap,
        "group": _default_slot(project) if group is None else group,
        "begins": begins,
        "registry": registry,
        "key_format": key_format,
        "accepts_gap": accept_gap,
        "heartbeat_seconds": heartbeat,
    }
    _run("kafka", replace(order, options=options))


def _topics_of(project: Path, tables: list[str], given: list[str]) -> dict[str, Any]:
    """Return the raw format of each table, and the table of each topic that somebody named."""
    from cdc_views.api import Project
    from cdc_views.errors import UsageError, did_you_mean

    configs = {table.name: table.config for table in Project.load(project).select(tables)}
    topics: dict[str, str] = {}
    for text in given:
        topic, _, name = text.partition("=")
        if not topic or name not in configs:
            raise UsageError(f"--topic is {text!r}; TOPIC=TABLE was expected{did_you_mean(name, configs)}")
        topics[topic] = name
    for name, config in configs.items():
        if name not in topics.values():
            topics.update(dict.fromkeys(config.raw.topics, name))
    return {"topics": topics, "formats": {name: config.raw.format.value for name, config in configs.items()}}


def _default_slot(project: Path) -> str:
    from cdc_views.api import Project

    return "cdc_views_" + re.sub(r"[^a-z0-9_]", "_", Project.load(project).config.name.lower())[:50]


def _order(
    project: Path, tables: list[str] | None, *, on_error: OnError, listen: str, format_name: str | None = "debezium"
) -> ProducerOrder:
    from cdc_views.landing.targets import ProducerOrder
    from cdc_views.producing import targets_of

    return ProducerOrder(
        targets=targets_of(project, tables or (), format_name=format_name, log=log),
        log=log,
        stop=Event(),
        exits_on_error=on_error is OnError.EXIT,
        listen=None if listen == _NOWHERE else listen,
    )


def _run(source: str, order: ProducerOrder) -> None:
    from cdc_views.producing import open_producer
    from cdc_views.scheduling import run_until_stopped

    run = open_producer(source)

    def say() -> None:
        log.info("stopping: what was read lands first; a second signal ends at once, and loses nothing either")

    run_until_stopped(lambda stop: run(replace(order, stop=stop)), on_stop=say)
    log.info("stopped")


commands_later.add_to(produce)
