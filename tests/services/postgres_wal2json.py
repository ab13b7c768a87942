"""A PostgreSQL 15 with the plug-in wal2json: this machine's own server, and Debian's package of the plug-in beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.debian import NoPackagesError, unpack
from services.postgres import Postgres, running

INSTALLATION = Path("/usr/lib/postgresql/15")
_PACKAGE, _SUITE = "postgresql-15-wal2json", "bookworm"


@contextmanager
def running_with_wal2json() -> Iterator[Postgres]:
    """A server with an empty database, gone at the end; raises `NoPackagesError` if there is none."""
    if not (INSTALLATION / "bin" / "postgres").exists():
        raise NoPackagesError(f"there is no PostgreSQL 15 in {INSTALLATION}: apt-get install postgresql-15")
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-wal2json-"))
    try:
        unpack([_PACKAGE], folder, suite=_SUITE, alone=True)
        (plugin,) = folder.rglob("wal2json.so")
        for place in (folder, *(part for part in folder.rglob("*") if part.is_dir())):
            os.chmod(place, 0o755)
        with running(installation=INSTALLATION, dynamic_library_path=f"{plugin.parent}:$libdir") as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
