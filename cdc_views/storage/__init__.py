"""The layout of facts in raw tables, and the generations of states."""
