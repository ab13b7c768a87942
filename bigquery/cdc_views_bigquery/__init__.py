"""BigQuery as the warehouse: datasets, raw tables and views in it, and reads that run there."""
