"""The ways to find the latest cell, by name: what a project file and a command line may say."""

from __future__ import annotations

from enum import Enum


class Strategy(str, Enum):
    """How the latest cell is found; all give equal rows."""

    AUTO = "auto"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    SELF_JOIN = "self_join"
