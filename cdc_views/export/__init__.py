"""A project's tables for other tools: dbt, SQLMesh, data contracts."""
