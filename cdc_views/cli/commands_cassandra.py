"""`produce cassandra`: the agent that stands beside one node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc_views.cli.commands_produce import ListenOption, OnError, OnErrorOption, TablesOption, order_of, run_source
from cdc_views.cli.options import LogFormatOption, ProjectOption

_FORMAT = "cassandra-mutation"


def cassandra(
    project: ProjectOption = Path("cdc_views.yml"),
    table: TablesOption = None,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="The node this agent stands beside.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="Its CQL port.")] = 9042,
    cdc_folder: Annotated[
        Path | None, typer.Option("--cdc-folder", metavar="DIR", help="Its cdc_raw folder; default: as the node says.")
    ] = None,
    cassandra_lib: Annotated[
        Path | None,
        typer.Option(
            "--cassandra-lib", metavar="DIR", help="Its lib folder; default: jars of --cassandra-version, fetched once."
        ),
    ] = None,
    cassandra_version: Annotated[
        str, typer.Option("--cassandra-version", metavar="VERSION", help="Of the jars to fetch, without --cassandra-lib.")
    ] = "5.0.9",
    schema_file: Annotated[
        Path | None,
        typer.Option("--schema-file", metavar="FILE", help="CQL of DESCRIBE … WITH INTERNALS, in place of asking the node."),
    ] = None,
    work_folder: Annotated[
        Path | None,
        typer.Option(
            "--work-folder", metavar="DIR", help="The remembered schema, and what could not be read; default: beside the project."
        ),
    ] = None,
    after: Annotated[
        str, typer.Option("--after", metavar="delete|archive|keep", help="What becomes of a segment that has landed.")
    ] = "delete",
    archive: Annotated[
        str, typer.Option("--archive", metavar="URL", help="Where --after archive puts segments: a folder, or a URL of fsspec.")
    ] = "",
    follow_schema: Annotated[
        str,
        typer.Option(
            "--follow-schema",
            metavar="append|warn",
            help="Write ALTERs to the project's CQL file when the node's schema changes.",
        ),
    ] = "append",
    poll: Annotated[float, typer.Option("--poll", metavar="SECONDS", help="How often an idle cdc_raw is looked at.")] = 0.1,
    heap: Annotated[str, typer.Option("--heap", metavar="SIZE", help="Memory of the Java part.")] = "256m",
    warn_at: Annotated[
        float,
        typer.Option("--warn-at", metavar="PART", help="Part of cdc_total_space that is held when it is said to be nearly full."),
    ] = 0.7,
    snapshot: Annotated[
        str,
        typer.Option(
            "--snapshot",
            metavar="initial|only|never",
            help="Read rows from before the log: where a table needs it, alone and of every table, or never.",
        ),
    ] = "initial",
    snapshot_consistency: Annotated[
        str, typer.Option("--snapshot-consistency", metavar="LEVEL", help="The consistency level a snapshot reads at.")
    ] = "LOCAL_QUORUM",
    snapshot_rate: Annotated[
        int, typer.Option("--snapshot-rate", metavar="ROWS", help="Rows a second a snapshot reads at most; 0: no limit.")
    ] = 0,
    on_error: OnErrorOption = OnError.LOG,
    listen: ListenOption = "127.0.0.1:0",
    log_format: LogFormatOption = "text",
) -> None:
    """Cassandra by its commit log (CDC): what one node was told, mutation by mutation, with every write time and deletion.

    Run one beside each node. User and password come from CDC_VIEWS_CASSANDRA_USER and CDC_VIEWS_CASSANDRA_PASSWORD.
    """
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "cdc_folder": cdc_folder,
        "cassandra_lib": cassandra_lib,
        "cassandra_version": cassandra_version,
        "schema_file": schema_file,
        "work_folder": work_folder or project.parent / ".cdc-views" / f"cassandra-{host.replace(':', '_')}-{port}",
        "after": after,
        "archive": archive,
        "follow_schema": follow_schema,
        "poll_seconds": poll,
        "heap": heap,
        "warns_at": warn_at,
        "snapshot": snapshot,
        "snapshot_consistency": snapshot_consistency,
        "snapshot_rate": snapshot_rate,
    }
    order = order_of(project, table, on_error=on_error, listen=listen, format_name=_FORMAT)
    run_source("cassandra", replace(order, options=options))
