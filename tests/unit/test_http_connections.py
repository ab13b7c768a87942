"""Connections of the HTTP receiver: those that never send a request go, and there is always room for one that does."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cdc_producers.http.connections import BoundedProtocol, most_connections
from helpers.http_receiver import ENVIRONMENT, Client, in_thread, wait_for
from helpers.tiny_project import CQL

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A receiver of four connections, each to send a head within 0.4 s and a body within 0.8 s."""
    (tmp_path / "schema.cql").write_text(CQL)
    file = tmp_path / "cdc_views.yml"
    tables = [{"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}]
    file.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name, limit in {"most": 4, "head_seconds": 0.4, "body_seconds": 0.8}.items():
        monkeypatch.setattr(BoundedProtocol, name, limit)
    with in_thread(file) as (client, _):
        yield client.port


def opened(port: int, said: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=10)
    made.sendall(said)
    return made


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def answer(port: int, said: bytes) -> str:
    """The status line of an answer, and whether the connection stays."""
    with opened(port, said) as connection:
        return connection.recv(4096).split(b"\r\n")[0].decode()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /heal",
        HEALTH,
        b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
        HEALTH + b"Content-Length: 9\r\n\r\n",
        HEALTH + b"\r\n" + HEALTH,
    ],
)
def test_a_request_that_does_not_come_ends_its_connection(port: int, said: bytes) -> None:
    connection = opened(port, said)
    while time.monotonic() and not is_closed(connection):
        try:
            connection.recv(4096)  # what is answered meanwhile
        except BlockingIOError:
            time.sleep(0.02)
    connection.close()


def test_what_trickles_in_prolongs_nothing(port: int) -> None:
    connection = opened(port, HEALTH)

    def goes_on() -> bool:
        connection.setblocking(True)
        try:
            connection.sendall(b"X: y\r\n")
        except OSError:
            return True
        return is_closed(connection)

    wait_for(goes_on, seconds=10)
    connection.close()


def test_there_is_room_for_a_request_however_many_say_nothing(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "head_seconds", 60.0)
    silent = [opened(port, b"POST /events HTTP/1.1\r\n") for _ in range(20)]
    assert Client(port).get("/healthz").status == 200
    wait_for(lambda: sum(map(is_closed, silent)) >= 16)
    for connection in silent:
        connection.close()


def test_an_idle_connection_serves_the_next_request(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    used = set()
    for pause in (0.6, 0.0):  # longer than a head may take
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
        used.add(connection.sock)
        time.sleep(pause)
    assert len(used) == 1
    connection.close()


@pytest.mark.parametrize(
    "said",
    [
        b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: x\n\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_and_ends_the_connection(port: int, said: bytes) -> None:
    with opened(port, said + HEALTH + b"\r\n") as connection:
        found = b""
        while part := connection.recv(4096):
            found += part
    assert found.startswith(b"HTTP/1.1 400")
    assert found.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (HEALTH.replace(b"GET", b"HEAD") + b"\r\n", "200 OK"),
        (b"POST /events/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "404 Not Found"),
        (HEALTH + b"\r\n", "200 OK"),
        (HEALTH.replace(b"healthz", b"metrics") + b"\r\n", "200 OK"),
    ],
)
def test_what_else_is_answered(port: int, said: bytes, status: str) -> None:
    assert answer(port, said) == f"HTTP/1.1 {status}"


def test_there_are_fewer_connections_than_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    assert most_connections() == 128
