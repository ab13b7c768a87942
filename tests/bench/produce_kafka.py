"""`produce kafka` beside a bare consumer of the same topic: events a second, peak memory, and whether memory stays flat.

    python tests/bench/produce_kafka.py [--events N] [--partitions N] [--out FILE]

The topic holds Debezium's events of an 8-column table, uncompressed, in JSON. Each subject is a process of its own; the bare
consumer reads with the same settings and drops what it reads. Prints one JSON object a subject.
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
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "spark"), str(ROOT / "producers")]
from services.kafka import Kafka, running  # noqa: E402

TOPIC, TABLE = "lab.public.orders", "public.orders"
DDL = (
    "CREATE TABLE public.orders (id bigint PRIMARY KEY, customer int, state text, amount numeric(12,2), note text, "
    "placed timestamp(6), paid boolean, weight double precision);"
)
_BARE = """
import sys
from confluent_kafka import Consumer, TopicPartition
address, topic, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
reader = Consumer({"bootstrap.servers": address, "group.id": "bare", "enable.auto.commit": False,
                   "isolation.level": "read_committed", "queued.max.messages.kbytes": 32 << 10})
parts = reader.list_topics(topic, timeout=10).topics[topic].partitions
reader.assign([TopicPartition(topic, number, 0) for number in parts])
count = 0
while count < wanted:
    for message in reader.consume(500, timeout=1):
        count += len(message.value() or b"") > 0
reader.close()
"""


def event(number: int) -> tuple[bytes, bytes]:
    """One event: a tenth of the keys, written again and again."""
    row = {
        "id": number % 50_000,
        "customer": number % 977,
        "state": "open" if number % 3 else "paid",
        "amount": number % 10_000 / 100,
        "note": "n" * (number % 40),
        "placed": 1_700_000_000_000_000 + number,
        "paid": number % 2 == 0,
        "weight": number / 7,
    }
    source = {"version": "3.6.0.Final", "connector": "postgresql", "name": "lab", "ts_ms": 1_700_000_000_000, "snapshot": "false",
              "db": "lab", "schema": "public", "table": "orders", "txId": number, "lsn": 1000 + number}  # fmt: skip
    value = {"before": None, "after": row, "source": source, "op": "u", "ts_ms": 1_700_000_000_001, "transaction": None}
    return json.dumps({"id": row["id"]}).encode(), json.dumps(value).encode()


def fill(broker: Kafka, events: int, partitions: int) -> None:
    """Write the topic."""
    broker.create(TOPIC, partitions=partitions)
    for number in range(events):
        broker.produce(TOPIC, event(number), partition=number % partitions)
    broker.flush()


def memory(pid: int, field: str) -> int:
    """MiB of a process: VmRSS, or VmHWM, its peak."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith(field)), 0)


def bare(broker: Kafka, events: int) -> dict[str, Any]:
    """Read everything and drop it."""
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", _BARE, broker.address, TOPIC, str(events)])
    peak = 0
    while process.poll() is None:
        peak = max(peak, memory(process.pid, "VmHWM"))
        time.sleep(0.05)
    seconds = time.monotonic() - begun
    return {
        "subject": "bare consumer",
        "events": events,
        "seconds": round(seconds, 2),
        "rate": round(events / seconds),
        "peak": peak,
    }


def produced(broker: Kafka, events: int, folder: Path) -> dict[str, Any]:
    """Land everything; the clock stops when the group has confirmed it."""
    (folder / "orders.sql").write_text(DDL)
    table = {"name": TABLE, "schema": "orders.sql", "raw": {"format": "debezium"}}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "bench", "engine": "duckdb", "tables": [table]}))
    environment = {**os.environ, **broker.environment, "PYTHONPATH": os.pathsep.join(sys.path[:4])}
    command = [sys.executable, "-m", "cdc_views", "produce", "kafka", "--group", "bench"]
    begun, used = time.monotonic(), os.times()
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    seen: list[int] = []
    while True:
        landed = sum(max(0, offset) for offset in broker.committed("bench", TOPIC).values())
        while len(seen) < 10 * landed // events:
            seen.append(memory(process.pid, "VmRSS"))
        if landed >= events:
            break
        if process.poll() is not None:
            raise RuntimeError("the producer ended")
        time.sleep(0.25)
    seconds, peak = time.monotonic() - begun, memory(process.pid, "VmHWM")
    process.terminate()
    process.wait(60)
    now = os.times()
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return {
        "subject": "produce kafka", "events": events, "seconds": round(seconds, 2), "rate": round(events / seconds), "peak": peak,
        "cpu_seconds": round(cpu, 1), "memory_at_each_tenth": seen,
    }  # fmt: skip


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--out", type=Path, help="also write the results here")
    options = parser.parse_args()
    with running() as broker, tempfile.TemporaryDirectory(prefix="cdc-views-bench-") as folder:
        fill(broker, options.events, options.partitions)
        results = [bare(broker, options.events), produced(broker, options.events, Path(folder))]
    results[1]["of_bare"] = round(results[1]["rate"] / results[0]["rate"], 3)
    for result in results:
        print(json.dumps(result))
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
