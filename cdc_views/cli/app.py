"""The command line: its commands, in the order of `--help`, and its entry point. Errors become messages and exit codes: 0 done,
1 a check failed, 2 usage or configuration, 3 engine or source failed, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc_views.cli import (
    commands_events,
    commands_export,
    commands_materialize,
    commands_produce,
    commands_project,
    commands_query,
    commands_state,
    commands_ui,
    commands_validate,
    commands_verify,
    commands_warehouse,
)
from cdc_views.cli.completion import completion, is_asked, prepare
from cdc_views.cli.groups import CommandGroups, helped
from cdc_views.cli.log import FAILED, library_records, log, log_error, named
from cdc_views.cli.shared import running
from cdc_views.errors import CdcViewsError, did_you_mean
from cdc_views.model.extras import missing_extra

app = typer.Typer(
    name="cdc-views",
    help="The latest row of every key, from raw change events: query it, keep it, explain each of its cells.",
    cls=CommandGroups,
    context_settings={"max_content_width": 100},
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


_PROJECT, _INGEST, _VIEWS = "Project", "Ingest", "Views and compacted state"
_INSPECT, _QUALITY, _TOOLS = "Read and explain", "Quality", "Other tools"

helped(app, "demo", rich_help_panel=_PROJECT)(commands_project.demo)
helped(app, "init", rich_help_panel=_PROJECT)(commands_project.init)
helped(app, "status", rich_help_panel=_PROJECT)(commands_warehouse.status)
helped(app, "doctor", rich_help_panel=_PROJECT)(commands_warehouse.doctor)
helped(app, "plan", rich_help_panel=_PROJECT)(commands_project.plan)
helped(app, "cost", rich_help_panel=_PROJECT)(commands_warehouse.cost)
helped(app, "completion", rich_help_panel=_PROJECT)(completion)
helped(app, "land", rich_help_panel=_INGEST)(commands_events.land)
app.add_typer(commands_produce.produce, name="produce", rich_help_panel=_INGEST)
helped(app, "tail", rich_help_panel=_INGEST)(commands_events.tail)
app.add_typer(commands_events.quarantine, name="quarantine", rich_help_panel=_INGEST)
helped(app, "replay", rich_help_panel=_INGEST)(commands_events.replay)
helped(app, "generate", rich_help_panel=_VIEWS)(commands_project.generate)
helped(app, "apply", rich_help_panel=_VIEWS)(commands_project.apply)
helped(app, "materialize", rich_help_panel=_VIEWS)(commands_materialize.materialize)
helped(app, "late", rich_help_panel=_VIEWS)(commands_events.late)
helped(app, "rebuild", rich_help_panel=_VIEWS)(commands_state.rebuild)
helped(app, "maintain", rich_help_panel=_VIEWS)(commands_state.maintain)
helped(app, "forget", rich_help_panel=_VIEWS)(commands_state.forget)
helped(app, "ui", rich_help_panel=_INSPECT)(commands_ui.ui)
helped(app, "query", rich_help_panel=_INSPECT)(commands_query.query)
helped(app, "explain", rich_help_panel=_INSPECT)(commands_query.explain)
helped(app, "history", rich_help_panel=_INSPECT)(commands_query.history)
helped(app, "replicas", rich_help_panel=_INSPECT)(commands_query.replicas)
helped(app, "fidelity", rich_help_panel=_QUALITY)(commands_query.fidelity)
helped(app, "validate", rich_help_panel=_QUALITY)(commands_validate.validate)
helped(app, "verify", rich_help_panel=_QUALITY)(commands_verify.verify)
helped(app, "report", rich_help_panel=_QUALITY)(commands_validate.report)
app.add_typer(commands_export.contract, name="contract", rich_help_panel=_QUALITY)
app.add_typer(commands_export.dbt, name="dbt", rich_help_panel=_TOOLS)
app.add_typer(commands_export.sqlmesh, name="sqlmesh", rich_help_panel=_TOOLS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    log.reset()
    running.project_file = None
    try:
        with library_records():
            code = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # the reader has closed our output; Python would complain again when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def produce() -> int:
    """Run `cdc-views produce SOURCE` with this process's arguments, for the script `cdc-produce-SOURCE`."""
    return main(["produce", Path(sys.argv[0]).stem.removeprefix("cdc-produce-"), *sys.argv[1:]])


@cache  # otherwise typer reads every command's signature again each time
def _command() -> Any:
    return typer.main.get_command(app)


def _run(arguments: list[str]) -> int:
    if is_asked():
        prepare()
    try:
        code = _command().main(arguments, standalone_mode=False, prog_name="cdc-views")
        return code if isinstance(code, int) else 0
    except CdcViewsError as error:
        log_error(named(error, running.project_file))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        log.error("interrupted; what was committed stays, and the same command goes on from there")
        return 130
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer exits with 1 then
            raise error.__context__ from None
        raise
    except BrokenPipeError:
        raise
    except ImportError as error:
        missing = missing_extra(error, what="this command")
        log_error(missing or error)
        return FAILED if missing is None else missing.exit_code
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's error, whose base class has moved between versions
            return _usage(error)
        log_error(named(error, running.project_file))
        return FAILED


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return int(error.exit_code)
    message = str(error.format_message()).split(" (Possible options")[0].replace("Value error, ", "")
    if getattr(error, "option_name", None) and getattr(error, "ctx", None):
        known = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
        message = f"{message}{did_you_mean(error.option_name, known)}"
    context = getattr(error, "ctx", None)
    if context is not None and context.parent is not None and message.startswith("No such command") and "Did you" not in message:
        message = f"{message.rstrip('.')}; choose one of {', '.join(context.command.list_commands(context))}"
    command = context.command_path if context else "cdc-views"
    log.error(f"{message} (see `{command} --help`)", kind="UsageError")
    return int(error.exit_code)
