"""Bytes as money."""

from __future__ import annotations

from cdc_views_bigquery.config import BigQueryConfig

TIB, GIB = 1024**4, 1024**3
LEAST_BILLED = 10 * 1024**2
"""A query bills at least 10 MB for each table it reads. Source: BigQuery pricing, On-demand compute."""


def price(reads: int, config: BigQueryConfig) -> float:
    """Return what a query costs on demand; `reads` is of one table."""
    return max(reads, LEAST_BILLED) / TIB * config.price_per_tib if reads else 0.0


def storage(size: int, config: BigQueryConfig) -> float:
    """Return what a month of so many active logical bytes costs."""
    return size / GIB * config.storage_price_per_gib
