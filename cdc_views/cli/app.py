"""The commands, in the order `--help` lists them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from cdc_views.cli import (
    commands_events,
    commands_export,
    commands_materialize,
    commands_produce,
    commands_project,
    commands_query,
    commands_state,
    commands_validate,
    commands_warehouse,
)

app = typer.Typer(
    name="cdc-views",
    help="Views of the latest row of every key, over raw change events.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked:
        print(f"cdc-views {version('cdc-views')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    is_version_asked: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


app.command("init")(commands_project.init)
app.command("land")(commands_events.land)
app.command("replay")(commands_events.replay)
app.add_typer(commands_events.quarantine, name="quarantine")
app.command("tail")(commands_events.tail)
app.command("generate")(commands_project.generate)
app.command("plan")(commands_project.plan)
app.command("apply")(commands_project.apply)
app.command("status")(commands_warehouse.status)
app.command("cost")(commands_warehouse.cost)
app.command("materialize")(commands_materialize.materialize)
app.command("rebuild")(commands_state.rebuild)
app.command("late")(commands_events.late)
app.command("maintain")(commands_state.maintain)
app.command("forget")(commands_state.forget)
app.command("query")(commands_query.query)
app.command("explain")(commands_query.explain)
app.command("history")(commands_query.history)
app.command("fidelity")(commands_query.fidelity)
app.command("replicas")(commands_query.replicas)
app.command("validate")(commands_validate.validate)
app.command("report")(commands_validate.report)
app.add_typer(commands_export.contract, name="contract")
app.add_typer(commands_export.dbt, name="dbt")
app.add_typer(commands_export.sqlmesh, name="sqlmesh")
app.add_typer(commands_produce.produce, name="produce")
