"""A table's lock: one holder, whatever dies, on one machine and across several; real processes throughout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_views.errors import TableLockedError
from cdc_views.operations.scheduling import Heartbeat, holding
from cdc_views.operations.scheduling.owner import Owner

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
from dataclasses import replace
from pathlib import Path
from cdc_views.errors import TableLockedError
from cdc_views.operations.scheduling import holding, lock
from cdc_views.operations.scheduling.owner import Owner

folder, kernel, inside = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[1]) / "inside"
if kernel:  # as another host, on a file system whose locks do not reach it
    me = replace(Owner.this_process(), kernel=kernel)
    Owner.this_process = classmethod(lambda cls: replace(me, token=str(time.monotonic_ns())))
    lock._flock = lambda guard: lock._Guard.MINE
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


def take(folder: Path, wait: float = 0.0, stale_after: float = 300.0) -> Owner:
    with holding(folder, table=T, wait=wait, heartbeat=Heartbeat(0.05, stale_after)) as owner:
        return owner


def claims(folder: Path) -> list[Path]:
    return sorted(folder.glob("claim-*"))


def elsewhere() -> Owner:
    """A process of another machine."""
    return replace(Owner.this_process(), host="far", kernel="another", pid=4242)


def claim_of(folder: Path, owner: Owner, *, age: float = 0.0, number: int = 1) -> Path:
    """A claim as `owner` would have left it, with a heartbeat `age` seconds old."""
    folder.mkdir(exist_ok=True)
    claim = folder / f"claim-{number:012d}"
    claim.write_text(owner.to_json())
    os.utime(claim, (time.time() - age, time.time() - age))
    return claim


def test_a_lock_is_held_by_one_and_can_be_taken_again(tmp_path: Path) -> None:
    with holding(tmp_path / "deep" / "t", table=T):
        with pytest.raises(
            TableLockedError, match=rf"shop\.orders is being run by process {os.getpid()} on .+, since 20"
        ) as refused:
            take(tmp_path / "deep" / "t")
        assert (refused.value.exit_code, refused.value.table) == (3, T)
    first, second = take(tmp_path / "deep" / "t"), take(tmp_path / "deep" / "t")
    assert first.token != second.token


def test_an_error_inside_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), holding(tmp_path, table=T):
        raise ZeroDivisionError
    take(tmp_path)


def test_claims_do_not_pile_up(tmp_path: Path) -> None:
    for _ in range(5):
        take(tmp_path)
    assert [claim.name for claim in claims(tmp_path)] == ["claim-000000000005"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claim-000000000005", "guard"]


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
    """Killed while taking the lock, holding it or giving it back: with the claim written in place some of these waited."""
    for number in range(10):
        with running(_HOLD_AGAIN_AND_AGAIN, str(tmp_path)) as process:
            assert read(process) == "ready"
            time.sleep(0.003 * number)
            process.kill()
            process.wait()
            take(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("kernels", [("", ""), ("one", "two")], ids=["one machine", "two hosts that no flock joins"])
def test_of_two_takers_never_two_hold(tmp_path: Path, kernels: tuple[str, str]) -> None:
    """Twenty races for the lock of a dead holder; whoever gets it asserts to be alone."""
    with running(_RACE, str(tmp_path), kernels[0]) as one, running(_RACE, str(tmp_path), kernels[1]) as two:
        for _ in range(20):
            for old in claims(tmp_path):
                old.unlink()
            claim_of(tmp_path, elsewhere(), age=1000)
            start = str(time.time() + 0.02)
            for process in (one, two):
                write(process, start)
            answers = sorted([read(one), read(two)])
            assert answers in (["lost", "won"], ["won", "won"])  # the second may come after the first has ended


@pytest.mark.heavy
def test_the_race_would_notice_two_holders(tmp_path: Path) -> None:
    blind = "lock._make = lock._is_highest = lambda *_: True\nfor line in sys.stdin"
    broken = _RACE.replace("for line in sys.stdin", blind).replace("sleep(0.05)", "sleep(1.0)")
    with running(broken, str(tmp_path), "one") as one, running(broken, str(tmp_path), "two") as two:
        start = str(time.time() + 1.0)
        for process in (one, two):
            write(process, start)
        assert "" in (read(one), read(two))


def test_another_host_keeps_the_lock_while_its_heart_beats(tmp_path: Path) -> None:
    claim_of(tmp_path, elsewhere(), age=200)
    with pytest.raises(
        TableLockedError, match=r"process 4242 on far, since .* \(last sign of life 200 s ago; .* dead after 300 s"
    ):
        take(tmp_path)


def test_another_host_without_a_heartbeat_loses_it(tmp_path: Path) -> None:
    claim_of(tmp_path, elsewhere(), age=301)
    take(tmp_path)


def test_another_host_that_gave_it_back_does_not_hold_it(tmp_path: Path) -> None:
    claim_of(tmp_path, elsewhere().released())
    take(tmp_path)


def test_a_claim_cut_off_while_written_holds_until_its_heartbeat_is_old(tmp_path: Path) -> None:
    claim = claim_of(tmp_path, elsewhere())
    claim.write_text('{"host": "fa')
    with pytest.raises(TableLockedError, match="has not said who it is"):
        take(tmp_path)
    then = time.time() - 0.2  # two heartbeats of 0.05 s, and not the 300 s of a holder with a name
    os.utime(claim, (then, then))
    take(tmp_path)


def test_a_heart_beats_while_the_lock_is_held_and_not_longer(tmp_path: Path) -> None:
    with holding(tmp_path, table=T, heartbeat=Heartbeat(0.05)):
        (claim,) = claims(tmp_path)
        os.utime(claim, (0, 0))
        until = time.monotonic() + 5
        while claim.stat().st_mtime == 0 and time.monotonic() < until:
            time.sleep(0.02)
        assert claim.stat().st_mtime > 0
    time.sleep(0.1)
    os.utime(claim, (0, 0))
    time.sleep(0.2)
    assert claim.stat().st_mtime == 0


def test_a_holder_that_was_outbid_disturbs_nobody_when_it_ends(tmp_path: Path) -> None:
    """A host that slept beyond its heartbeat: another one took over, and its release must not give *that* lock back."""
    with holding(tmp_path, table=T, heartbeat=Heartbeat(0.05)):
        (old,) = claims(tmp_path)
        new = claim_of(tmp_path, elsewhere(), number=2)
        old.unlink()
    assert claims(tmp_path) == [new]
    with pytest.raises(TableLockedError, match="process 4242 on far"):
        take(tmp_path)


def test_a_slow_taker_does_not_win_with_a_number_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim_of(tmp_path, elsewhere(), age=1000)

    def overtaken(*_: object) -> float:
        claim_of(tmp_path, elsewhere(), number=3)
        return 1000.0

    monkeypatch.setattr("cdc_views.operations.scheduling.lock._age", overtaken)
    with pytest.raises(TableLockedError, match="process 4242 on far"):
        take(tmp_path)
    assert [claim.name[-1] for claim in claims(tmp_path)] == ["1", "3"]


def test_a_file_system_without_hard_links_has_locks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "no hard links")

    monkeypatch.setattr(os, "link", refuse)
    with holding(tmp_path, table=T), pytest.raises(TableLockedError, match=f"process {os.getpid()} "):
        take(tmp_path)
    take(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


class TestWithoutFlock:
    """A file system that has none: claims decide, and the process of a holder on this machine is looked at."""

    @pytest.fixture(autouse=True)
    def no_flock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import errno
        import fcntl

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "no locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)

    def test_one_holds(self, tmp_path: Path) -> None:
        with holding(tmp_path, table=T), pytest.raises(TableLockedError, match=f"process {os.getpid()} "):
            take(tmp_path)
        take(tmp_path)

    def test_a_process_that_is_gone_loses_it_at_once(self, tmp_path: Path) -> None:
        with running(_HOLD, str(tmp_path)) as holder:
            assert read(holder) == "held"
            with pytest.raises(TableLockedError, match=f"process {holder.pid} "):
                take(tmp_path)
            holder.kill()
            holder.wait()
            take(tmp_path)

    def test_another_process_of_the_same_number_is_not_the_holder(self, tmp_path: Path) -> None:
        me = Owner.this_process()
        assert me.started
        claim_of(tmp_path, replace(me, started=str(int(me.started) - 1)))
        take(tmp_path)

    def test_a_number_of_another_namespace_says_nothing(self, tmp_path: Path) -> None:
        claim_of(tmp_path, replace(Owner.this_process(), namespace="pid:[1]", started="1"))
        with pytest.raises(TableLockedError):
            take(tmp_path)


def test_this_process_runs_and_a_zombie_does_not() -> None:
    me = Owner.this_process()
    assert me.is_running()
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet waited for
    assert not replace(me, pid=child.pid).is_running()
    child.wait()
    assert not replace(me, pid=child.pid).is_running()


def test_what_is_no_owner_reads_as_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", "{}", '{"host": 1, "more": 2}', "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")):
        (tmp_path / "claim").write_text(text)
        assert Owner.read(tmp_path / "claim") is None
    assert Owner.read(tmp_path / "none") is None
