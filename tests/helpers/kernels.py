"""How tests let the strategy `kernel` run on Spark."""

from __future__ import annotations

import pytest

from cdc_views.formats.base import order_key

TRUNCATES = (order_key(1, ordinal=2), order_key(2, ordinal=1))
"""In the middle of whole-row histories."""


def through_spark(monkeypatch: pytest.MonkeyPatch, *, tasks: int = 3) -> None:
    """Let Spark read the facts, as on a cluster, for so many tasks, however few bytes there are."""
    monkeypatch.setattr("cdc_views_spark.choosing.Facts.are_opened", False)
    monkeypatch.setattr("cdc_views_spark.engine.tasks_of", lambda facts: tasks)
    monkeypatch.setattr("cdc_views_spark.choosing.tasks_of", lambda facts: tasks)
