"""`--help` of commands that have commands: in groups, each with its whole summary."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

NO_GROUP = "Commands"


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


def group_of(command: Any) -> str:
    """Return the heading that the command stands under."""
    heading = getattr(command, "rich_help_panel", None)
    return heading if isinstance(heading, str) else NO_GROUP


def summary_of(command: Any) -> str:
    """Return the first line of a command's help."""
    return str((command.help or "").strip().partition("\n")[0])
