"""Engines that run plans: DuckDB in this process, and plug-ins (`cdc_views.engines.plugin`)."""
