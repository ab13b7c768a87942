"""Prometheus and its promtool: those of the machine, or Debian's package unpacked into the cache. Neither is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from helpers.pinned import ROOT


class NoPrometheusError(Exception):
    """There is no Prometheus, and none could be fetched; the message says why."""


def program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`; raises `NoPrometheusError`."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    folder = Path(os.environ.get("CDC_VIEWS_CACHE", ROOT / ".cache")) / "prometheus-debian"
    unpacked = folder / "usr" / "bin" / name
    if not unpacked.exists():
        _fetch(folder)
    return unpacked


def _fetch(folder: Path) -> None:
    """Unpack Debian's package beside its place, then rename it: two processes may fetch at once."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoPrometheusError("no Prometheus on the PATH, and this is no Debian that could fetch its package")
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        said = _download(partial)
        packages = [*partial.glob("prometheus_*.deb")]
        if not packages:
            raise NoPrometheusError(f"Debian's package prometheus could not be fetched: {said}")
        subprocess.run(["dpkg-deb", "-x", packages[0], partial], check=True, timeout=120)
        packages[0].unlink()
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _download(folder: Path) -> str:
    """Fetch the package; a machine whose lists of packages are missing or old gets them first, if we may."""
    said = ""
    for command in (["apt-get", "download", "prometheus"], ["apt-get", "update", "-qq"], ["apt-get", "download", "prometheus"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        said = done.stderr.strip()
        if [*folder.glob("prometheus_*.deb")]:
            break
    return said
