"""State: winners of a raw table, kept in a Delta table, brought up to date by what landed since (rule M1)."""

from __future__ import annotations

from cdc_views.state.run import Forgetting, Materialization, materialize, sources_of

__all__ = ["Forgetting", "Materialization", "materialize", "sources_of"]
