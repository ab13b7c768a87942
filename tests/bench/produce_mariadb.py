"""`produce mariadb` beside readers of the same binlog: events a second, memory at each tenth, lag at half of that pace.

The binlog is written first: inserts, updates and deletes of one table of eight columns, 100 rows a transaction. Then, one
process each: the `client`, a loop over `mysql-replication`, which decodes rows and drops them; the producer's own `reader`,
which writes its events as lines to nowhere; and the `producer` into a Delta table. The goal is half of the reader's events
a second. Options: `--events N` (300,000; of a million and more memory has to stay flat), `--client-events N` (a tenth).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "producers"), str(ROOT / "spark"), str(ROOT / "tests")]

from services.account import free_port  # noqa: E402
from services.mariadb import USER, MariaDb, running  # noqa: E402
from watching import Figures, environment_of, lag_at, ratio, read_bare, timed, told, watched  # noqa: E402

OUT = Path(__file__).parent / "out"
DDL = """CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer int, amount decimal(12,2), state enum('new','paid','sent'),
 note varchar(100), weight double, placed datetime(6), changed timestamp(6) NULL)"""
ROWS_EACH = 100

_CLIENT = """
import sys
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
host, port, user, password, gtid, wanted = sys.argv[1:]
reader = BinLogStreamReader(
    connection_settings={"host": host, "port": int(port), "user": user, "passwd": password}, server_id=99, is_mariadb=True,
    auto_position=gtid, blocking=True, only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
)
count = 0
for event in reader:
    count += len(event.rows)
    if count >= int(wanted):
        break
"""


def write_events(server: MariaDb, events: int) -> int:
    """Write the binlog; returns how many row events it has."""
    connection = server.connect(autocommit=False)
    written, number = 0, 0
    with connection.cursor() as cursor:
        while written < events:
            first, last = number * ROWS_EACH + 1, (number + 1) * ROWS_EACH
            cursor.execute(
                "INSERT INTO shop.orders SELECT seq, seq % 1000, seq * 1.37, 1 + seq % 3, concat('order ', seq, ' ☃'), seq / 7, "
                f"'2024-01-02 03:04:05.123456' + INTERVAL seq SECOND, now(6) FROM shop.seq_{first}_to_{last}"
            )
            cursor.execute("COMMIT")
            cursor.execute(f"UPDATE shop.orders SET state = 'sent', changed = now(6) WHERE id BETWEEN {first} AND {last}")
            cursor.execute("COMMIT")
            written += 2 * ROWS_EACH
            if number % 4 == 0:
                cursor.execute(f"DELETE FROM shop.orders WHERE id BETWEEN {first} AND {last}")
                cursor.execute("COMMIT")
                written += ROWS_EACH
            number += 1
    return written


def start_producer(folder: Path, environment: dict[str, str], address: str) -> subprocess.Popen[bytes]:
    """Start it; its log is in the folder."""
    command = [sys.executable, "-m", "cdc_views", "produce", "mariadb", "--name", "bench", "--listen", address]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stderr=log)


def project(folder: Path, environment: dict[str, str], address: str) -> None:
    """A project of the one table, which has landed once, so that the binlog is read from here on."""
    (folder / "schema.sql").write_text(DDL)
    table = {"name": "shop.orders", "schema": "schema.sql", "raw": {"format": "debezium"}}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "bench", "engine": "duckdb", "tables": [table]}))
    first = start_producer(folder, environment, address)
    while "following the binlog" not in (folder / "log").read_text():
        time.sleep(0.1)
        assert first.poll() is None, (folder / "log").read_text()
    first.terminate()
    first.wait(40)


def measure(folder: Path, server: MariaDb, *, events: int, client_events: int) -> dict[str, Figures]:
    """All subjects, one after the other."""
    server.sql(DDL)
    environment, address = environment_of(server.environment), f"127.0.0.1:{free_port()}"
    project(folder, environment, address)
    start, written = server.gtid(), write_events(server, events)
    few = min(written, client_events or written // 10)
    access = ["127.0.0.1", str(server.port), USER, server.environment["CDC_VIEWS_MARIADB_PASSWORD"], start, str(few)]
    client = timed([sys.executable, "-c", _CLIENT, *access], environment, events=few)
    reader = read_bare(["mariadb", "--name", "bench"], environment, events=written, folder=folder)
    process = start_producer(folder, environment, address)
    try:
        producer = watched(process, written, address).figures(reader)
        producer["of_client"] = ratio(producer, client)
        half_load = lag_at(producer["events_a_second"] // 2, Writing(server), address)
    finally:
        process.terminate()
        process.wait(40)
    return {"client": client, "reader": reader, "producer": producer, "half_load": half_load}


@dataclass
class Writing:
    """Inserts rows, each call so many more."""

    server: MariaDb
    _next: int = 10**9

    def __post_init__(self) -> None:
        self._connection = self.server.connect(autocommit=True)

    def __call__(self, count: int) -> None:
        first, self._next = self._next, self._next + count
        numbers = f"shop.seq_{first}_to_{self._next - 1}"
        with self._connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO shop.orders SELECT seq, 1, 1.5, 1, 'n', 0.5, now(6), now(6) FROM {numbers}")


def main() -> None:
    """Measure, print, and write `out/produce_mariadb.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--client-events", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running() as server:
        found = measure(Path(name), server, events=given.events, client_events=given.client_events)
    told(found, OUT / "produce_mariadb.json")


if __name__ == "__main__":
    main()
