"""Erasure: a key removed from every table of the project, with proof, and kept from landing again; see `forgetting`."""
