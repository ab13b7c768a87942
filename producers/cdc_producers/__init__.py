"""Separate processes that land real changes; see ../README.md for what comes here."""
