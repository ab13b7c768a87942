"""The page of commands: from the command line's own definitions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import typer
from page_text import code, page, table

from cdc_views.cli.app import app
from cdc_views.cli.groups import summary_of


def commands_page() -> str:
    """Every command with its arguments, options and defaults, in the order of `cdc-views --help`."""
    root = typer.main.get_command(app)
    task = partial(_task, root)
    listed = list(_commands(root, ()))
    tasks = list(dict.fromkeys(map(task, listed)))
    found = sorted(listed, key=lambda one: tasks.index(task(one)))
    intro = (
        "Options follow the command. Standard output carries only the result; progress and notes go to standard error.\n"
        "What each exit code means: [errors](errors.md).\n"
    )
    links = "\n".join(f"**{name}**\n\n{''.join(map(_link, of_task))}" for name, of_task in groupby(found, task))
    own = "## Without a command\n\n" + _options(root.params)
    return page("Commands", intro, links, own, *(_section(path, command) for path, command in found))


def _task(root: Any, found: tuple[tuple[str, ...], Any]) -> str:
    """The heading of `--help` under which a command stands."""
    (name, *_), _ = found
    return str(root.get_command(None, name).rich_help_panel)


def _link(found: tuple[tuple[str, ...], Any]) -> str:
    path, command = found
    return f"- [`{' '.join(path)}`](#{'-'.join(path)}): {summary_of(command)}\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if getattr(command, "commands", None) is not None:
            yield from _commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: Any) -> str:
    named = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = _options(command.params)
    usage = " ".join(["cdc-views", *path, *(_metavar(argument) for argument in named), *(["[OPTIONS]"] if options else [])])
    parts = [f"## {' '.join(path)}\n", f"`{usage}`\n", inspect.cleandoc(command.help) + "\n"]
    if named:
        parts.append(table(("argument", "meaning"), [(code(_metavar(one)), one.help or "") for one in named]))
    examples = [f"```sh\n{command.epilog}\n```\n"] if command.epilog else []
    return "\n".join([*parts, *([options] if options else []), *examples])


def _options(parameters: Iterable[Any]) -> str:
    """The table of the options among the parameters, or nothing."""
    options = [one for one in parameters if one.param_type_name == "option" and not one.hidden]
    rows = [(_names(one), one.help or "", code(_default(one))) for one in options]
    return table(("option", "meaning", "default"), rows) if rows else ""


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _names(option: Any) -> str:
    names = " / ".join([*option.opts, *option.secondary_opts])
    return f"`{names}`" if option.is_flag else f"`{names} {option.metavar or option.name.upper()}`"


def _default(option: Any) -> str:
    """The default, where it says something: not for flags, and not where the help tells it."""
    if option.required:
        return "required"
    if option.is_flag:
        return "" if not option.secondary_opts else option.opts[0] if option.default else option.secondary_opts[0]
    shown = "" if option.default is None or option.default == () else str(getattr(option.default, "value", option.default))
    return "" if not re.search(r"\w", shown) and shown != "." else shown
