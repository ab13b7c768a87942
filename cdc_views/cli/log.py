"""The log on standard error, as plain lines or JSON lines, with the errors and warnings that several commands share."""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime, timezone
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.cli.log_lines import json_line, shown_time, text_line
from cdc_views.errors import CdcViewsError, ConfigError, EngineError, UsageError, choose_one

if TYPE_CHECKING:
    from cdc_views.table import Table

DEBUG_VARIABLE = "CDC_VIEWS_DEBUG"
FAILED = 3
"""The exit code of foreign errors."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BACKTRACE = re.compile(r"\s*(\d+: |at )")
LOG_FORMATS = ("text", "json")
_ROOT_LOGGER = "cdc_views"


class Log:
    """Writes log lines, of which each event is one: `info` of progress, `warning` of problems, `error` of failures. A message of
    several problems has a line for each in a plain log, and is one record in JSON.

    Attributes:
        format: One of `LOG_FORMATS`.
        logger: The command that logs, as `cdc_views.produce.http`.
        is_timed: Text lines begin with time, level and logger, too: those of commands that run until they are stopped.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again for another command."""
        self.format, self.logger, self.is_timed = "text", _ROOT_LOGGER, False

    def use(self, name: str, *, command: str = "") -> str:
        """Change the format, for a command as `cdc-views land`, and return it; raises `UsageError` for an unknown one."""
        if name not in LOG_FORMATS:
            raise UsageError(f"--log-format is {name!r}; {choose_one(name, LOG_FORMATS)}")
        self.format, self.logger = name, ".".join([_ROOT_LOGGER, *command.split()[1:]])
        logging.captureWarnings(capture=name == "json")
        return name

    def _write(self, level: str, message: str | Sequence[str], **facts: Any) -> None:
        self._write_as(self.logger, level, message, facts)

    def _write_as(self, logger: str, level: str, message: str | Sequence[str], facts: Mapping[str, Any]) -> None:
        now = datetime.now(timezone.utc)
        parts = [message] if isinstance(message, str) else message
        if self.format == "json":
            lines = [json_line(now, level, logger, "\n".join(parts), facts)]
        elif self.is_timed:
            lines = [text_line(f"{shown_time(now)} {level} {logger}: {part}") for part in parts]
        else:
            lines = [text_line(part if level == "info" else f"{level}: {part}") for part in parts]
        # one write, because several threads log
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()

    info = partialmethod(_write, "info")
    warning = partialmethod(_write, "warning")
    error = partialmethod(_write, "error")

    def library(self, record: logging.LogRecord) -> None:
        """Log what a library logs, under the library's own name."""
        level = "error" if record.levelno >= logging.ERROR else "warning" if record.levelno >= logging.WARNING else "info"
        facts = {"traceback": "".join(traceback.format_exception(*record.exc_info))} if record.exc_info else {}
        self._write_as(record.name, level, record.getMessage(), facts)


log = Log()


class _LibraryHandler(logging.Handler):
    """Brings libraries' records into the log's form; a plain log shows their messages."""

    def emit(self, record: logging.LogRecord) -> None:
        if log.format == "json" or log.is_timed:
            log.library(record)
        elif logging.root.handlers == [self] and logging.lastResort is not None and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record if _is_debugging() else _without_traceback(record))


def _without_traceback(record: logging.LogRecord) -> logging.LogRecord:
    shown = copy(record)
    shown.exc_info = shown.exc_text = shown.stack_info = None
    return shown


def _is_debugging() -> bool:
    return bool(os.environ.get(DEBUG_VARIABLE))


@contextmanager
def library_records() -> Iterator[None]:
    """Log what libraries log, during the block."""
    handler = _LibraryHandler()
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        logging.captureWarnings(capture=False)


@contextmanager
def quietly() -> Iterator[None]:
    """Keep a library's own logs and warnings off standard error; its return value has everything that matters."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def exit_code(error: Exception) -> int:
    """Return the exit code of a command that failed with this error."""
    return error.exit_code if isinstance(error, CdcViewsError) else FAILED


def log_error(error: Exception, *, prefix: str = "", **facts: Any) -> None:
    """Log the error, after `prefix`."""
    if _is_debugging() and log.format == "json":
        facts["traceback"] = "".join(traceback.format_exception(error))
    problems = error.problems if isinstance(error, ConfigError) else [message_of(error)]
    kind = "OSError" if _names_a_file(error) else type(error).__name__
    log.error([prefix + problem for problem in problems], kind=kind, **facts)
    if _is_debugging() and log.format != "json":
        traceback.print_exception(error)


def message_of(error: Exception) -> str:
    """Return the message; puts an engine's text on one line, without colours and backtraces."""
    if isinstance(error, EngineError):
        lines = [line.strip(" \t↳") for line in _COLOUR.sub("", str(error)).splitlines() if not _BACKTRACE.match(line)]
        return ": ".join(line for line in lines if line).replace(": ;", ";")
    if isinstance(error, CdcViewsError):
        return str(error)
    if _names_a_file(error):
        return f"{error.filename}: {error.strerror}; check the path, its permissions and the free space"  # type: ignore[attr-defined]
    if isinstance(error, (OSError, MemoryError)):
        return f"{_first_line(error) or type(error).__name__}; this machine refused it: check disk, memory and permissions"
    advice = f"this is a bug or a broken installation; set {DEBUG_VARIABLE}=1 to see where it was raised"
    return f"unexpected {type(error).__name__}: {_first_line(error)}; {advice}"


def named(error: Exception, project: Path | None) -> Exception:
    """Return an error that names the damaged file behind `error`; `error` itself if there is none."""
    from cdc_views.api import Project
    from cdc_views.operations.damage import damage_behind

    if project is None:
        return error
    try:
        return damage_behind(error, Project.load(project).tables) or error
    except Exception:  # an unreadable project: the first error is clearer
        return error


def _names_a_file(error: Exception) -> bool:
    return isinstance(error, OSError) and error.filename is not None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


def warn_of_quarantine(*tables: Table, views: str = "") -> None:
    """Warn of external tables with quarantined rows, which queries leave out; `views`: what their views in a dialect do."""
    for table in tables:
        if table.is_external:
            from cdc_views.operations.generating import reads_table
            from cdc_views.operations.ingest import quarantine_note

            is_in_place = partial(reads_table, table, views)
            if note := quarantine_note(table, is_in_place=is_in_place) if views else quarantine_note(table):
                log.warning(f"{table.name}: {note}")


def warn_of_late(name: str, count: int) -> None:
    """Warn of facts that a run quarantined because they landed too late."""
    if count:
        what = f"{count:,} facts landed after the lateness horizon and are not shown"
        log.warning(f"{name}: {what}; `cdc-views late {name}` lists them", table=name)
