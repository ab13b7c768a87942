"""BigQuery as the warehouse: datasets, raw tables and views in it, and reads that run there.

The client is imported by the first call (extra `bigquery`); what only writes SQL needs none.
"""

from __future__ import annotations

from cdc_views_bigquery.warehouse import BigQueryWarehouse

WAREHOUSE = BigQueryWarehouse()
"""What the entry point `cdc_views.warehouses` names."""

__all__ = ["WAREHOUSE", "BigQueryWarehouse"]
