"""`--help`: commands in groups, each with its whole summary; a command's usage, its examples and its options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from cdc_views.cli.shown_examples import EXAMPLES

_Command = TypeVar("_Command", bound=Callable[..., Any])

NO_GROUP = "Commands"
_WHOLE = "\u2011"
"""A hyphen at which no line ends: a name of an option that is broken there cannot be copied."""


class CommandGroups(TyperGroup):
    """Lists its commands under the headings that `rich_help_panel` of each names, in the order of their first commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section a group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                sections.setdefault(group_of(command), []).append((name, summary_of(command)))
        width = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])


class HelpedCommand(TyperCommand):
    """A command whose help names arguments as manuals do, breaks no word, and ends in the examples of its epilog, one a line."""

    def get_help(self, ctx: Any) -> str:
        """Return the text of `--help`."""
        return super().get_help(ctx).replace(_WHOLE, "-")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name; what is optional is in brackets."""
        return [re.sub(r"^\{(.*)\}", r"\1", piece).replace("......", "...") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(_whole(inspect.cleandoc(self.help or "")))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            found = [one.get_help_record(ctx) for one in self.get_params(ctx) if one.param_type_name == kind]
            records = [(re.sub(r" <[^>]*>$", "", name), _whole(text)) for name, text in filter(None, found)]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        if self.epilog:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.epilog.splitlines()))


def helped(app: typer.Typer, path: str, **settings: Any) -> Callable[[_Command], _Command]:
    """Return the decorator that adds a command to `app`; `path`: the words after `cdc-views`."""
    return app.command(path.split()[-1], cls=HelpedCommand, epilog=EXAMPLES.get(path), **settings)


def _whole(text: str) -> str:
    return re.sub(r"(?<=\w)-(?=\w)|(?<=\s)--?(?=\w)|^--?(?=\w)", lambda found: _WHOLE * len(found[0]), text)


def group_of(command: Any) -> str:
    """Return the heading that the command stands under."""
    heading = getattr(command, "rich_help_panel", None)
    return heading if isinstance(heading, str) else NO_GROUP


def summary_of(command: Any) -> str:
    """Return the first line of a command's help."""
    return str((command.help or "").strip().partition("\n")[0])
