#!/bin/sh
# Renews the hashed requirements; no index address ends up in them.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install --quiet uv
compile() {
  .venv/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-strip-extras --no-header \
    --no-emit-index-url --no-emit-find-links pyproject.toml "$@"
}
compile --extra spark --extra quality --extra dbt --extra producers --extra dev --output-file requirements/dev.txt
compile --extra spark --extra quality --extra dbt --extra producers --extra dev --extra bench --constraint requirements/dev.txt --output-file requirements/bench.txt
