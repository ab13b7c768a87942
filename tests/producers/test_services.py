"""`make services`: what it starts can be connected to, and nothing is left once it stops."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import psycopg
import pytest
from helpers.producing import ROOT, eventually
from helpers.tiers import often
from services import __main__ as services

PID_FILE = "services.pid"


class Server:
    def __init__(self) -> None:
        self.environment = {"SOMEHOST": "127.0.0.1"}


@contextmanager
def served() -> Iterator[Server]:
    yield Server()


@contextmanager
def broken() -> Iterator[Server]:
    raise RuntimeError("no room")
    yield


def fake(monkeypatch: pytest.MonkeyPatch, **running: object) -> None:
    monkeypatch.setattr(services, "known", lambda: {name: types.SimpleNamespace(running=run) for name, run in running.items()})


def test_one_that_does_not_start_leaves_the_others_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fake(monkeypatch, kafka=broken, postgres=served)
    stop = Event()
    monkeypatch.setattr(stop, "wait", lambda: None)
    assert services.run([], tmp_path / PID_FILE, stop) == 0
    said = capsys.readouterr().out
    assert "# kafka: did not start: no room" in said
    assert "export SOMEHOST='127.0.0.1'" in said
    assert services.run(["kafka"], tmp_path / PID_FILE, stop) == 3
    assert services.run(["mysql"], tmp_path / PID_FILE, stop) == 2
    assert "there is no service mysql; there is kafka, postgres" in capsys.readouterr().out


def test_a_pid_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / PID_FILE).write_text(f"{os.getpid()}\n")
    assert services.end(tmp_path / PID_FILE) == 0
    (tmp_path / PID_FILE).write_text("nonsense")
    assert services.end(tmp_path / PID_FILE) == 0


@pytest.mark.heavy
@pytest.mark.parametrize("by_command", [True, False])
def test_a_real_one_is_up_until_it_is_stopped(tmp_path: Path, by_command: bool) -> None:
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT), str(ROOT / "spark"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    pid_file = ["--pid-file", str(tmp_path / PID_FILE)]
    log = tmp_path / "said"
    command = [sys.executable, "-m", "services", "postgres", *pid_file]
    with log.open("wb") as said:
        running = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
    try:
        eventually(lambda: "1 up" in log.read_text(), within=60, what="up")
        given = dict(line[7:].split("=") for line in log.read_text().splitlines() if line.startswith("export "))
        port = given["PGPORT"].strip("'")
        psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres").close()
        if by_command:
            again = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
            assert again.returncode == 2
            assert "up already" in again.stdout
            stopping = [sys.executable, "-m", "services", "--stop", *pid_file]
            assert subprocess.run(stopping, env=environment, timeout=60, check=False).returncode == 0
        else:
            running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres")
        assert not (tmp_path / PID_FILE).exists()
    finally:
        if running.poll() is None:
            running.terminate()


_HELD = """
from pathlib import Path
import time
import pytest
from services.postgres import running

@pytest.fixture(scope="session")
def server():
    with running() as server:
        yield server

def test_that_takes_long(server):
    Path("beside").write_text(f"{server._server.pid} {server.folder}")
    Path("beside").rename("up")
    time.sleep(60)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("number", often([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], signal.SIGKILL))
def test_no_server_outlives_the_run_that_started_it(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "test_held.py").write_text(_HELD)
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT), str(ROOT / "spark"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "services.ending", "-p", "no:cacheprovider", "test_held.py"]
    with (tmp_path / "said").open("wb") as said:
        # what a shell starts in the background ignores Ctrl-C, and so does what that starts
        hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        running = subprocess.Popen(
            command, stdout=said, stderr=said, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, preexec_fn=hears
        )
    try:
        eventually((tmp_path / "up").exists, within=60, what=f"up: {(tmp_path / 'said').read_text()}")
        pid, folder = (tmp_path / "up").read_text().split()
        assert is_alive(int(pid))
        running.send_signal(number)
        running.wait(30)
        eventually(lambda: not is_alive(int(pid)), within=20, what="the server's end")
        assert Path(folder).exists() is (number == signal.SIGKILL), "nobody is left to remove it"
        if number == signal.SIGKILL:
            shutil.rmtree(folder)
    finally:
        if running.poll() is None:
            running.kill()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
