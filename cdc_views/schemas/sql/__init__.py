"""SQL DDL of PostgreSQL and MySQL, and the types it names."""
