"""A dbt project's part of a cdc-views project: macros, models, tests and docs generated from the same plans.

The hand-written package `dbt_compat` dispatches to what `export` writes. `duckdb_plugin` shows dbt-duckdb the raw tables.
"""

from __future__ import annotations

from cdc_views.export.dbt.export import export
from cdc_views.export.exporting import Exported

__all__ = ["Exported", "export"]
