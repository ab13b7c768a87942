"""State: the winners of a raw table in a Delta table, kept up to date from new facts (rule M1)."""

from __future__ import annotations

from cdc_views.state.outcome import Materialization
from cdc_views.state.run import NOTHING, Forgetting, materialize, sources_of

__all__ = ["NOTHING", "Forgetting", "Materialization", "materialize", "sources_of"]
