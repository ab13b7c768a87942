"""`make bench-producers`, PostgreSQL and HTTP: events a second, memory and lag, beside bare readers, in one run.

Of PostgreSQL the same log is read from three slots: by a `client` that drops the bytes of each message, by the
producer's own `reader`, which writes its events as lines to nowhere, and by `produce postgres` until its slot is
confirmed. The goal is half of the reader's events a second. Then its lag at half of that pace. Of HTTP the same batches
are posted to a server that answers at once, and to `produce http`.

Options: `--events N` (1,000,000: `make bench-producers EVENTS=1000000`, of which memory has to stay flat), `--posts N`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "spark", "producers")]

from cdc_producers.postgres.stream import ReplicationStream  # noqa: E402
from helpers.producing import Producer  # noqa: E402
from services.postgres import Postgres, running  # noqa: E402
from watching import Figures, Watched, cpu_seconds, environment_of, lag_at, memory_mib, rates, ratio, read_bare, told  # noqa: E402

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
SLOTS = {"client": "client", "reader": "reader", "producer": "cdc_views_bench"}
BATCH, CLIENTS = 500, 2
EPOCH_MILLIS = 1_795_251_447_213
SECRETS = {"CDC_VIEWS_HTTP_USER": "u", "CDC_VIEWS_HTTP_PASSWORD": "p", "CDC_VIEWS_HTTP_SECRET": "s" * 32}


def drained(slot: str, events: int) -> Figures:
    """Read a slot and drop the bytes, until so many changes have come."""
    stream = ReplicationStream(
        f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names '{SLOTS['producer']}')"
    )
    seen, begun, used = 0, time.perf_counter(), time.process_time()
    while seen < events:
        received = stream.read()
        if received is None:
            stream.wait(0.2)
        elif received[1][:1] in b"IUD":
            seen += 1
    took, cpu = time.perf_counter() - begun, time.process_time() - used
    stream.close()
    return rates(events, took, cpu)


def project(folder: Path) -> None:
    (folder / "schema.sql").write_text(DDL)
    table = {"name": TABLE, "schema": "schema.sql", "raw": {"format": "debezium"}}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "bench", "engine": "duckdb", "tables": [table]}))


def confirmed(server: Postgres) -> bool:
    text = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    return server.sql(text, (confirmed.until, SLOTS["producer"])) == [(True,)]  # type: ignore[attr-defined]


def produced(server: Postgres, producer: Producer, events: int, reader: Figures) -> Figures:
    """Run `produce postgres` through all events; its figures, sampled as it goes."""
    ((confirmed.until,),) = server.sql("SELECT pg_current_wal_lsn()::text")  # type: ignore[attr-defined]
    producer.start("--skip-snapshot").wait_until_said("following slot")
    assert producer.running is not None
    ((walsender,),) = server.sql("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (SLOTS["producer"],))
    watched, decoding = Watched(producer.running.pid, events), cpu_seconds(walsender)
    while not confirmed(server):
        watched.sample(int(producer.metric("events_total")))
        time.sleep(0.5)  # each answer is work for the producer
    found = {**watched.figures(reader), "cpu_of_the_server": round(cpu_seconds(walsender) - decoding, 1)}
    assert producer.metric("events_total") == events
    return found


def bench_postgres(events: int, folder: Path) -> dict[str, Figures]:
    with running() as server:
        os.environ.update(server.environment)
        project(folder)
        server.sql(DDL)
        server.sql(f"CREATE PUBLICATION {SLOTS['producer']} FOR TABLE {TABLE}")
        for slot in SLOTS.values():
            server.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        server.sql(LOAD.format(events=events))
        found = {"client": drained(SLOTS["client"], events)}
        options = ["postgres", "--slot", SLOTS["reader"], "--publication", SLOTS["producer"], "--skip-snapshot"]
        found["reader"] = read_bare(options, environment_of(server.environment), events=events, folder=folder)
        producer = Producer(folder, server.environment, ["postgres", "--confirm", "1", "--slot", SLOTS["producer"]])
        found["producer"] = produced(server, producer, events, found["reader"])
        found["producer"]["of_client"] = ratio(found["producer"], found["client"])
        connection, numbers = server.connect(), iter(range(10**9, 1 << 60))
        insert = f"INSERT INTO {TABLE} SELECT %s + i, md5(i::text), i, 1, now(), 'e', true, 1 FROM generate_series(1, %s) i"

        def write(count: int) -> None:
            with connection.cursor() as cursor:
                cursor.execute(insert, (next(numbers) * 1_000_000, count))

        address = next(line["address"] for line in producer.said if "address" in line).removeprefix("http://")
        found["half_load"] = lag_at(found["producer"]["events_a_second"] // 2, write, address)
        connection.close()
        producer.stop()
        return found


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
                "ts_ms": EPOCH_MILLIS + number,
                "snapshot": "false",
            }
            events.append({"before": None, "after": after, "source": source, "op": "c", "ts_ms": EPOCH_MILLIS + number})
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
    events = len(bodies) * BATCH
    with answering_at_once() as port:
        found = {"http_bare": rates(events, posted(port, bodies, ""), None, batch=BATCH, clients=CLIENTS)}
    receiver = Producer(folder, SECRETS, ["http", "--port", "0"]).start()
    receiver.wait_until_said("listening on")
    assert receiver.running is not None
    port = next(int(line["message"].rpartition(":")[2]) for line in receiver.said if "listening on" in line["message"])
    connection = http.client.HTTPConnection("127.0.0.1", port)
    asked = json.dumps({"username": "u", "password": "p"})
    connection.request("POST", "/auth/authenticate", asked, {"content-type": "application/json"})
    token = json.loads(connection.getresponse().read())["jwt"]
    took = posted(port, bodies, token)
    found["http_receiver"] = rates(events, took, cpu_seconds(receiver.running.pid))
    found["http_receiver"]["peak_mib"] = memory_mib(receiver.running.pid, "VmHWM")
    found["http_receiver"]["of_bare"] = ratio(found["http_receiver"], found["http_bare"])
    receiver.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=int(os.environ.get("EVENTS", "200000")))
    parser.add_argument("--posts", type=int, default=50_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "postgres").mkdir()
        (Path(folder) / "http").mkdir()
        found = bench_postgres(given.events, Path(folder) / "postgres")
        found |= bench_http(given.posts, Path(folder) / "http")
    told(found, OUT / "produce_postgres.json")


if __name__ == "__main__":
    main()
