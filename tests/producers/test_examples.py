"""The systemd units and container files of `producers/examples`: well formed, of commands and options that exist."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.examples import ROOT, problems_of_command, problems_of_container

from cdc_views.cli.producing import producer_names

pytestmark = pytest.mark.heavy

UNITS = sorted(ROOT.glob("producers/examples/*/*.service")) + sorted(ROOT.glob("ops/systemd/*.service"))
CONTAINERS = [ROOT / "ops" / "Containerfile", *sorted((ROOT / "producers" / "examples").glob("*/Containerfile"))]
KEYS = {
    "Unit": {"Description", "After", "Wants", "Requires", "StartLimitIntervalSec", "StartLimitBurst"},
    "Service": {"User", "Group", "WorkingDirectory", "EnvironmentFile", "Environment", "ExecStart", "Restart", "RestartSec"}
    | {"RestartPreventExitStatus", "TimeoutStopSec", "MemoryMax", "NoNewPrivileges", "ProtectSystem", "ReadWritePaths", "Type"}
    | {"CacheDirectory", "StateDirectory", "Nice", "ProtectHome", "PrivateTmp", "UMask", "KillMode", "ReadOnlyPaths"}
    | {"ProtectKernelTunables", "ProtectKernelModules", "ProtectControlGroups", "RestrictSUIDSGID", "LockPersonality"}
    | {"RestrictAddressFamilies", "CapabilityBoundingSet", "RestrictNamespaces", "RestrictRealtime", "PrivateDevices"}
    | {"SystemCallFilter", "SystemCallErrorNumber", "SystemCallArchitectures"},
    "Install": {"WantedBy"},
}
MOST_EXPOSED = 40
"""Tenths of systemd's measure."""


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def problems_of_unit(text: str) -> list[str]:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    found = [f"no [{section}]" for section in KEYS if not unit.has_section(section)]
    found += [f"[{s}] {key}" for s in unit.sections() for key in unit[s] if key not in KEYS.get(s, set())]
    return found + list(
        problems_of_command(shlex.split(unit.get("Service", "ExecStart", fallback="nothing").replace("\\\n", " ")))
    )


def test_there_are_some() -> None:
    assert {*producer_names()} == {path.parent.name for path in UNITS} & {path.parent.name for path in CONTAINERS}


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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=names(UNITS))
def test_a_unit_can_do_little(unit: Path) -> None:
    """systemd's own measure: 0 is nothing, 10 is all; a unit without any of these settings has 9.2."""
    words = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(unit)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert said.returncode == 0, said.stdout.splitlines()[-1]


@pytest.mark.parametrize("container", CONTAINERS, ids=names(CONTAINERS))
def test_a_container_file_is_well_formed(container: Path) -> None:
    assert problems_of_container(container.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Restart=", "Restrat=", "[Service] Restrat"),
        ("cdc-produce-postgres --", "cdc-produce-postgre --", "cdc-produce-postgre is no console script"),
        ("--listen", "--lisen", "cdc-produce-postgres: No such option: --lisen (Possible options: --listen, --plugin)"),
        ("[Install]", "[Uninstall]", "no [Install]"),
    ],
)
def test_a_unit_gone_wrong_is_noticed(old: str, new: str, said: str) -> None:
    text = (ROOT / "producers/examples/postgres/cdc-produce-postgres.service").read_text()
    assert said in problems_of_unit(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("USER 10001", "USER root", "runs as root, or as a name that --user cannot check"),
        ("COPY spark ", "COPY sparks ", "sparks is not there to copy"),
        ("EXPOSE", "EXPOSES", "instruction EXPOSES"),
        ("HEALTHCHECK", "LABEL", "no HEALTHCHECK"),
        ('["cdc-views"]', '["cdc-view"]', "cdc-view is no console script"),
        ("BASE=", "BASE=registry.example/", "registry.example/python:3.12-slim names a registry"),
    ],
)
def test_a_container_file_gone_wrong_is_noticed(old: str, new: str, said: str) -> None:
    text = (ROOT / "ops" / "Containerfile").read_text()
    assert old in text
    assert said in problems_of_container(text.replace(old, new))


def test_an_option_gone_wrong_is_noticed() -> None:
    text = (ROOT / "producers/examples/http/Containerfile").read_text()
    assert any("No such option: --hosts" in said for said in problems_of_container(text.replace('"--host"', '"--hosts"')))
