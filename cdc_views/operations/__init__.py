"""What is done with a table of a project, one verb a module; each takes a context (`operations.context`)."""
