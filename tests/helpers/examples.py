"""What files of examples run, checked against the command line itself; and container files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from cdc_views.cli.app import app
from cdc_views.cli.log import log

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "ops" / "Containerfile"
INSTRUCTIONS = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "ENV", "STOPSIGNAL", "HEALTHCHECK"} | {
    "ENTRYPOINT",
    "CMD",
    "ARG",
}


def scripts() -> set[str]:
    """The console scripts of pyproject.toml (read by hand: Python 3.10 has no tomllib)."""
    section = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]\n")[2].partition("\n[")[0]
    return {line.partition(" = ")[0] for line in section.splitlines() if line}


def problems_of_command(words: Sequence[str]) -> Iterator[str]:
    """Yield what the command line's own parser says against a command; nothing of it is run."""
    program = Path(words[0]).name
    if program not in scripts():
        yield f"{program} is no console script"
        return
    producer = [] if program == "cdc-views" else ["produce", program.removeprefix("cdc-produce-")]
    try:
        _parse(typer.main.get_command(app), program, [*producer, *words[1:]])
    except Exception as error:
        yield f"{program}: {error.format_message() if hasattr(error, 'format_message') else error}"
    finally:
        log.reset()


def _parse(command: Any, name: str, arguments: list[str]) -> None:
    context = command.make_context(name, arguments)
    if hasattr(command, "resolve_command"):
        found, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        _parse(inner, found, rest)


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a container file, with what follows each."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines)).splitlines()
    return [tuple(line.split(" ", 1)) for line in joined if line]  # type: ignore[misc]


def problems_of_container(text: str) -> list[str]:
    """What is wrong with a container file; one from `cdc-views` has what `ops/Containerfile` has."""
    given = instructions(text)
    found = [f"instruction {name}" for name, _ in given if name not in INSTRUCTIONS]
    if [value for name, value in given if name == "FROM"][-1:] == ["cdc-views"]:
        given = instructions(IMAGE.read_text()) + given
    users = [value for name, value in given if name == "USER"]
    found += (
        [] if users and users[-1].isdecimal() and users[-1] != "0" else ["runs as root, or as a name that --user cannot check"]
    )
    copied = [part for name, value in given if name == "COPY" and "--from" not in value for part in value.split()[:-1]]
    found += [f"{part} is not there to copy" for part in copied if not (ROOT / part).exists()]
    bases = [value.split()[0] for name, value in given if name == "FROM"]
    bases += re.findall(r"--from=(\S+)", text) + [value.partition("=")[2] for name, value in given if name == "ARG"]
    found += [f"{base} names a registry" for base in bases if _names_a_registry(base)]
    found += [f"no {name}" for name in ("HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT") if name not in dict(given)]
    return found + _problems_of_entry(given)


def _names_a_registry(image: str) -> bool:
    host, slash, _ = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def _problems_of_entry(given: Sequence[tuple[str, str]]) -> list[str]:
    words = dict(given)
    command = json.loads(words.get("ENTRYPOINT", "[]"))
    if command == ["cdc-views"]:
        command += json.loads(words.get("CMD", "[]"))
    if command[1:] == ["--help"]:
        return [*problems_of_command(["cdc-views", "status"])]
    return [*problems_of_command(command)] if command else []
