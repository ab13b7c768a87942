"""Cassandra: the snapshot of its tables."""
