"""DuckDB: reads, views, states and serving tables."""
