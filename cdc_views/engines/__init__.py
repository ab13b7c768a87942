"""Where plans run: DuckDB in this process, Spark through an entry point of its own package."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from cdc_views.engines.base import Engine
from cdc_views.errors import ConfigError, UnsupportedError, did_you_mean
from cdc_views.model.extras import load, needs

ENGINES = ("duckdb", "spark", "bigquery")
"""Names that a project file may say."""


def open_engine(name: str, *, warehouse: Path) -> Engine:
    """Return an open engine whose views live under `warehouse`.

    Raises `ConfigError` for an unknown name, `UnsupportedError` for one that is not there yet or not installed.
    """
    if name == "duckdb":
        from cdc_views.engines.duckdb.engine import DuckDbEngine

        return DuckDbEngine(warehouse / "views.duckdb")
    if name == "bigquery":
        raise UnsupportedError(
            "engine bigquery reads raw tables that are in BigQuery, and this project's are not",
            remedy="set `engine: bigquery` and `warehouse: project.dataset` in the project file",
        )
    if name not in ENGINES:
        raise ConfigError(f"there is no engine {name!r}{did_you_mean(name, ENGINES)}")
    for entry in entry_points(group="cdc_views.engines"):
        if entry.name == name:
            opened = load(entry, what=f"engine {name}", extra=name)
            with needs(f"engine {name}", extra=name):
                engine: Engine = opened(warehouse=warehouse)
            return engine
    raise UnsupportedError(f"engine {name} is not installed", remedy=f"pip install 'cdc-views[{name}]'")
