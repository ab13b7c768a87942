"""Metrics in a file for node_exporter's textfile collector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdc_views.errors import UsageError


def check_textfile(file: Path) -> None:
    """Raise `UsageError` for a name that node_exporter does not read."""
    if file.suffix != ".prom":
        raise UsageError(f"--metrics {file}: a name that ends in .prom was expected; node_exporter reads no others")


def write_textfile(file: Path, collector: Any) -> None:  # what prometheus_client collects from
    """Write the file anew, whole; raises `UsageError` if it cannot be written."""
    from prometheus_client import write_to_textfile

    try:
        write_to_textfile(str(file), collector)
    except OSError as error:
        why = f"{error.strerror}; name a folder that is there and can be written to"
        raise UsageError(f"--metrics {file}: {why}") from error
