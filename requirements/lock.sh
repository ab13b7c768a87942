#!/bin/sh
# Renews the hashed requirements; no index address ends up in them. They are complete, so they are installed with --no-deps:
# pip, resolving beside hashes, would take a newer release of what one package needs with an extra and refuse it.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install --quiet uv
compile() {
  .venv/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-strip-extras --no-header \
    --no-emit-index-url --no-emit-find-links "$@"
}
compile pyproject.toml --extra spark --extra quality --extra contracts --extra dbt --extra producers --extra bigquery --extra bigquery-write --extra dev --output-file requirements/dev.txt
compile pyproject.toml --extra spark --extra quality --extra contracts --extra dbt --extra producers --extra bigquery --extra bigquery-write --extra dev --extra bench --constraint requirements/dev.txt --output-file requirements/bench.txt
compile requirements/docs.in --output-file requirements/docs.txt
compile pyproject.toml --extra sqlmesh --output-file requirements/sqlmesh.txt  # a venv of its own: SQLMesh pins other versions of sqlglot and DuckDB
compile pyproject.toml requirements/airflow.in --output-file requirements/airflow.txt  # as are the orchestrators
compile pyproject.toml requirements/dagster.in --output-file requirements/dagster.txt
compile requirements/pg_dump.in --output-file requirements/pg_dump.txt
compile requirements/paimon.in --output-file requirements/paimon.txt  # a table that tests/bench/paimon.py compares with
