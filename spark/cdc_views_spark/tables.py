"""Delta tables in Spark's SQL."""

from __future__ import annotations

from pathlib import Path


def delta_sql(location: str) -> str:
    """Return the FROM clause of the newest version of the Delta table at a path or URL."""
    location = location if "://" in location else str(Path(location).resolve())
    return "delta.`" + location.replace("`", "``") + "`"
