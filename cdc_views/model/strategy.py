"""The ways to find the latest cell, by the names that project files and the command line use."""

from __future__ import annotations

from enum import Enum


class Strategy(str, Enum):
    """How the latest cell is found; all give equal rows."""

    AUTO = "auto"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    SELF_JOIN = "self_join"
    KERNEL = "kernel"
    """DuckDB's SQL in Spark's tasks; for reads on Spark alone."""
