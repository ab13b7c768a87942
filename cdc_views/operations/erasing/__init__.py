"""Erasure: removes a key from every table of the project, proves it, and keeps the key from landing again."""
