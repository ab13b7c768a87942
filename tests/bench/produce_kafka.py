"""`produce kafka` beside readers of the same topic: events a second, memory at each tenth, and its lag at half of that pace.

    python tests/bench/produce_kafka.py [--events N] [--partitions N]

The topic holds Debezium's events of an 8-column table, uncompressed, in JSON. Each subject is a process of its own: the
`client` reads with the same settings and drops the bytes; the `reader` is the producer's own, which writes its lines to
nowhere; the `producer` lands them. The goal is half of the reader's events a second. Of a million events and more, memory
has to stay flat.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "spark"), str(ROOT / "producers")]
from services.account import free_port  # noqa: E402
from services.kafka import Kafka, running  # noqa: E402
from watching import Figures, environment_of, lag_at, read_bare, timed, told, watched  # noqa: E402

OUT = Path(__file__).parent / "out" / "produce_kafka.json"
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


def project(folder: Path) -> None:
    """A project of the one table."""
    (folder / "orders.sql").write_text(DDL)
    table = {"name": TABLE, "schema": "orders.sql", "raw": {"format": "debezium"}}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "bench", "engine": "duckdb", "tables": [table]}))


def measure(broker: Kafka, folder: Path, *, events: int, partitions: int) -> dict[str, Figures]:
    """All subjects, one after the other."""
    project(folder)
    environment = environment_of(broker.environment)
    client = timed([sys.executable, "-c", _BARE, broker.address, TOPIC, str(events)], environment, events=events)
    reader = read_bare(["kafka", "--group", "reader"], environment, events=events, folder=folder)
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "cdc_views", "produce", "kafka", "--group", "bench", "--listen", address]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    try:
        producer = watched(process, events, address).figures(reader)
        producer["of_client"] = round(producer["events_a_second"] / client["events_a_second"], 3)
        pace = producer["events_a_second"] // 2
        numbers = iter(range(events, 1 << 60))

        def write(count: int) -> None:
            for _, number in zip(range(count), numbers):  # noqa: B905
                broker.produce(TOPIC, event(number), partition=number % partitions)
            broker.flush()

        half_load = lag_at(pace, write, address)
    finally:
        process.terminate()
        process.wait(60)
    return {"client": client, "reader": reader, "producer": producer, "half_load": half_load}


def main() -> None:
    """Measure, print, and write `out/produce_kafka.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args()
    with running() as broker, tempfile.TemporaryDirectory(prefix="cdc-views-bench-") as folder:
        fill(broker, options.events, options.partitions)
        found = measure(broker, Path(folder), events=options.events, partitions=options.partitions)
    told(found, OUT)


if __name__ == "__main__":
    main()
