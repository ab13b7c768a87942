"""`tail`: facts as they land."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import TableArgument
from cdc_views.cli.shared import Request, shared

_SECONDS = 0.3


@shared("project", "select")
def tail(
    asked: Request,
    *,
    table: TableArgument,
    from_start: Annotated[bool, typer.Option("--from-start", help="Start with the facts that have already landed.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop after the facts that have landed by now.")] = False,
) -> None:
    """Print the facts of a table as they land, one JSON object a line, until interrupted."""
    from cdc_views.operations.tailing import BEFORE_ALL, current_version, landed_after

    target = asked.table(table)
    try:
        version = BEFORE_ALL if from_start else current_version(target)
        while True:
            landed = landed_after(target, version)
            if landed.note:
                log.warning(landed.note)
            for line in landed.lines:
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
            version = landed.version
            if once:
                return
            time.sleep(_SECONDS)
    except KeyboardInterrupt:
        return
