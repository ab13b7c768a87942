"""State and serving tables that SQL scripts keep inside BigQuery; this package writes the scripts, and runs nothing.

A script is one multi-statement transaction. It reads the tail, reduces it with the touched facts of the state, merges both
tables, and moves the watermark: all of it happens, or nothing.
"""

from __future__ import annotations

from cdc_views_bigquery.merging.columns import serving_columns
from cdc_views_bigquery.merging.scripts import facts_view, refresh_script, run_script, setup_script
from cdc_views_bigquery.merging.tables import Merging

__all__ = ["Merging", "facts_view", "refresh_script", "run_script", "serving_columns", "setup_script"]
