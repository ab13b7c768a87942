"""What a slot is told: never that more has landed than has, and not less than lets the server drop its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
from cdc_producers.postgres.connections import connect, lsn_number
from cdc_producers.postgres.marks import Reached
from cdc_producers.postgres.messages import Commit, Message
from cdc_producers.postgres.pgoutput import PgOutputReader
from cdc_producers.postgres.slots import SlotWatcher, check_alive, find_slot
from cdc_producers.postgres.stream import Progress, SlotStream
from helpers.captured import Said
from helpers.producing import eventually
from services.postgres import Postgres

from cdc_views.errors import TransientError

pytestmark = pytest.mark.heavy

SLOT = "ours"


@pytest.fixture
def server(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    postgres.sql("CREATE TABLE public.a (id int PRIMARY KEY, v text); CREATE TABLE public.other (id int)")
    postgres.sql("CREATE PUBLICATION ours FOR TABLE public.a")
    postgres.sql("SELECT pg_create_logical_replication_slot('ours', 'pgoutput')")
    return postgres


@pytest.fixture
def stream(server: Postgres) -> Iterator[SlotStream]:
    made = SlotStream(SLOT, PgOutputReader(["ours"]), heartbeat_seconds=0.05, progress=Progress())
    yield made
    made.close()


def read(stream: SlotStream, *, until: Callable[[list[Message]], Any], within: float = 10.0) -> list[Message]:
    """Follow the slot until what was read is enough."""
    found: list[Message] = []
    stop, deadline = Event(), time.monotonic() + within

    class Looking(Event):
        def is_set(self) -> bool:
            assert time.monotonic() < deadline, found
            return stop.is_set() or bool(until(found))

    def all_taken(taken_to: int | None) -> None:
        progress = stream.progress
        if taken_to is not None and progress.landed >= progress.read:
            progress.land(Reached(progress.landed, taken_to))

    stream.follow(Looking().is_set, found.append, all_taken)
    return found


def commits(found: list[Message]) -> list[Commit]:
    return [message for message in found if isinstance(message, Commit)]


def ended(found: list[Message]) -> bool:
    """Whether the last message read ends a transaction."""
    return bool(commits(found[-1:]))


def confirmed(server: Postgres) -> int:
    ((text,),) = server.sql("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'ours'")
    return lsn_number(text)


def idle(stream: SlotStream, seconds: float = 0.5) -> None:
    """Follow the slot for a while."""
    end = time.monotonic() + seconds
    read(stream, until=lambda _: time.monotonic() > end)


def test_transactions_that_overlap_confirm_nothing_that_has_not_landed(server: Postgres, stream: SlotStream) -> None:
    """A keepalive amid changes that are older than what was confirmed; psycopg 2 takes it for leave to confirm all."""
    early = server.connect().cursor()
    early.execute("BEGIN; INSERT INTO public.a SELECT g, repeat('x', 300) FROM generate_series(100, 30000) g")
    server.sql("INSERT INTO public.a VALUES (1)")
    (landed,) = commits(read(stream, until=ended))
    stream.progress.land(Reached(landed.end, landed.end))
    stream.confirm()
    server.sql("INSERT INTO public.a VALUES (2)")
    (waiting,) = commits(read(stream, until=ended))
    early.execute("COMMIT")
    time.sleep(0.3)  # the server fills the socket, and waits amid that transaction
    for _ in range(5):
        ask(stream)
    (large,) = commits(read(stream, until=ended))
    idle(stream)
    assert landed.end <= confirmed(server) <= waiting.lsn
    stream.progress.land(Reached(large.end, large.end))
    idle(stream)
    assert confirmed(server) >= large.end


def ask(stream: SlotStream) -> None:
    """Have the server send a keepalive now."""
    stream._connection.confirm(0, asks_answer=True)


def test_log_of_other_tables_is_let_go_of_while_nothing_waits(server: Postgres, stream: SlotStream) -> None:
    server.sql("INSERT INTO public.other SELECT generate_series(1, 1000)")
    ((end,),) = server.sql("SELECT pg_current_wal_lsn()::text")
    idle(stream)
    assert confirmed(server) >= lsn_number(end)
    assert time.time() - stream.heard < 5


def test_a_connection_that_comes_after_one_that_broke_confirms_no_more(server: Postgres, stream: SlotStream) -> None:
    before = confirmed(server)
    server.sql("INSERT INTO public.a VALUES (1)")
    (waiting,) = commits(read(stream, until=ended))
    server.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
    with pytest.raises(TransientError):
        idle(stream, 5)
    eventually(lambda: server.sql("SELECT active FROM pg_replication_slots") == [(False,)], within=5)
    again = SlotStream(SLOT, PgOutputReader(["ours"]), heartbeat_seconds=0.05, progress=stream.progress)
    assert commits(read(again, until=ended)) == [waiting]
    idle(again)
    assert before <= confirmed(server) <= waiting.lsn
    again.close()


def test_a_slot_that_somebody_reads_is_waited_for(server: Postgres, stream: SlotStream) -> None:
    slot = eventually(lambda: (found := find_slot(connect(), SLOT)) and found.active_process and found, within=5)
    with pytest.raises(TransientError, match="is another producer running"):
        check_alive(slot, SLOT)
    with pytest.raises(TransientError, match="is active for PID"):
        SlotStream(SLOT, PgOutputReader(["ours"]), heartbeat_seconds=1, progress=Progress())


def test_lag_counts_from_the_last_echo_that_came_through_the_log(server: Postgres) -> None:
    watch = SlotWatcher(SLOT, Said(), echo_seconds=0.05)
    made = SlotStream(SLOT, PgOutputReader(["ours"]), heartbeat_seconds=0.05, progress=Progress(), reads_echoes=True)
    try:
        begun = time.time()
        server.sql("SELECT pg_logical_emit_message(false, 'somebody', '99')")
        with watch.running():
            idle(made, 1.0)
        assert begun - 0.01 <= made.heard <= time.time()
        stopped = time.time()
        idle(made, 0.5)
        # the server still answers; nothing comes through its log any more
        assert made.heard <= stopped
    finally:
        made.close()
    plain = SlotStream(SLOT, PgOutputReader(["ours"]), heartbeat_seconds=0.05, progress=Progress())
    idle(plain, 0.3)
    assert plain.heard > stopped
    plain.close()
