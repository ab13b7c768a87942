"""`produce mariadb`: MariaDB's row binlog, followed by GTID."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.commands_produce import (
    ListenOption,
    OnError,
    OnErrorOption,
    TablesOption,
    default_name,
    order_of,
    run_source,
)
from cdc_views.cli.options import LogFormatOption, ProjectOption


def add_to(produce: typer.Typer) -> None:
    """Add the source to `produce`."""
    produce.command("mariadb")(mariadb)


def mariadb(
    project: ProjectOption = Path("cdc_views.yml"),
    table: TablesOption = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Of the positions; default: cdc_views_ and the project's name."),
    ] = None,
    server_id: Annotated[
        int, typer.Option("--server-id", metavar="N", help="Server id it reads as, one of its own; default: made of the name.")
    ] = 0,
    gtid_domain: Annotated[
        int | None,
        typer.Option("--gtid-domain", metavar="N", help="GTID domain of the tables' changes; default: the server's."),
    ] = None,
    skip_snapshot: Annotated[bool, typer.Option("--skip-snapshot", help="Land only what changes from now on.")] = False,
    snapshot_again: Annotated[
        bool,
        typer.Option("--snapshot-again", help="Empty the views and read the tables anew: after a purge. Give it once."),
    ] = False,
    allow_unkeyed: Annotated[
        bool, typer.Option("--allow-unkeyed", help="Take tables whose key names several rows; they show as one.")
    ] = False,
    null_zero_dates: Annotated[
        bool, typer.Option("--null-zero-dates", help="Land 0000-00-00 and dates like it as null; else they go to quarantine.")
    ] = False,
    heartbeat: Annotated[
        float, typer.Option("--heartbeat", metavar="SECONDS", help="How often an idle server gives a sign of life.")
    ] = 1.0,
    on_error: OnErrorOption = OnError.LOG,
    listen: ListenOption = "127.0.0.1:0",
    log_format: LogFormatOption = "text",
) -> None:
    """MariaDB by its row binlog: a snapshot without a lock, then every change, each once.

    The connection comes from CDC_VIEWS_MARIADB_HOST (several, by commas: the first that answers), _PORT, _USER, _PASSWORD
    and _TLS (off, on, verify) with _TLS_CA, _TLS_CERT and _TLS_KEY.
    """
    options = {
        "name": default_name(project) if name is None else name,
        "server_id": server_id,
        "gtid_domain": gtid_domain,
        "skips_snapshot": skip_snapshot,
        "snapshots_again": snapshot_again,
        "allows_unkeyed": allow_unkeyed,
        "nulls_zero_dates": null_zero_dates,
        "heartbeat_seconds": heartbeat,
    }
    order = order_of(project, table, on_error=on_error, listen=listen)
    run_source("mariadb", replace(order, options=options))
