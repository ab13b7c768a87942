"""`produce SOURCE`: a long-running process that lands what a source writes, until it is told to stop."""

from __future__ import annotations

import typer

from cdc_views.cli import commands_later
from cdc_views.cli.commands_http import SETTINGS, http

produce = typer.Typer(help="Land what a source writes, as it writes it, until told to stop.", no_args_is_help=True)
produce.command("http", context_settings=SETTINGS)(http)
commands_later.add_to(produce)
