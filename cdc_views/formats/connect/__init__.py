"""Kafka Connect's values, as Debezium writes them."""
