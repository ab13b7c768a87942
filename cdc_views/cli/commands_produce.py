"""`produce`: runs a producer, found by its entry point in the group `cdc_views.producers`.

An entry point is a function `main(arguments, project) -> exit code`: it reads its own options, those after SOURCE, and
raises this project's errors. The core knows no producer, and no producer knows the command line.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

import typer

from cdc_views.cli.options import LogFormatOption, ProjectOption
from cdc_views.errors import UnsupportedError, UsageError, did_you_mean

_GROUP = "cdc_views.producers"
_SCRIPT_PREFIX = "cdc-produce-"
_LATER = ("cassandra", "postgres", "mysql", "mariadb", "kafka")
_HELP = ("-h", "--help")

SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Of the command: whatever it does not know, `--help` included, is the producer's."""


def produce(
    context: typer.Context,
    source: str = typer.Argument("--help", metavar="SOURCE", help="Which producer; its own options follow."),
    project: ProjectOption = Path("cdc_views.yml"),
    log_format: LogFormatOption = "text",
) -> None:
    """Run a producer: land changes as they come. `produce SOURCE --help` lists a producer's options."""
    from cdc_views.api import Project

    found = {point.name: point for point in entry_points(group=_GROUP)}
    if source in _HELP:
        print(f"Usage: cdc-views produce SOURCE [--project FILE] [OPTIONS]; SOURCE is one of: {', '.join(sorted(found))}")
        return
    if source not in found:
        raise _unknown(source, sorted(found))
    try:
        main = found[source].load()
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"`produce {source}` needs {error.name}", remedy="pip install 'cdc-views[producers]'") from error
    is_help = any(word in _HELP for word in context.args)
    more = ["--log-format", log_format] if log_format != "text" else []
    code = main([*context.args, *more], None if is_help else Project.load(project))
    if code:
        raise typer.Exit(code)


def _unknown(source: str, known: list[str]) -> UsageError:
    if source in _LATER:
        return UnsupportedError(
            f"`produce {source}` is not there yet",
            remedy="`land` appends event files, or standard input; `produce http` receives what others post",
        )
    return UsageError(f"there is no producer {source!r}{did_you_mean(source, known)}")


def script() -> int:
    """Run the producer that the console script of this process is named after: `cdc-produce-http`."""
    from cdc_views.cli.main import main

    name = Path(sys.argv[0]).name.removesuffix(".exe").removeprefix(_SCRIPT_PREFIX)
    return main(["produce", name, *sys.argv[1:]])
