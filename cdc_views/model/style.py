"""How the text of a generated view is written, by the names that the command line uses."""

from __future__ import annotations

from enum import Enum


class Style(str, Enum):
    """Whether a view's text stands alone; both give equal rows."""

    PLAIN = "plain"
    """One statement, which needs nothing but the tables that it reads."""
    MACROS = "macros"
    """What is the same for every column is a function of the view's schema, which all its views share."""
