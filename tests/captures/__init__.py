"""Captures of real servers' events, for the examples of `cdc-views demo`."""
