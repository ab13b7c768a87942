"""The operations on a project's tables, one verb per module; each takes a context (`operations.context`)."""
