"""What a Debezium Server posts of a shop in a real PostgreSQL: `PYTHONPATH=tests python -m services.shop_postgres FOLDER`.

Writes a file of events a table, and what the tables hold in the end. The last events of each file stand twice: that is what
"at least once" looks like.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from services.account import free_port
from services.debezium import DebeziumServer
from services.postgres import Postgres, running

SCHEMA = Path(__file__).parents[2] / "templates" / "examples" / "postgres" / "schema.sql"
LONG = " ".join(f"{number}: called on {number * 7 % 28 + 1} May about order {number * 7919 % 10007}." for number in range(260))
"""Longer than a page of PostgreSQL after compression, so that it is stored apart (TOAST)."""
BEFORE = """
INSERT INTO shop.customers VALUES
  (1, 'Ada Lovelace', 'ada@example.org', 'prefers mornings'), (2, 'Grace Hopper', 'grace@example.org', NULL);
UPDATE shop.customers SET notes = %(long)s WHERE id = 2;
INSERT INTO shop.orders VALUES (100, 1, 'open', 19.90, '2026-05-01 09:00:00+00'),
  (101, 2, 'open', 250.00, '2026-05-01 09:30:00+00');
"""
AFTER = """
UPDATE shop.customers SET email = 'hopper@example.org' WHERE id = 2;
INSERT INTO shop.customers VALUES (3, 'Alan Turing', NULL, NULL);
UPDATE shop.orders SET state = 'paid' WHERE id = 100;
INSERT INTO shop.orders VALUES (102, 3, 'open', 5.00, '2026-05-02 14:00:00+00'),
  (103, 1, 'open', 42.42, '2026-05-02 15:00:00+00');
UPDATE shop.orders SET state = 'paid', amount = 245.00 WHERE id = 101;
DELETE FROM shop.orders WHERE id = 102;
UPDATE shop.orders SET state = 'shipped' WHERE id = 100;
"""
_WITHIN = 240.0
_AGAIN = 3
"""The last events of a table that stand twice, as a reader has them that stopped before it had recorded how far it was."""


class _Sink(BaseHTTPRequestHandler):
    posted: list[str] = []  # noqa: RUF012  # one server a process

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        self.posted.append(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def listening() -> Iterator[int]:
    """A server on the loopback that keeps what is posted; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def settings(postgres: Postgres, sink: int) -> dict[str, str]:
    """What the server of Debezium is told, as its documents do it; no schema beside each event."""
    source = "debezium.source."
    return {
        "debezium.sink.type": "http", "debezium.sink.http.url": f"http://127.0.0.1:{sink}/",
        f"{source}connector.class": "io.debezium.connector.postgresql.PostgresConnector", f"{source}plugin.name": "pgoutput",
        f"{source}slot.name": "shop", f"{source}publication.name": "shop", f"{source}publication.autocreate.mode": "filtered",
        f"{source}database.hostname": "127.0.0.1", f"{source}database.port": str(postgres.port),
        f"{source}database.user": "postgres", f"{source}database.password": "x", f"{source}database.dbname": "postgres",
        f"{source}topic.prefix": "shop", f"{source}schema.include.list": "shop", f"{source}tombstones.on.delete": "false",
        f"{source}time.precision.mode": "isostring", f"{source}decimal.handling.mode": "string",
        "debezium.format.value": "json", "debezium.format.key": "json",
        "debezium.format.value.schemas.enable": "false", "debezium.format.key.schemas.enable": "false",
        "quarkus.http.port": str(free_port()), "quarkus.http.host": "127.0.0.1", "quarkus.log.console.json": "false",
    }  # fmt: skip


def posted() -> list[dict[str, Any]]:
    """The events so far, in the order of their arrival."""
    found: list[dict[str, Any]] = []
    for body in _Sink.posted:
        value = json.loads(body)
        found += value if isinstance(value, list) else [value]
    return found


def wait_for(count: int) -> None:
    """Wait until so many events have been posted."""
    until = time.monotonic() + _WITHIN
    while len(posted()) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"{len(posted())} of {count} events were posted")
        time.sleep(0.5)


def capture(folder: Path) -> None:
    """Run the shop, and write its events."""
    folder.mkdir(parents=True, exist_ok=True)
    with running() as postgres, listening() as port:
        postgres.sql("CREATE SCHEMA shop;" + SCHEMA.read_text("utf-8"))
        server = DebeziumServer(folder, settings(postgres, port))
        for statement in BEFORE.strip().split(";\n"):
            postgres.sql(statement.replace("%(long)s", "'" + LONG + "'"))
        server.start()
        wait_for(4)
        for statement in AFTER.strip().split(";\n"):
            postgres.sql(statement)
        wait_for(12)
        server.stop()
        rows = {name: postgres.sql(f"SELECT to_jsonb(t) FROM shop.{name} t ORDER BY id") for name in ("customers", "orders")}
    for name in rows:
        events = [one for one in posted() if one["source"]["table"] == name]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*events, *events[-_AGAIN:]]), "utf-8")
    (folder / "rows.json").write_text(
        json.dumps({name: [row for (row,) in found] for name, found in rows.items()}, indent=1), "utf-8"
    )


if __name__ == "__main__":
    capture(Path(sys.argv[1]))
