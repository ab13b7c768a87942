"""PostgreSQL: a consistent snapshot, then the logical replication slot that began with it (pgoutput)."""
