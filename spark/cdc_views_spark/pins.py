"""SHA-256 digests of the files that are fetched by Maven coordinates: what a repository gives is compared with them.

`jars.sha256` has a line a file: its digest, and `group:artifact:version/file`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from cdc_views.errors import EngineError

_REMEDY = "it may have been tampered with or cut short; fetch again, and do not use it where it differs again"


def check_pins(coordinates: tuple[str, str, str], folder: Path) -> None:
    """Check all files that were fetched for coordinates into a folder.

    Raises:
        EngineError: Nothing is known of the coordinates, or a file is missing, unknown, or not what it was; names it.
    """
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
