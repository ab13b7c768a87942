"""`produce http`: the HTTP receiver, which reads its own options."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import LogFormatOption, ProjectOption

SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Of the command: whatever it does not know, `--help` included, is the receiver's."""


def http(
    context: typer.Context,
    project: ProjectOption = Path("cdc_views.yml"),
    log_format: LogFormatOption = "text",
) -> None:
    """Events by HTTP, as Debezium Server posts them: answered once they have landed."""
    from cdc_views.cli.producing import open_producer, receiving
    from cdc_views.landing.targets import ProducerOrder

    arguments = [*context.args, *(["--log-format", log_format] if log_format != "text" else [])]
    receive = open_producer("http")
    if any(word in ("-h", "--help") for word in context.args):  # needs no project
        receive(ProducerOrder((), log, Event(), options={"arguments": arguments}))
    else:
        receive(receiving(project, arguments, log))
