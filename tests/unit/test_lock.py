"""A table's lock: one holder, whatever dies, real processes throughout."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc_views.errors import TableLockedError
from cdc_views.operations.scheduling import holding
from cdc_views.storage.places import place_of

T = "shop.orders"

_HOLD = """
import sys, time
from pathlib import Path
from cdc_views.operations.scheduling import holding
with holding(Path(sys.argv[1]), table="shop.orders"):
    print("held", flush=True)
    sys.stdin.readline()
"""

_RACE = """
import sys, time
from pathlib import Path
from cdc_views.errors import TableLockedError
from cdc_views.operations.scheduling import holding

folder, inside = Path(sys.argv[1]), Path(sys.argv[1]) / "inside"
for line in sys.stdin:
    time.sleep(max(0.0, float(line) - time.time()))
    try:
        with holding(folder, table="t"):
            inside.touch(exist_ok=False)  # fails where somebody else is inside
            time.sleep(0.05)
            inside.unlink()
            print("won", flush=True)
    except TableLockedError:
        print("lost", flush=True)
"""


@contextmanager
def running(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def write(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def take(folder: Path, wait: float = 0.0) -> None:
    with holding(folder, table=T, wait=wait):
        pass


def test_a_lock_is_held_by_one_and_can_be_taken_again(tmp_path: Path) -> None:
    with holding(tmp_path / "deep" / "t", table=T):
        with pytest.raises(
            TableLockedError, match=rf"shop\.orders is being run by process {os.getpid()} on .+, since 20"
        ) as refused:
            take(tmp_path / "deep" / "t")
        assert (refused.value.exit_code, refused.value.table) == (3, T)
    take(tmp_path / "deep" / "t")
    take(tmp_path / "deep" / "t")


def test_an_error_inside_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), holding(tmp_path, table=T):
        raise ZeroDivisionError
    take(tmp_path)


def test_files_do_not_pile_up(tmp_path: Path) -> None:
    for _ in range(5):
        take(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


@pytest.mark.heavy
def test_waiting_ends_when_the_holder_does_or_says_how_long_it_was(tmp_path: Path) -> None:
    with running(_HOLD, str(tmp_path)) as holder:
        assert read(holder) == "held"
        with pytest.raises(TableLockedError, match=rf"process {holder.pid} .* still is after 0\.3 s.*--wait"):
            take(tmp_path, wait=0.3)
        write(holder, "go on")
        take(tmp_path, wait=20)


def test_a_holder_that_is_killed_loses_the_lock_at_once(tmp_path: Path) -> None:
    with running(_HOLD, str(tmp_path)) as holder:
        assert read(holder) == "held"
        with pytest.raises(TableLockedError, match=f"process {holder.pid} "):
            take(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        started = time.monotonic()
        take(tmp_path)
        assert time.monotonic() - started < 0.5


def test_a_killed_holder_that_nobody_has_waited_for_is_dead_too(tmp_path: Path) -> None:
    with running(_HOLD, str(tmp_path)) as holder:
        assert read(holder) == "held"
        holder.send_signal(signal.SIGKILL)
        take(tmp_path, wait=5)  # a zombie until the block ends


_HOLD_AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
from cdc_views.operations.scheduling import holding
print("ready", flush=True)
while True:
    with holding(Path(sys.argv[1]), table="shop.orders"):
        pass
"""


@pytest.mark.heavy
def test_whatever_a_killed_process_was_at_the_lock_can_be_taken_at_once(tmp_path: Path) -> None:
    """Killed while taking the lock, holding it or giving it back."""
    for number in range(10):
        with running(_HOLD_AGAIN_AND_AGAIN, str(tmp_path)) as process:
            assert read(process) == "ready"
            time.sleep(0.003 * number)
            process.kill()
            process.wait()
            take(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


@pytest.mark.heavy
def test_of_two_takers_never_two_hold(tmp_path: Path) -> None:
    """Twenty races for the lock; whoever gets it asserts to be alone."""
    with running(_RACE, str(tmp_path)) as one, running(_RACE, str(tmp_path)) as two:
        for _ in range(20):
            start = str(time.time() + 0.02)
            for process in (one, two):
                write(process, start)
            answers = sorted([read(one), read(two)])
            assert answers in (["lost", "won"], ["won", "won"])  # the second may come after the first has ended


@pytest.mark.heavy
def test_the_race_would_notice_two_holders(tmp_path: Path) -> None:
    blind = "import fcntl\nfcntl.flock = lambda *_: None\nfor line in sys.stdin"
    broken = _RACE.replace("for line in sys.stdin", blind).replace("sleep(0.05)", "sleep(1.0)")
    with running(broken, str(tmp_path)) as one, running(broken, str(tmp_path)) as two:
        start = str(time.time() + 1.0)
        for process in (one, two):
            write(process, start)
        assert "" in (read(one), read(two))


def test_a_holder_that_has_not_written_its_name_yet_holds_the_lock(tmp_path: Path) -> None:
    with holding(tmp_path, table=T):
        for empty in (lambda holder: holder.write_text(""), Path.unlink):
            empty(tmp_path / "holder")
            with pytest.raises(TableLockedError, match="by another process; try again"):
                take(tmp_path)


def test_the_lock_of_a_warehouse_on_a_store_is_on_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = place_of("s3://lake/locks/shop_orders")
    with holding(folder, table=T), pytest.raises(TableLockedError), holding(folder, table=T):
        pass
    assert [path.name for path in tmp_path.rglob("lock")] == ["lock"]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_stops_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with holding(tmp_path, table=T):
        take(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="broken"):
        take(tmp_path)
