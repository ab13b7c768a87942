"""Events a second and peak memory of the MariaDB producer, beside readers of the same binlog that land nothing.

The binlog is written first: inserts, updates and deletes of one table of eight columns, 100 rows a transaction. Then, one
process each: a loop over `mysql-replication`, this project's reader with its events thrown away, and the producer into a
Delta table, whose memory is looked at while it runs. Options: `--events N` (300,000), `--bare-events N` (all of them).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "producers"), str(ROOT / "spark"), str(ROOT / "tests")]

from services.mariadb import USER, MariaDb, running  # noqa: E402

OUT = Path(__file__).parent / "out"
DDL = """CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer int, amount decimal(12,2), state enum('new','paid','sent'),
 note varchar(100), weight double, placed datetime(6), changed timestamp(6) NULL)"""
ROWS_EACH = 100

_BARE = """
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

_OURS = """
import sys
from threading import Event
from cdc_producers.mariadb.binlog import HEARTBEAT
from cdc_producers.mariadb.charsets import read_collations
from cdc_producers.mariadb.connections import Access, connect
from cdc_producers.mariadb.gtids import Mark, read_gtids
from cdc_producers.mariadb.logged_tables import LoggedTables
from cdc_producers.mariadb.stream import BinlogStream
from cdc_producers.mariadb.transactions import Transactions
from cdc_views.producing import ProjectTarget
from pathlib import Path
class Silent:
    def info(self, message, **facts): pass
    def warning(self, message, **facts): pass
project, gtid, wanted = sys.argv[1:]
access, start = Access.of_environment(), read_gtids(gtid)[0]
target = ProjectTarget(Path(project), "shop.orders", "debezium", Silent())
targets = {"shop.orders": target}
tables = LoggedTables(targets, read_collations(connect(access)), lambda name: {}, lambda *asked: {}, Silent())
count = 0
def emit(item):
    global count
    count += item.content is not None
transactions = Transactions(targets, {"shop.orders": Mark.after(start, epoch=0)}, 0, start, "bench:0", tables, Silent(), emit)
stream = BinlogStream(access, 98, 1.0)
stream.open([start])
while count < int(wanted):
    transactions.take(stream.read(), stream.file)
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


def memory_of(process: int, name: str) -> float:
    """MiB of a process, as Linux counts it: `VmRSS` now, `VmHWM` at most."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), 0.0)


def timed(command: list[str], environment: dict[str, str], *, events: int) -> dict[str, Any]:
    """Run a reader in a process of its own: events a second, its start included, and peak memory."""
    begun, peak, cpu = time.monotonic(), 0.0, 0.0
    process = subprocess.Popen(command, env=environment)
    while process.poll() is None:
        peak, cpu = max(peak, memory_of(process.pid, "VmHWM")), max(cpu, cpu_of(process.pid))
        time.sleep(0.05)
    seconds = time.monotonic() - begun
    assert process.returncode == 0, process.returncode
    return figures(events, seconds, cpu, peak)


def cpu_of(process: int) -> float:
    """Seconds of CPU that a process has used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures(events: int, seconds: float, cpu: float, peak: float) -> dict[str, Any]:
    """What is told of a run; by CPU where the machine does other work, too."""
    found = {"events": events, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "peak_mib": round(peak)}
    return {**found, "events_a_second": round(events / seconds), "events_a_cpu_second": round(events / max(cpu, 0.01))}


def produced(folder: Path, environment: dict[str, str], *, end: int, events: int) -> dict[str, Any]:
    """Run the producer until everything has landed."""
    from cdc_producers.mariadb.gtids import Mark

    from cdc_views.api import Project

    lander = Project.load(folder / "cdc_views.yml").table("shop.orders").stream("bench:0")
    begun, samples = time.monotonic(), []
    process = start_producer(folder, environment)
    while True:
        time.sleep(0.25)
        samples.append(round(memory_of(process.pid, "VmRSS")))
        position = lander.position()
        if position is not None and Mark.of(position).sequence > end:
            break
        assert process.poll() is None, (folder / "log").read_text()
    seconds, peak, cpu = time.monotonic() - begun, memory_of(process.pid, "VmHWM"), cpu_of(process.pid)
    process.terminate()
    assert process.wait(40) == 0
    tenths = [samples[len(samples) * part // 10] for part in range(1, 10)]
    return {**figures(events, seconds, cpu, peak), "mib_at_each_tenth": tenths}


def start_producer(folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start it; its log is in the folder."""
    command = [sys.executable, "-m", "cdc_views", "produce", "mariadb", "--name", "bench", "--listen", "none"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stderr=log)


def measure(folder: Path, server: MariaDb, *, events: int, bare_events: int) -> dict[str, Any]:
    """All three, one after the other."""
    server.sql(DDL)
    (folder / "schema.sql").write_text(DDL)
    table = {"name": "shop.orders", "schema": "schema.sql", "raw": {"format": "debezium"}}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "bench", "engine": "duckdb", "tables": [table]}))
    environment = {**os.environ, **server.environment, "PYTHONPATH": os.pathsep.join(sys.path[:4])}
    first = start_producer(folder, environment)
    while "following the binlog" not in (folder / "log").read_text():
        time.sleep(0.1)
        assert first.poll() is None, (folder / "log").read_text()
    first.terminate()
    first.wait(40)
    start = server.gtid()
    written = write_events(server, events)
    bare = min(written, bare_events or written)
    access = ["127.0.0.1", str(server.port), USER, server.environment["CDC_VIEWS_MARIADB_PASSWORD"], start, str(bare)]
    found = {"mysql_replication": timed([sys.executable, "-c", _BARE, *access], environment, events=bare)}
    ours = [sys.executable, "-c", _OURS, str(folder / "cdc_views.yml"), start, str(written)]
    found["reader"] = timed(ours, environment, events=written)
    end = int(server.gtid().split("-")[2])
    found["producer"] = produced(folder, environment, end=end, events=written)
    return found


def main() -> None:
    """Measure, print, and write `out/produce_mariadb.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--bare-events", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running() as server:
        found = measure(Path(name), server, events=given.events, bare_events=given.bare_events)
    for who, figures in found.items():
        print(f"{who}: {figures}", flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "produce_mariadb.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
