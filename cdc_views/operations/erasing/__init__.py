"""Erasure: a key removed from every table of the project, with proof, and kept from landing again.

`forgetting.forget` is the entry point; `sifting` and `forgotten` are what landing asks.
"""
