"""The tests' own S3 keeps a store's promise, on which every commit rests: of several conditional puts of one key, one succeeds.

moto alone breaks it where its threads change between look and put: in a bench a log entry was overwritten, with its 303 events.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from http.client import HTTPConnection
from pathlib import Path

import pytest
from services import s3_server
from services.account import free_port, started, stop
from services.s3 import S3
from services.stores import BUCKET

KEYS, WRITERS = 3, 6
SLOW = """
import runpy, sys, time
from moto.s3.models import S3Backend
real = S3Backend.get_object
def looked(*given, **named):
    found = real(*given, **named)
    time.sleep(0.02)  # others look meanwhile
    return found
S3Backend.get_object = looked
if sys.argv.pop(1) == "moto":
    runpy.run_module("moto.server", run_name="__main__")
else:
    runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def winners(folder: Path, *server: str) -> Counter[int]:
    """Let writers put the same keys at once; return how many succeeded, by key."""
    at, won, together = S3(free_port(), folder / "log"), list[int](), threading.Barrier(WRITERS)

    def write() -> None:
        nonlocal won
        connection = HTTPConnection("127.0.0.1", at.port, timeout=30)
        for key in range(KEYS):
            together.wait()
            connection.request("PUT", f"/{BUCKET}/{key}", body=b"x", headers={"If-None-Match": "*"})
            answer = connection.getresponse()
            answer.read()
            won += [key] if answer.status == 200 else []
        connection.close()

    command = [sys.executable, "-c", SLOW, *server, "-H", "127.0.0.1", "-p", str(at.port)]
    process = started(command, lambda: at.make(BUCKET), log=at.log, within=60, failure=OSError)
    try:
        threads = [threading.Thread(target=write) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop(process)
    return Counter(won)


@pytest.mark.heavy
def test_of_several_conditional_puts_of_one_key_one_succeeds(tmp_path: Path) -> None:
    assert winners(tmp_path, "ours", str(Path(s3_server.__file__))) == dict.fromkeys(range(KEYS), 1)


@pytest.mark.heavy
def test_a_server_that_looks_and_then_puts_is_noticed(tmp_path: Path) -> None:
    assert winners(tmp_path, "moto").total() > KEYS
