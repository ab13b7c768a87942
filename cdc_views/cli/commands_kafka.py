"""`produce kafka`: topics into raw tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc_views.cli.commands_produce import (
    ListenOption,
    OnError,
    OnErrorOption,
    OutputFormatOption,
    TablesOption,
    ToOption,
    TopicPrefixOption,
    default_name,
    destination_of,
    order_of,
    run_source,
)
from cdc_views.cli.options import LogFormatOption, ProjectOption


def add_to(produce: typer.Typer) -> None:
    """Add the source to `produce`."""
    produce.command("kafka")(kafka)


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
    to: ToOption = "",
    topic_prefix: TopicPrefixOption = "",
    output_format: OutputFormatOption = "json",
    on_error: OnErrorOption = OnError.LOG,
    listen: ListenOption = "127.0.0.1:0",
    log_format: LogFormatOption = "text",
) -> None:
    """Topics of Kafka: Debezium's events, keys and values, or Cassandra mutations; JSON, or Avro by a schema registry.

    CDC_VIEWS_KAFKA_SASL_PASSWORD is the client's setting sasl.password, and so on for every one.
    """
    order = order_of(project, table, on_error=on_error, listen=listen, format_name=None)
    options: dict[str, Any] = {
        **_topics_of(project, [target.name for target in order.targets], topic or []),
        "bootstrap": bootstrap,
        "group": default_name(project) if group is None else group,
        "begins": begins,
        "registry": registry,
        "key_format": key_format,
        "accepts_gap": accept_gap,
        "heartbeat_seconds": heartbeat,
    }
    run_source("kafka", replace(order, options=options, to=destination_of(to, topic_prefix, output_format)))


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
    return {"topics": topics, "formats": {name: config.raw.format for name, config in configs.items()}}
