"""Options that commands share: those of nearly all (`shared`), and others as annotations."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cdc_views.cli.completion import column_names, engine_names, one_of, strategy_names, table_names
from cdc_views.cli.log import log
from cdc_views.cli.printing import FORMATS, PLAIN, Appearance, as_json_rows, check_format, print_rows
from cdc_views.errors import UsageError
from cdc_views.rules.codec.jsontext import JsonRow

if TYPE_CHECKING:
    from cdc_views.api import Project
    from cdc_views.table import Table

DEFAULT_PROJECT = Path("cdc_views.yml")


@dataclass
class RunningCommand:
    """The project file of the running command, to appearance for damage after a failure; None until it is known."""

    project_file: Path | None = None


running = RunningCommand()


def _note_project(file: Path) -> Path:
    running.project_file = file
    return file


def _check_engine(name: str | None) -> str | None:
    if name is not None:
        from cdc_views.engines.plugin import engine_plugin

        engine_plugin(name)
    return name


def _use_log(context: typer.Context, name: str) -> str:
    return log.use(name, command=context.command_path)


ProjectOption = Annotated[Path, typer.Option("--project", metavar="FILE", help="The project file.", callback=_note_project)]
LogFormatOption = Annotated[
    str, typer.Option("--log-format", metavar="text|json", help="The format of the log.", callback=_use_log, is_eager=True)
]
_TABLE = "keyspace.table, as in the project file; its last part is enough if it is unique."
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help=_TABLE, autocompletion=table_names)]
TableOption = Annotated[str, typer.Option(metavar="TABLE", help=_TABLE, autocompletion=table_names)]
EngineOption = Annotated[
    str | None,
    typer.Option(
        metavar="ENGINE",
        help="duckdb, spark or bigquery; default: the project's.",
        callback=_check_engine,
        autocompletion=one_of(engine_names),
    ),
]
StrategyOption = Annotated[
    str | None,
    typer.Option(
        metavar="STRATEGY",
        help="auto, aggregate, window, self_join or, on Spark, kernel; default: the view's.",
        autocompletion=one_of(strategy_names),
    ),
]
AsOfOption = Annotated[
    str | None, typer.Option(metavar="INSTANT", help="The clock for expiry: epoch seconds or ISO 8601; default: now.")
]

ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "--column",
        metavar="COLUMN,…",
        help="Only these columns, in this order; may be repeated.",
        autocompletion=column_names,
    ),
]

_SelectOption = Annotated[
    list[str] | None, typer.Option(metavar="TABLE", help="Only this table; may be repeated.", autocompletion=table_names)
]
_HiddenSelectOption = Annotated[list[str] | None, typer.Option(metavar="TABLE", hidden=True)]
"""Of a command that names its table: it changes nothing there, and is taken since every command takes it."""
_FormatOption = Annotated[
    str,
    typer.Option(
        metavar=FORMATS, help="The format of rows.", callback=check_format, autocompletion=one_of(lambda: FORMATS.split("|"))
    ),
]
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
        found = self.project.table(name)
        if self.select and not any(found.is_called(name) for name in self.select):
            raise UsageError(f"{found.name} is not among the tables of --select ({', '.join(self.select)}); leave --select out")
        return found

    @property
    def is_for_people(self) -> bool:
        """Whether rows are laid out for people."""
        return self.format in ("table", "vertical")

    def print(self, columns: Sequence[str], records: Iterable[Mapping[str, Any]], appearance: Appearance = PLAIN) -> None:
        """Print records of plain values; `columns` defines the order."""
        self.print_json(columns, as_json_rows(records), appearance)

    def print_json(self, columns: Sequence[str], rows: Iterable[JsonRow], appearance: Appearance = PLAIN) -> None:
        """Print rows of JSON texts; `columns` defines the order."""
        print_rows(columns, rows, format=self.format, appearance=appearance)


def check_writable(files: Mapping[str, Path | None]) -> None:
    """Raise `UsageError`, before a command works, for a file of an option (None: not given) that it could not write after it."""
    for option, file in files.items():
        if file is None:
            continue
        if file.is_dir() or not file.parent.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
            raise UsageError(f"{option} {file}: cannot be written; name a file in a folder that is there and can be written to")


def columns_of(table: Table, given: Sequence[str] | None) -> list[str]:
    """Return the columns of `--columns a,b --columns c`; a column whose own name has a comma is given by itself."""
    return [name for one in given or () for name in ([one] if table.schema.has(one) else map(str.strip, one.split(",")))]


Command = Callable[..., None]


def shared(*names: Literal["project", "select", "format"]) -> Callable[[Command], Command]:
    """Add shared options and `--log-format` to a command, whose first argument is the `Request`."""

    def decorate(command: Command) -> Command:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        options = {**_OPTIONS, "select": (_HiddenSelectOption, None)} if any(one.name == "table" for one in own) else _OPTIONS
        more = [keyword(name, *options[name]) for name in options if name in (*names, "log_format")]

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
