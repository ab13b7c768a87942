"""Serving tables: a table's rows as plain columns, for people and BI tools, brought up to date from what changed."""

from __future__ import annotations

from cdc_views.state.serving.run import Served, serve

__all__ = ["Served", "serve"]
