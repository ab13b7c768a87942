"""The entry point: runs a command and turns its errors into messages and exit codes.

0 done, 1 a check failed, 2 usage or configuration, 3 the engine or a source failed; 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import typer

from cdc_views.cli.app import app
from cdc_views.cli.log import FAILED, log, log_error, named
from cdc_views.cli.shared import running
from cdc_views.errors import CdcViewsError, did_you_mean
from cdc_views.model.extras import missing_extra

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    log.format = "text"
    running.project_file = None
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # the reader has closed our output; Python would complain again when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def produce() -> int:
    """Run `cdc-views produce SOURCE` with this process's arguments, as the script `cdc-produce-SOURCE`."""
    return main(["produce", Path(sys.argv[0]).stem.removeprefix("cdc-produce-"), *sys.argv[1:]])


@cache  # typer reads every command's signature anew each time
def _command() -> Any:
    return typer.main.get_command(app)


def _run(arguments: list[str]) -> int:
    try:
        code = _command().main(arguments, standalone_mode=False, prog_name="cdc-views")
        return code if isinstance(code, int) else 0
    except CdcViewsError as error:
        log_error(named(error, running.project_file))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        log.error("interrupted; what was committed stays, and the same command goes on from there")
        return _INTERRUPTED
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer ends with 1 there
            raise error.__context__ from None
        raise
    except BrokenPipeError:
        raise
    except ImportError as error:
        missing = missing_extra(error, what="this command")
        log_error(missing or error)
        return FAILED if missing is None else missing.exit_code
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own, whose base class moved between versions
            return _usage(error)
        log_error(named(error, running.project_file))
        return FAILED


def _usage(error: Any) -> int:
    """Log typer's complaint about the command line, with a suggestion."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return int(error.exit_code)
    message = str(error.format_message()).split(" (Possible options")[0]
    if getattr(error, "option_name", None) and getattr(error, "ctx", None):
        known = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
        message = f"{message}{did_you_mean(error.option_name, known)}"
    command = error.ctx.command_path if getattr(error, "ctx", None) else "cdc-views"
    log.error(f"{message} (see `{command} --help`)", kind="UsageError")
    return int(error.exit_code)
