"""Packages of Debian's archive, fetched into a folder by this machine's apt: no root, nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class NoPackagesError(Exception):
    """Packages could not be fetched; the message says why."""


def unpack(names: Sequence[str], folder: Path, *, suite: str, alone: bool = False) -> list[str]:
    """Unpack packages of a suite into a folder, with all that they need or `alone`; return the files' names.

    The suite's signed index says what the packages' bytes are.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoPackagesError(f"{names[0]} comes as Debian's packages, and this machine cannot unpack them")
    for name in ("lists/partial", "debs/partial", "cache"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb {_archive()} {suite} main\n")
    where = {
        "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status", "Dir::Cache": folder / "cache", "Dir::Cache::archives": folder / "debs",
        "APT::Install-Recommends": 0, "Debug::NoLocking": 1, "Acquire::Languages": "none", "APT::Sandbox::User": "root",
    }  # fmt: skip
    apt = ["apt-get", "-qq", *(part for name, value in where.items() for part in ("-o", f"{name}={value}"))]
    for command in (["update"], [*(("download",) if alone else ("-y", "--download-only", "install")), *names]):
        done = subprocess.run([*apt, *command], capture_output=True, text=True, timeout=300, check=False, cwd=folder / "debs")
        if done.returncode:
            raise NoPackagesError(f"Debian's packages of {names[0]} could not be fetched: {done.stderr[-1000:]}")
    packages = [*(folder / "debs").glob("*.deb")]
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True, timeout=120)
    for leftover in ("debs", "lists", "cache"):
        shutil.rmtree(folder / leftover)
    return [package.name for package in packages]


def _archive() -> str:
    """The archive that this machine is set up with."""
    found = subprocess.run(
        ["grep", "-rhoE", r"[a-z]+://[^ ]+/debian/?( |$)", "/etc/apt/sources.list", "/etc/apt/sources.list.d/"],
        capture_output=True, text=True, check=False, timeout=10,
    ).stdout.split()  # fmt: skip
    if not found:
        raise NoPackagesError("this machine's apt has no archive of Debian's")
    return found[0]
