"""`make bench-producers`, PostgreSQL and HTTP: events a second and memory, beside bare readers, in one run.

Of PostgreSQL the same log is read from three slots: by the bare reader (messages read and thrown away), by the reader
that also writes the events (to nowhere), and by `produce postgres` until its slot is confirmed. Then its lag at half of
that load. Of HTTP the same batches are posted to a server that answers at once, and to `produce http`.

Options: `--events N` (1,000,000: `make bench-producers EVENTS=1000000`), `--posts N`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "tests/producers", "tests/strategies", "spark", "producers")]

from cdc_producers.postgres.catalog import Types  # noqa: E402
from cdc_producers.postgres.connections import connect  # noqa: E402
from cdc_producers.postgres.pgoutput import Delete, Insert, Message, Update  # noqa: E402
from cdc_producers.postgres.stream import Progress, SlotStream  # noqa: E402
from cdc_producers.postgres.transactions import Transactions  # noqa: E402
from producing import Producer  # noqa: E402
from services.postgres import Postgres, running  # noqa: E402

from cdc_views.schema_readers import read_schema  # noqa: E402

OUT = Path(__file__).parent / "out"
TABLE = "public.bench"
DDL = f"""CREATE TABLE {TABLE} (
 id bigint PRIMARY KEY, a text, b int, c numeric(12,2), d timestamptz, e text, f boolean, g double precision);
"""
LOAD = f"""
DO $$ BEGIN FOR part IN 0..({{events}} / 1000 - 1) LOOP
  INSERT INTO {TABLE} SELECT part * 600 + i, md5(i::text), i, i / 7.0, now(), repeat('e', i % 60), i % 2 = 0, i / 3.0
  FROM generate_series(1, 600) i;
  UPDATE {TABLE} SET b = b + 1, e = 'changed' WHERE id BETWEEN part * 600 + 1 AND part * 600 + 400;
  COMMIT;
END LOOP; END $$"""
SLOTS = {"bare": "bare", "events": "events", "producer": "cdc_views_bench"}
HALF_LOAD_SECONDS = 20
BATCH, CLIENTS = 500, 2
SECRETS = {"CDC_VIEWS_HTTP_USER": "u", "CDC_VIEWS_HTTP_PASSWORD": "p", "CDC_VIEWS_HTTP_SECRET": "s" * 32}


def tell(text: str) -> None:
    print(f"  {text}", flush=True)


def memory_mib(pid: int, name: str) -> int:
    """A figure of /proc: VmHWM, the peak, or VmRSS."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name))


class Nowhere:
    """A target that has a schema and lands nothing."""

    name = TABLE

    def __init__(self, folder: Path) -> None:
        self.schema = read_schema(folder / "schema.sql", table=TABLE, keyspace="public")

    def version(self) -> int:
        return 0


class Silent:
    def info(self, message: str, **facts: Any) -> None: ...

    warning = info


def drained(slot: str, events: int, take: Callable[[Message], None]) -> float:
    """Read a slot until so many events have come; seconds."""
    stream, seen = SlotStream(slot, SLOTS["producer"], 1.0, Progress()), 0

    def counting(message: Message) -> None:
        nonlocal seen
        seen += isinstance(message, Insert | Update | Delete)
        take(message)

    stream.open()
    begun = time.perf_counter()
    stream.follow(lambda: seen >= events, counting)
    took = time.perf_counter() - begun
    stream.close()
    return took


def transactions(folder: Path) -> Transactions:
    """What writes the events, for `drained`, to nowhere."""
    return Transactions(
        {TABLE: Nowhere(folder)}, "postgres", "bench", Types(connect()), lambda *_: {}, Silent(), lambda _: None  # type: ignore[dict-item]
    )  # fmt: skip


def project(folder: Path) -> None:
    (folder / "schema.sql").write_text(DDL)
    table = {"name": TABLE, "schema": "schema.sql", "raw": {"format": "debezium"}}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "bench", "engine": "duckdb", "tables": [table]}))


def confirmed(server: Postgres) -> bool:
    text = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    return server.sql(text, (confirmed.until, SLOTS["producer"])) == [(True,)]  # type: ignore[attr-defined]


def produced(server: Postgres, producer: Producer, events: int) -> dict[str, Any]:
    """Run `produce postgres` through all events; its rate and memory, sampled as it goes."""
    ((confirmed.until,),) = server.sql("SELECT pg_current_wal_lsn()::text")  # type: ignore[attr-defined]
    producer.start("--skip-snapshot").wait_until_said("following slot")
    assert producer.running is not None
    pid, samples, begun = producer.running.pid, [], time.perf_counter()
    while not confirmed(server):
        samples.append((producer.metric("events_total"), memory_mib(pid, "VmRSS")))
        time.sleep(0.5)
    took = time.perf_counter() - begun
    assert producer.metric("events_total") == events
    rest = [mib for done, mib in samples if done >= events / 4] or [0]
    half = len(rest) // 2
    return {
        "events_per_second": round(events / took),
        "peak_mib": memory_mib(pid, "VmHWM"),
        "rss_mib_second_and_last_part": [round(statistics.median(rest[: half or 1])), round(statistics.median(rest[half:]))],
    }


def lag(server: Postgres, producer: Producer, per_second: int) -> dict[str, Any]:
    """Insert at a pace and ask for the lag."""
    connection, samples = server.connect(), []
    insert = f"INSERT INTO {TABLE} SELECT %s + i, md5(i::text), i, 1, now(), 'e', true, 1 FROM generate_series(1, %s) i"
    begun = time.monotonic()
    number = 10**9
    with connection.cursor() as cursor:
        for tick in range(HALF_LOAD_SECONDS * 10):
            cursor.execute(insert, (number, per_second // 10))
            number += per_second // 10
            if tick % 5 == 4 and tick > 20:
                samples.append(producer.metric("lag_seconds"))
            time.sleep(max(0.0, begun + (tick + 1) / 10 - time.monotonic()))
    connection.close()
    return {
        "load_per_second": per_second,
        "lag_median_s": round(statistics.median(samples), 2),
        "lag_max_s": round(max(samples), 2),
    }


def bench_postgres(events: int, folder: Path) -> dict[str, Any]:
    with running() as server:
        os.environ.update(server.environment)
        project(folder)
        server.sql(DDL)
        server.sql(f"CREATE PUBLICATION {SLOTS['producer']} FOR TABLE {TABLE}")
        for slot in SLOTS.values():
            server.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        server.sql(LOAD.format(events=events))
        found: dict[str, Any] = {"events": events}
        for name, take in (("bare", lambda _: None), ("events", transactions(folder).take)):
            found[name] = {"events_per_second": round(events / drained(SLOTS[name], events, take))}
            tell(f"postgres, {name}: {found[name]}")
        producer = Producer(folder, server.environment, ["postgres", "--slot", SLOTS["producer"]])
        found["producer"] = produced(server, producer, events)
        found["producer"]["of_events"] = ratio(found["producer"], found["events"])
        found["producer"]["of_bare"] = ratio(found["producer"], found["bare"])
        tell(f"postgres, producer: {found['producer']}")
        found["half_load"] = lag(server, producer, found["producer"]["events_per_second"] // 2)
        tell(f"postgres, half load: {found['half_load']}")
        producer.stop()
        return found


def ratio(one: dict[str, Any], other: dict[str, Any]) -> float:
    return round(one["events_per_second"] / other["events_per_second"], 3)


def batches(count: int) -> Iterator[bytes]:
    """Batches of `BATCH` Debezium events, each with a key of its own."""
    for batch in range(count):
        events = []
        for i in range(BATCH):
            number = batch * BATCH + i
            after = {"id": number, "a": f"{number:032x}", "b": i, "c": 1.5, "e": "e" * (i % 60), "f": True, "g": 0.5}
            source = {
                "connector": "postgresql",
                "schema": "public",
                "table": "bench",
                "db": "x",
                "lsn": number + 1,
                "ts_ms": 1,
                "snapshot": "false",
            }
            events.append({"before": None, "after": after, "source": source, "op": "c", "ts_ms": 1})
        yield json.dumps(events).encode()


def posted(port: int, bodies: Sequence[bytes], token: str) -> float:
    """Post batches from some clients at once; seconds."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    failures: list[Any] = []

    def client(mine: Sequence[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for body in mine:
            connection.request("POST", "/station/public.bench/produce/batch", body, headers)
            answer = connection.getresponse()
            if answer.status != 200:
                failures.append((answer.status, answer.read()[:200]))
            answer.read()

    threads = [Thread(target=client, args=(bodies[i::CLIENTS],)) for i in range(CLIENTS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    return time.perf_counter() - begun


@contextmanager
def answering_at_once() -> Iterator[int]:
    """A server that reads what is posted and answers 200."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def bench_http(events: int, folder: Path) -> dict[str, Any]:
    project(folder)
    bodies = list(batches(events // BATCH))
    found: dict[str, Any] = {"events": len(bodies) * BATCH, "batch": BATCH, "clients": CLIENTS}
    with answering_at_once() as port:
        found["bare"] = {"events_per_second": round(found["events"] / posted(port, bodies, ""))}
    tell(f"http, bare: {found['bare']}")
    receiver = Producer(folder, SECRETS, ["http", "--port", "0"]).start()
    receiver.wait_until_said("listening on")
    assert receiver.running is not None
    port = next(int(line["message"].rpartition(":")[2]) for line in receiver.said if "listening on" in line["message"])
    connection = http.client.HTTPConnection("127.0.0.1", port)
    asked = json.dumps({"username": "u", "password": "p"})
    connection.request("POST", "/auth/authenticate", asked, {"content-type": "application/json"})
    token = json.loads(connection.getresponse().read())["jwt"]
    took = posted(port, bodies, token)
    found["receiver"] = {
        "events_per_second": round(found["events"] / took),
        "peak_mib": memory_mib(receiver.running.pid, "VmHWM"),
    }
    found["receiver"]["of_bare"] = ratio(found["receiver"], found["bare"])
    receiver.stop()
    tell(f"http, receiver: {found['receiver']}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=int(os.environ.get("EVENTS", "200000")))
    parser.add_argument("--posts", type=int, default=50_000)
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "postgres").mkdir()
        (Path(folder) / "http").mkdir()
        found["postgres"] = bench_postgres(given.events, Path(folder) / "postgres")
        found["http"] = bench_http(given.posts, Path(folder) / "http")
    OUT.mkdir(exist_ok=True)
    (OUT / "produce_postgres.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
