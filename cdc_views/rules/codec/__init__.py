"""Codecs of logical types: serialized bytes, comparables, JSON text, columns of a raw table."""
