"""Debezium's change events of Cassandra."""
