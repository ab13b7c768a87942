"""Files of Maven coordinates, fetched once into a folder by the Ivy in pyspark.

Each file must match `jars.sha256`, which has one line per file: its digest, and `group:artifact:version/file`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from os import getpid
from pathlib import Path

from cdc_views.errors import EngineError
from cdc_views_spark.java import java_home, trust_options

Coordinates = tuple[str, str, str]
"""Group, artifact and version."""
_ATTEMPTS = 3
_PAUSE = 5
"""Seconds before the second attempt; twice as long before the third."""
_TELLING = re.compile(r"unresolved|not found|timed? ?out|refused|error", re.IGNORECASE)
_COMPLETE = "complete"


def fetched(
    coordinates: Coordinates, folder: Path, *, finish: Callable[[Path], None], instead: tuple[Coordinates, ...] = ()
) -> Path:
    """Return `folder` with the artifact and its dependencies, fetched on the first call; `finish` may change the new files.

    `instead`: fetch these with what they depend on, and not what the artifact says that it depends on.

    Raises `EngineError` if no repository answers in three attempts, or the files do not match `jars.sha256`.
    """
    if not (folder / _COMPLETE).exists():
        # fetch beside the place, then rename: two processes may fetch at once, or one may be killed
        beside = folder.with_name(f"{folder.name}.{getpid()}")
        _fetch(coordinates, beside, instead)
        try:
            check_pins(coordinates, beside)
        except EngineError:
            shutil.rmtree(beside)
            raise
        finish(beside)
        (beside / _COMPLETE).touch()
        _put_in_place(beside, folder)
    return folder


def leave_out(beginnings: tuple[str, ...]) -> Callable[[Path], None]:
    """Return a `finish` of `fetched` that removes the jars whose names begin so."""

    def finish(folder: Path) -> None:
        for jar in folder.glob("*.jar"):
            if jar.name.startswith(beginnings):
                jar.unlink()

    return finish


def _put_in_place(beside: Path, folder: Path) -> None:
    if folder.exists() and not (folder / _COMPLETE).exists():
        shutil.rmtree(folder, ignore_errors=True)
    try:
        beside.rename(folder)
    except OSError:
        if not (folder / _COMPLETE).exists():
            raise
        shutil.rmtree(beside)  # another process was first


def _fetch(coordinates: Coordinates, folder: Path, instead: tuple[Coordinates, ...]) -> None:
    said: str | None = ""
    for attempt in range(_ATTEMPTS):
        said = _tried(coordinates, folder, instead)
        if said is None:
            return
        time.sleep(_PAUSE * (attempt + 1))
    tail = "\n".join([line.strip() for line in (said or "").splitlines() if _TELLING.search(line)][:5])
    raise EngineError(f"{':'.join(coordinates)} could not be fetched; is there a network?\n{tail}")


def _tried(coordinates: Coordinates, folder: Path, instead: tuple[Coordinates, ...]) -> str | None:
    """Try once; return None on success, else Ivy's output."""
    import pyspark

    # a new Ivy cache each time: a half-filled one makes Ivy fail
    ivy_cache = folder.with_name(f"{folder.name}.ivy")
    ivy = next((Path(str(pyspark.__file__)).parent / "jars").glob("ivy-*.jar"))
    home = java_home(folder.parent)
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(home / "bin" / "java"), *trust_options(home, folder.parent), "-jar", str(ivy), "-cache", str(ivy_cache)]
    asked = folder.with_name(f"{folder.name}.xml")
    asked.write_text(_module(coordinates, instead), "utf-8")
    command += ["-ivy", str(asked), "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    shutil.rmtree(ivy_cache, ignore_errors=True)
    asked.unlink()
    has_it = any(folder.glob(f"{coordinates[1]}-*"))
    return None if done.returncode == 0 and has_it else done.stdout + done.stderr


def _module(coordinates: Coordinates, instead: tuple[Coordinates, ...]) -> str:
    """Return Ivy's description of what to fetch; `master` is an artifact without what it depends on."""
    wanted = [(coordinates, "master" if instead else "default"), *((one, "default") for one in instead)]
    lines = (f'<dependency org="{g}" name="{a}" rev="{v}" conf="default->{conf}"/>' for (g, a, v), conf in wanted)
    head = '<ivy-module version="2.0"><info organisation="cdc-views" module="jars"/><configurations><conf name="default"/>'
    return f"{head}</configurations><dependencies>{''.join(lines)}</dependencies></ivy-module>"


_REMEDY = "it may have been tampered with or cut short; fetch again, and do not use it where it differs again"


def check_pins(coordinates: tuple[str, str, str], folder: Path) -> None:
    """Check all fetched files; raises `EngineError` for unknown coordinates, or a missing, unknown or changed file."""
    name = ":".join(coordinates)
    known = _known().get(name)
    if known is None:
        remedy = "name a folder that has them (--cassandra-lib)"
        raise EngineError(f"{name} is not fetched: cdc-views knows no SHA-256 of its files; {remedy}")
    found = {file.name: file for file in folder.iterdir()}
    if odd := sorted(found.keys() ^ known.keys()):
        raise EngineError(f"{name}: {odd[0]} was {'not ' if odd[0] in known else ''}given by the repository; {_REMEDY}")
    for file, digest in sorted(known.items()):
        if hashlib.sha256(found[file].read_bytes()).hexdigest() != digest:
            raise EngineError(f"{name}: {file} has another SHA-256 than {digest}; {_REMEDY}")


@cache
def _known() -> dict[str, dict[str, str]]:
    pins: dict[str, dict[str, str]] = {}
    for line in files("cdc_views_spark").joinpath("jars.sha256").read_text("utf-8").splitlines():
        digest, place = line.split()
        coordinates, _, file = place.partition("/")
        pins.setdefault(coordinates, {})[file] = digest
    return pins
