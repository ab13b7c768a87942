"""Options that commands share: those of nearly all (`shared`), and others as annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cdc_views.cli.log import log
from cdc_views.cli.printing import as_json_rows, check_format, print_rows
from cdc_views.errors import UsageError
from cdc_views.rules.codec.jsontext import JsonRow

if TYPE_CHECKING:
    from cdc_views.api import Project
    from cdc_views.table import Table

DEFAULT_PROJECT = Path("cdc_views.yml")


@dataclass
class RunningCommand:
    """The project file of the running command, to look for damage after a failure; None until it is known."""

    project_file: Path | None = None


running = RunningCommand()


def _note_project(file: Path) -> Path:
    running.project_file = file
    return file


def _use_log(context: typer.Context, name: str) -> str:
    return log.use(name, command=context.command_path)


ProjectOption = Annotated[Path, typer.Option("--project", metavar="FILE", help="The project file.", callback=_note_project)]
LogFormatOption = Annotated[
    str, typer.Option("--log-format", metavar="text|json", help="The format of the log.", callback=_use_log, is_eager=True)
]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="keyspace.table, as in the project file.")]
EngineOption = Annotated[str | None, typer.Option(metavar="ENGINE", help="duckdb, spark or bigquery; default: the project's.")]
StrategyOption = Annotated[
    str | None,
    typer.Option(metavar="STRATEGY", help="auto, aggregate, window, self_join or, on Spark, kernel; default: the view's."),
]
AsOfOption = Annotated[
    str | None, typer.Option(metavar="INSTANT", help="The clock cells expire by: epoch seconds or ISO 8601; default: now.")
]

_SelectOption = Annotated[list[str] | None, typer.Option(metavar="TABLE", help="Only this table; may be repeated.")]
_FormatOption = Annotated[str, typer.Option(metavar="table|json|jsonl|csv", help="The format of rows.", callback=check_format)]
_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "project": (ProjectOption, DEFAULT_PROJECT),
    "select": (_SelectOption, None),
    "format": (_FormatOption, "table"),
    "log_format": (LogFormatOption, "text"),
}
"""Type and default of each option, in the order of `--help`."""


@dataclass(frozen=True)
class Request:
    """The values of the shared options; an empty `select` means all tables."""

    project_file: Path = DEFAULT_PROJECT
    select: Sequence[str] = ()
    format: str = "table"

    @cached_property
    def project(self) -> Project:
        """The project; raises `ConfigError` with the line of any mistake."""
        from cdc_views.api import Project

        return Project.load(self.project_file)

    @property
    def tables(self) -> Sequence[Table]:
        """The selected tables; by default all of the project."""
        return self.project.select(self.select)

    def table(self, name: str) -> Table:
        """Return one table; raises `UsageError` if `--select` names only others."""
        if self.select and name not in self.select:
            raise UsageError(f"{name} is not among the tables of --select ({', '.join(self.select)}); leave --select out")
        return self.project.table(name)

    def print(self, columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> None:
        """Print records of plain values; `columns` defines the order."""
        self.print_json(columns, as_json_rows(records))

    def print_json(self, columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
        """Print rows of JSON texts; `columns` defines the order."""
        print_rows(columns, rows, format=self.format)


Command = Callable[..., None]


def shared(*names: Literal["project", "select", "format"]) -> Callable[[Command], Command]:
    """Add shared options and `--log-format` to a command, whose first argument is the `Request`."""

    def decorate(command: Command) -> Command:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        more = [keyword(name, *_OPTIONS[name]) for name in _OPTIONS if name in (*names, "log_format")]

        @wraps(command)
        def run(**given: Any) -> None:
            del given["log_format"]  # its callback has already used it
            found = {name: given.pop(name) for name in names}
            asked = Request(found.get("project", DEFAULT_PROJECT), found.get("select") or (), found.get("format", "table"))
            command(asked, **given)

        return declared(run, [*own, *more])

    return decorate


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return an option of a command, for `declared`."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def declared(run: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """Return `run` with the signature that typer reads."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
