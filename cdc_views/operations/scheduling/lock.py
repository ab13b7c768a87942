"""One run at a time per table, across processes and hosts that share the warehouse's folder.

The lock is for economy, not for correctness: two runs of a table waste work, and the second commit is refused, because a
commit of state is a compare-and-swap. So a lock that is lost while its holder sleeps does no harm.

Two things make it, in the table's folder:

- `guard`, held with `flock` as long as the run lasts. The kernel gives it back when the process ends, however it ends,
  so within one machine, containers included, nothing else need be looked at: who gets the guard is the only one.
- Numbered **claims**, each made by one. The highest is the holder's, and it is never removed, only outbid: so of two
  takers who saw the same dead claim one makes the next number, even where `flock` does not reach: other hosts on some
  network file systems. Such a claim is dead once it was given back, or its heartbeat is older than `stale_after`.

A heartbeat's age is the difference of two times of files in the same folder, both set by whoever keeps it. The clocks
of hosts are not compared.

Where the file system has no `flock`, claims alone decide, and a holder on this machine is dead when its process is gone
or another one has its number.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from threading import Event, Thread

from cdc_views.errors import TableLockedError
from cdc_views.operations.scheduling.owner import Owner

_GUARD = "guard"
_CLAIM = "claim-"
_DRAFT = "draft-"
_POLL = 0.2
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How often a holder shows that it lives, and after what silence a holder elsewhere is dead; both in seconds."""

    every: float = 15.0
    stale_after: float = 300.0


class _Guard(Enum):
    MINE = "mine"
    TAKEN = "taken"
    UNKNOWN = "unknown"


@contextmanager
def holding(folder: Path, *, table: str, wait: float = 0.0, heartbeat: Heartbeat | None = None) -> Iterator[Owner]:
    """Hold the lock of `table`, kept in `folder`, for the length of the block.

    Args:
        folder: The table's own folder; made where it is missing.
        table: The table's name, for the message.
        wait: How many seconds to wait for another holder.
        heartbeat: How a holder shows that it lives.

    Raises:
        TableLockedError: Somebody else holds it, and still does after `wait`.
    """
    beat = heartbeat or Heartbeat()
    deadline = time.monotonic() + wait
    while isinstance(taken := _take(folder, beat), _Refusal):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TableLockedError(table=table, holder=taken.holder, waited=wait)
        time.sleep(min(_POLL, left))
    try:
        yield taken.owner
    finally:
        taken.release()


@dataclass(frozen=True, slots=True)
class _Refusal:
    holder: str


class _Holding:
    """A lock that this process holds: the guard's descriptor, the claim, and the thread that renews it."""

    def __init__(self, guard: int, claim: Path, *, owner: Owner, every: float) -> None:
        self.owner = owner
        self._guard, self._claim = guard, claim
        self._ended = Event()
        self._pulse = Thread(target=self._beat, args=(every,), name=f"heartbeat of {claim}", daemon=True)
        self._pulse.start()

    def _beat(self, every: float) -> None:
        while not self._ended.wait(every):
            # a claim that was outbid is gone; a folder that cannot be reached may come back
            with suppress(OSError):
                os.utime(self._claim)

    def release(self) -> None:
        """Give the lock back; where it was lost in the meantime, nothing."""
        self._ended.set()
        try:
            with suppress(OSError):  # then it is dead once its heartbeat is old
                _give_back(self._claim, self.owner)
        finally:
            _unlock(self._guard)


def _take(folder: Path, beat: Heartbeat) -> _Holding | _Refusal:
    folder.mkdir(parents=True, exist_ok=True)
    guard = os.open(folder / _GUARD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        taken = _take_guarded(folder, guard, beat)
    except BaseException:
        os.close(guard)
        raise
    if isinstance(taken, _Refusal):
        os.close(guard)
    return taken


def _take_guarded(folder: Path, guard: int, beat: Heartbeat) -> _Holding | _Refusal:
    me = Owner.this_process()
    reach = _flock(guard)
    number = _highest(folder)
    path = _claim(folder, number)
    holder = Owner.read(path)
    if reach is _Guard.TAKEN:
        # between getting the guard and writing its claim a holder has no name yet
        return _Refusal(str(holder) if holder and not holder.is_released else "another process on this machine")
    if number and not _is_dead(holder, me, reach=reach):
        age = _age(path, guard)
        # without hard links a taker may have been killed while it wrote its name
        silence = beat.stale_after if holder else 2 * beat.every
        if age is not None and age < silence:
            seen = f"last sign of life {age:.0f} s ago; it counts as dead after {silence:.0f} s"
            return _Refusal(f"{holder or 'a process that has not said who it is'} ({seen})")
    mine = _claim(folder, number + 1)
    if not _make(mine, me) or not _is_highest(folder, number + 1):
        return _Refusal(str(Owner.read(_claim(folder, _highest(folder))) or "another process"))
    _remove_older(folder, number + 1)
    return _Holding(guard, mine, owner=me, every=beat.every)


def _flock(guard: int) -> _Guard:
    """Lock the guard without waiting; the kernel unlocks it when the process ends."""
    import fcntl  # not on Windows, where the project file must still load

    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _Guard.TAKEN
    except OSError as error:
        if error.errno in _NO_FLOCK:
            return _Guard.UNKNOWN
        raise
    return _Guard.MINE


def _unlock(guard: int) -> None:
    """Unlock and close the guard; a child that was just forked may have a copy of the descriptor."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(guard, fcntl.LOCK_UN)
    os.close(guard)


def _is_dead(holder: Owner | None, me: Owner, *, reach: _Guard) -> bool:
    """Whether the holder is surely gone. One that is not may still have an old heartbeat."""
    if holder is None:
        return False
    if holder.is_released:
        return True
    if reach is _Guard.MINE and holder.kernel == me.kernel:
        return True  # alive it would hold the guard
    return reach is _Guard.UNKNOWN and holder.is_seen_from(me) and not holder.is_running()


def _age(claim: Path, guard: int) -> float | None:
    """Seconds since the claim's heartbeat, by the clock of the file system; None for a claim that is gone."""
    os.utime(guard)
    try:
        return os.fstat(guard).st_mtime - claim.stat().st_mtime
    except FileNotFoundError:
        return None


def _claim(folder: Path, number: int) -> Path:
    return folder / f"{_CLAIM}{number:012d}"


def _numbers(folder: Path) -> list[int]:
    names = (name.removeprefix(_CLAIM) for name in os.listdir(folder) if name.startswith(_CLAIM))
    return [int(number) for number in names if number.isdigit()]


def _highest(folder: Path) -> int:
    return max(_numbers(folder), default=0)


def _make(claim: Path, owner: Owner) -> bool:
    """Make the claim, whole or not at all; returns whether it was not there."""
    draft = _draft(claim, owner)
    try:
        os.link(draft, claim)
    except (FileExistsError, FileNotFoundError):  # the latter where whoever won has cleared the drafts
        return False
    except OSError:  # a file system without hard links
        return _make_in_place(claim, owner)
    finally:
        draft.unlink(missing_ok=True)
    return True


def _make_in_place(claim: Path, owner: Owner) -> bool:
    try:
        descriptor = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(owner.to_json())
    return True


def _draft(claim: Path, owner: Owner) -> Path:
    """A file that nobody looks at, with what the claim is to say."""
    draft = claim.with_name(f"{_DRAFT}{owner.token}")
    draft.write_text(owner.to_json(), encoding="utf-8")
    return draft


def _is_highest(folder: Path, number: int) -> bool:
    """Whether nobody has outbid the claim; a slow taker may have made a number that was removed before."""
    if _highest(folder) == number:
        return True
    _claim(folder, number).unlink(missing_ok=True)
    return False


def _remove_older(folder: Path, number: int) -> None:
    """Remove what the winner of a number has outbid, and what takers left who were killed."""
    for other in _numbers(folder):
        if other < number:
            _claim(folder, other).unlink(missing_ok=True)
    for draft in folder.glob(f"{_DRAFT}*"):
        draft.unlink(missing_ok=True)


def _give_back(claim: Path, owner: Owner) -> None:
    """Mark the claim as given back, in one step; it stays, since the highest number must not go down."""
    if Owner.read(claim) != owner:
        return
    os.replace(_draft(claim, owner.released()), claim)
