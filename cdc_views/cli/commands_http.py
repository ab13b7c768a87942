"""`produce http`: runs the HTTP receiver, found by its entry point in the group `cdc_views.receivers`.

The entry point is a function `main(arguments, project) -> exit code`, which reads its own options and raises this
project's errors. The core knows no producer, and no producer knows the command line.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cdc_views.cli.options import LogFormatOption, ProjectOption
from cdc_views.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cdc_views.api import Project

_GROUP, _NAME = "cdc_views.receivers", "http"
_INSTALL = "pip install 'cdc-views[producers]'"

SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Of the command: whatever it does not know, `--help` included, is the receiver's."""


def http(
    context: typer.Context,
    project: ProjectOption = Path("cdc_views.yml"),
    log_format: LogFormatOption = "text",
) -> None:
    """Events by HTTP, as Debezium Server posts them: answered once they have landed."""
    from cdc_views.api import Project

    is_help = any(word in ("-h", "--help") for word in context.args)
    more = ["--log-format", log_format] if log_format != "text" else []
    code = _receiver()([*context.args, *more], None if is_help else Project.load(project))
    if code:
        raise typer.Exit(code)


def _receiver() -> Callable[[Sequence[str], Project | None], int]:
    found = [point for point in entry_points(group=_GROUP) if point.name == _NAME]
    if not found:
        raise UnsupportedError("the HTTP receiver is not installed", remedy=_INSTALL)
    try:
        main: Callable[[Sequence[str], Project | None], int] = found[0].load()
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"`produce http` needs {error.name}", remedy=_INSTALL) from error
    return main


def produce_http() -> int:
    """Run `cdc-views produce http` with this process's arguments: the console script `cdc-produce-http`."""
    from cdc_views.cli.main import main

    return main(["produce", "http", *sys.argv[1:]])
