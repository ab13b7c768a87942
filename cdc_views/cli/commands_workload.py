"""`workload`: changes made at a source, to try producers with."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from threading import Event
from typing import Annotated, Any

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import LogFormatOption
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.model.extras import load

_GROUP = "cdc_views.workloads"
_FROM_ENVIRONMENT = "env"


def workload(
    name: Annotated[str, typer.Argument(metavar="NAME", help="todo or orders.")],
    postgres: Annotated[
        str | None,
        typer.Option("--postgres", metavar="DSN", help="Where; env: CDC_VIEWS_POSTGRES_DSN, else libpq's variables."),
    ] = None,
    mariadb: Annotated[str | None, typer.Option("--mariadb", metavar="URL", help="Where; env: CDC_VIEWS_MARIADB_URL.")] = None,
    cassandra: Annotated[
        str | None, typer.Option("--cassandra", metavar="HOST:PORT", help="Where; env: CDC_VIEWS_CASSANDRA.")
    ] = None,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0, help="From one change to the next.")] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="The same changes for the same seed, on empty tables.")] = 0,
    events: Annotated[int | None, typer.Option("--events", metavar="N", min=1, help="Stop after so many changes.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", min=0, help="Stop after so long.")] = None,
    ddl: Annotated[bool, typer.Option("--ddl", help="Print the tables' DDL, for a schema file, and do nothing.")] = False,
    log_format: LogFormatOption = "text",
) -> None:
    """Insert, update and delete at a source, to try its producer: `todo` on PostgreSQL, `orders` on Cassandra and MariaDB.

    It creates its tables where they are not there, and changes nothing else.
    """
    found = _entry("ddl" if ddl else "run")
    systems = {"postgres": postgres, "mariadb": mariadb, "cassandra": cassandra}
    given = [(system, address) for system, address in systems.items() if address is not None]
    if len(given) != 1:
        raise UsageError("give one of --postgres, --mariadb and --cassandra")
    ((system, address),) = given
    if ddl:
        typer.echo(found(name, system), nl=False)
        return
    _run(found, {"name": name, "system": system, "address": _address(system, address)}
         | {"seed": seed, "every": every, "events": events, "seconds": seconds})  # fmt: skip


def _run(run: Any, order: dict[str, Any]) -> None:
    from cdc_views.operations.scheduling import run_until_stopped

    made: dict[str, int] = {}

    def until(stop: Event) -> None:
        made.update(run(order, stop))

    log.info(f"workload {order['name']} on {order['system']}, seed {order['seed']}")
    run_until_stopped(until, on_stop=lambda: None)
    counts = ", ".join(f"{count:,} {kind}s" for kind, count in sorted(made.items())) or "no changes"
    log.info(f"made {counts}", **made)


def _address(system: str, given: str) -> str:
    variables = {"postgres": "CDC_VIEWS_POSTGRES_DSN", "mariadb": "CDC_VIEWS_MARIADB_URL", "cassandra": "CDC_VIEWS_CASSANDRA"}
    return os.environ.get(variables[system], "") if given == _FROM_ENVIRONMENT else given


def _entry(name: str) -> Any:
    for entry in entry_points(group=_GROUP, name=name):
        return load(entry, what="`workload`", extra="producers")
    raise UnsupportedError("no workload is installed", remedy="install cdc-views itself (a checkout is not enough): make install")
