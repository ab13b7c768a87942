"""Debezium's change events of relational sources."""
