"""The systemd units and container files of `producers/examples`: well formed, of commands and options that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from cdc_views.cli.app import app

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "producers" / "examples").glob("*/*.service"))
CONTAINERS = sorted((ROOT / "producers" / "examples").glob("*/Containerfile"))
KEYS = {
    "Unit": {"Description", "After", "Wants", "Requires", "StartLimitIntervalSec", "StartLimitBurst"},
    "Service": {"User", "Group", "WorkingDirectory", "EnvironmentFile", "Environment", "ExecStart", "Restart", "RestartSec"}
    | {"RestartPreventExitStatus", "TimeoutStopSec", "MemoryMax", "NoNewPrivileges", "ProtectSystem", "ReadWritePaths", "Type"}
    | {"CacheDirectory", "StateDirectory", "Nice"},
    "Install": {"WantedBy"},
}
INSTRUCTIONS = {
    "FROM",
    "RUN",
    "COPY",
    "USER",
    "WORKDIR",
    "VOLUME",
    "EXPOSE",
    "ENV",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "ARG",
}


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT / "producers" / "examples")) for path in paths]


def scripts() -> set[str]:
    """The console scripts of pyproject.toml (read by hand: Python 3.10 has no tomllib)."""
    section = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]\n")[2].partition("\n[")[0]
    return {line.partition(" = ")[0] for line in section.splitlines() if line}


def known_options(source: str) -> set[str]:
    command = typer.main.get_command(app).commands["produce"].get_command(None, source)  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts}


def problems_of_command(words: list[str]) -> Iterator[str]:
    command = Path(words[0]).name
    if command not in scripts():
        yield f"{command} is no console script"
        return
    options = known_options(command.removeprefix("cdc-produce-"))
    yield from (f"{command} has no {word}" for word in words[1:] if word.startswith("--") and word not in options)


def problems_of_unit(text: str) -> list[str]:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    found = [f"no [{section}]" for section in KEYS if not unit.has_section(section)]
    found += [f"[{s}] {key}" for s in unit.sections() for key in unit[s] if key not in KEYS.get(s, set())]
    return found + list(problems_of_command(shlex.split(unit.get("Service", "ExecStart", fallback="nothing"))))


def instructions(text: str) -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def problems_of_container(text: str) -> list[str]:
    given = instructions(text)
    found = [f"instruction {name}" for name, _ in given if name not in INSTRUCTIONS]
    found += [] if given[0][0] == "FROM" else ["does not begin with FROM"]
    users = [value for name, value in given if name == "USER"]
    found += [] if users and users[-1] not in ("0", "root") else ["runs as root"]
    copied = [part for name, value in given if name == "COPY" for part in value.split()[:-1]]
    found += [f"{part} is not there to copy" for part in copied if not (ROOT / part).exists()]
    entry = [json.loads(value) for name, value in given if name == "ENTRYPOINT"]
    return found + (list(problems_of_command(entry[-1])) if entry else ["no ENTRYPOINT"])


def test_there_are_some() -> None:
    assert {"http", "postgres"} <= {path.parent.name for path in UNITS} & {path.parent.name for path in CONTAINERS}


@pytest.mark.parametrize("unit", UNITS, ids=names(UNITS))
def test_a_unit_is_well_formed(unit: Path) -> None:
    assert problems_of_unit(unit.read_text()) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=names(UNITS))
def test_systemd_takes_a_unit(unit: Path, tmp_path: Path) -> None:
    """With a program that is here: the unit's own is where users install it."""
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE))
    said = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=30, check=False)
    told = [line for line in said.stderr.splitlines() if unit.name in line]
    assert told == []


@pytest.mark.parametrize("container", CONTAINERS, ids=names(CONTAINERS))
def test_a_container_file_is_well_formed(container: Path) -> None:
    assert problems_of_container(container.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Restart=", "Restrat=", "[Service] Restrat"),
        ("cdc-produce-postgres --", "cdc-produce-postgre --", "cdc-produce-postgre is no console script"),
        ("--listen", "--lisen", "cdc-produce-postgres has no --lisen"),
        ("[Install]", "[Uninstall]", "no [Install]"),
    ],
)
def test_a_unit_gone_wrong_is_noticed(old: str, new: str, said: str) -> None:
    text = (ROOT / "producers/examples/postgres/cdc-produce-postgres.service").read_text()
    assert said in problems_of_unit(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("USER 10001", "USER root", "runs as root"),
        ("COPY spark ", "COPY sparks ", "sparks is not there to copy"),
        ("EXPOSE", "EXPOSES", "instruction EXPOSES"),
        ('"--host"', '"--hosts"', "cdc-produce-http has no --hosts"),
    ],
)
def test_a_container_file_gone_wrong_is_noticed(old: str, new: str, said: str) -> None:
    text = (ROOT / "producers/examples/http/Containerfile").read_text()
    assert said in problems_of_container(text.replace(old, new))
