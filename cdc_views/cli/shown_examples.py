"""Examples that `--help` ends in, by command: of what a new user would otherwise have to guess."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, str] = {
    "demo": "cdc-views demo\ncdc-views demo cassandra --dir carts",
    "init": "cdc-views init --from schema.sql --name shop\ncdc-views init --from postgresql://reader@db.example/shop",
    "cost": "cdc-views cost orders --facts 5000000 --facts-per-day 200000",
    "land": "cdc-views land debezium orders.jsonl --table orders\nzcat *.gz | cdc-views land debezium - --table orders",
    "tail": "cdc-views tail orders --from-start --once",
    "generate": "cdc-views generate --dialect bigquery --out views",
    "materialize": (
        "cdc-views materialize\n"
        "cdc-views materialize --schedule --metrics metrics/cdc.prom\n"
        "cdc-views materialize --engine spark --trigger available-now"
    ),
    "rebuild": "cdc-views rebuild orders --dry-run",
    "maintain": "cdc-views maintain --dry-run\ncdc-views maintain --drop-raw-older-than 30d --archive old",
    "forget": "cdc-views forget orders --key '{\"id\": 101}' --dry-run",
    "query": (
        'cdc-views query orders --where "amount > 20" --columns id,state\n'
        "cdc-views query orders --as-of 2026-11-21T09:00:00Z --format jsonl\n"
        "cdc-views query orders --out orders.parquet\n"
        'cdc-views query "SELECT state, count(*) FROM orders GROUP BY state"'
    ),
    "explain": "cdc-views explain orders --key '{\"id\": 101}' --columns amount",
    "history": "cdc-views history orders --key '{\"id\": 101}'",
    "replicas": "cdc-views replicas carts --replication-factor 3 --missing",
    "validate": "cdc-views validate --select orders --no-docs\ncdc-views validate --fail-on warning --junit results.xml",
    "verify": (
        "cdc-views verify orders --source postgresql://reader@db.example/shop\n"
        "cdc-views verify orders --every 5m --metrics verify.prom"
    ),
    "report": "cdc-views report --out site",
    "quarantine show": "cdc-views quarantine show orders --event 3f2a",
    "quarantine discard": 'cdc-views quarantine discard orders --event 3f2a --reason "a test"',
    "contract export": "cdc-views contract export --out shop.odcs.yaml",
    "contract check": "cdc-views contract check shop.odcs.yaml",
    "dbt export": "cdc-views dbt export --out analytics",
    "produce postgres": "PGHOST=db.example PGUSER=cdc PGDATABASE=shop cdc-views produce postgres",
    "produce mysql": "CDC_VIEWS_MYSQL_HOST=db CDC_VIEWS_MYSQL_USER=cdc cdc-views produce mysql",
    "produce mariadb": "CDC_VIEWS_MARIADB_HOST=db CDC_VIEWS_MARIADB_USER=cdc cdc-views produce mariadb",
    "produce kafka": "cdc-views produce kafka --bootstrap kafka:9092 --topic public.orders=orders",
    "produce cassandra": "cdc-views produce cassandra --host 10.0.0.1",
    "produce http": "cdc-views produce http --port 4444",
}
"""By the words after `cdc-views`; one command a line."""
