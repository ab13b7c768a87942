"""Where plans run: DuckDB in this process, and what packages plug in (`cdc_views.engines.plugin`)."""
