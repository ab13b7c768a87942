"""Decides when `materialize` runs: by cron expressions, one run at a time per table, across processes and hosts. A scheduler is
one process and runs one table at a time, so it needs the memory of one run, and a stop waits for one run. Use several schedulers
for tables that must not wait for each other; locks keep them apart.
"""

from __future__ import annotations

import errno
import getpass
import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from filelock import FileLock, Timeout

from cdc_views.errors import TableLockedError
from cdc_views.model.cron import Cron
from cdc_views.storage.places import Place, write_whole

if TYPE_CHECKING:  # a process that only takes the lock loads no state
    from cdc_views.operations.context import ProjectContext
    from cdc_views.project import TableConfig
    from cdc_views.state import Materialization


@contextmanager
def holding(folder: Place, *, table: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of `table`, in the table's own `folder`, during the block. Raises `TableLockedError` if another process still
    holds it after `wait` seconds.
    """
    folder = _on_this_machine(folder)
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "holder"
    held: AbstractContextManager[object] = nullcontext()
    try:
        held = FileLock(folder / "lock").acquire(timeout=wait, poll_interval=0.2)
    except Timeout:
        raise TableLockedError(table=table, holder=_named(holder), waited=wait) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):  # those of file systems without locks
            raise
    with held:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {now}", encoding="utf-8")
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)


def _on_this_machine(folder: Place) -> Path:
    """Return where a table's lock is kept. A store has no locks: runs on several machines meet at their commits, and one wins."""
    if isinstance(folder, Path):
        return folder
    name = sha256(str(folder).encode()).hexdigest()[:32]
    return Path(tempfile.gettempdir()) / f"cdc-views-locks-{getpass.getuser()}" / name


def _named(holder: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return holder.read_text(encoding="utf-8") or "another process"
    return "another process"


_COMPLETED = "completed.json"


class Materializable(Protocol):
    """A table with a state, such as `cdc_views.api.Table`."""

    @property
    def name(self) -> str:
        """Full name."""

    def materialize(self, *, full: bool = False, engine: str | None = None) -> Materialization:
        """Bring state up to date."""


class Schedulable(Materializable, Protocol):
    """A table of a project: `cdc_views.api.Table`."""

    @property
    def config(self) -> TableConfig:
        """The table's part of the project file."""

    @property
    def project(self) -> ProjectContext:
        """The project."""


@dataclass(frozen=True, slots=True)
class Job:
    """A table with the folder of its lock and, if it has one, its cron expression."""

    table: Materializable
    folder: Place
    cron: Cron | None = None
    engine: str | None = None

    @property
    def name(self) -> str:
        """The table's full name."""
        return self.table.name

    def run(self, *, full: bool = False, wait: float = 0.0) -> Materialization:
        """Bring state up to date under the table's lock; raises `TableLockedError` as `holding` does."""
        with holding(self.folder, table=self.name, wait=wait):
            return self.table.materialize(full=full, engine=self.engine)

    def run_tick(self, tick: datetime) -> Materialization | None:
        """Run for `tick` and remember it; None if another scheduler has already done so."""
        with holding(self.folder, table=self.name):
            done = self.completed()
            if done is not None and done >= tick:
                return None
            outcome = self.table.materialize(engine=self.engine)
            self.remember(tick)
            return outcome

    def completed(self) -> datetime | None:
        """Return the last completed tick, or when the table was first scheduled; None if it never was."""
        try:
            text = json.loads((self.folder / _COMPLETED).read_text(encoding="utf-8"))["completed"]
            return datetime.fromisoformat(text).astimezone(timezone.utc)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def remember(self, tick: datetime) -> None:
        """Store `tick` for `completed`, atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / _COMPLETED, json.dumps({"completed": tick.astimezone(timezone.utc).isoformat()}))


def lock_folder(project: ProjectContext, config: TableConfig) -> Place:
    """Return the folder of a table's lock, which need not exist; only this machine sees it if the warehouse is remote."""
    folder: Place = project.root / ".cdc-views" if project.is_remote else project.warehouse
    return folder / "locks" / config.slug


def job_of(table: Schedulable, *, engine: str | None = None) -> Job:
    """Return the job of a project's table."""
    expression = table.config.materialize.schedule
    cron = None if expression is None else Cron(expression)
    return Job(table, lock_folder(table.project, table.config), cron=cron, engine=engine)


class Clock(Protocol):
    """A source of time, and a way to wait."""

    def now(self) -> datetime:
        """Return the current instant, with a zone."""

    def sleep(self, seconds: float) -> None:
        """Return after this time, or earlier."""


@dataclass(frozen=True)
class SystemClock(Clock):
    """The machine's clock; a sleep ends when `stop` is set."""

    stop: Event

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def sleep(self, seconds: float) -> None:
        self.stop.wait(seconds)


@dataclass(frozen=True, slots=True)
class Started:
    """A run begins for `tick` and for all missed ticks since `since`; both are equal if none was missed."""

    table: str
    tick: datetime
    since: datetime


@dataclass(frozen=True, slots=True)
class Completed:
    """A run has succeeded."""

    table: str
    tick: datetime
    outcome: Materialization


@dataclass(frozen=True, slots=True)
class Failed:
    """A run has failed; the next tick tries again."""

    table: str
    tick: datetime
    error: Exception


@dataclass(frozen=True, slots=True)
class Skipped:
    """The ticks from `first` to `last` have no run."""

    table: str
    first: datetime
    last: datetime
    reason: str


Happening = Started | Completed | Failed | Skipped


def run_schedule(jobs: Sequence[Job], *, clock: Clock, stop: Event) -> Iterator[Happening]:
    """Run each table whenever it is due and yield what happens, until `stop` is set; never interrupts a run.

    - A tick during the table's own run is skipped.
    - A table that fell behind (the scheduler was down, or another table's run was long) runs once, not once per tick.
    - A table that fails is tried again at its next tick, and does not stop others.
    - A tick is skipped if another process holds the lock, or another scheduler has completed it.
    - Of two due tables the earlier tick goes first, then the earlier job. Jobs without a cron expression are left out.
    """
    scheduled = [_Scheduled(job, job.cron, _first_due(job, job.cron, clock.now())) for job in jobs if job.cron is not None]
    while scheduled and not stop.is_set():
        next_one = min(scheduled, key=lambda one: one.due)
        seconds = (next_one.due - clock.now()).total_seconds()
        if seconds > 0:
            clock.sleep(min(seconds, 30.0))  # not longer: the clock may be set, and the machine may sleep
        else:
            yield from next_one.run(clock)


@dataclass(slots=True)
class _Scheduled:
    """A job and the earliest tick that it has not run for."""

    job: Job
    cron: Cron
    due: datetime

    def run(self, clock: Clock) -> Iterator[Happening]:
        # a clock that was set back must not move us behind the due tick
        tick = max(self.due, self.cron.latest(clock.now()))
        yield Started(self.job.name, tick, self.due)
        happened = _attempt(self.job, tick)
        ended = clock.now()
        self.due = self.cron.after(tick)
        yield happened
        if self.due < ended:
            last = self.cron.latest(ended - timedelta(microseconds=1))
            yield Skipped(self.job.name, self.due, last, "its run was still going")
            self.due = self.cron.after(last)


def _attempt(job: Job, tick: datetime) -> Happening:
    try:
        outcome = job.run_tick(tick)
    except TableLockedError as error:
        return Skipped(job.name, tick, tick, f"it is being run by {error.holder}")
    except Exception as error:
        return Failed(job.name, tick, error)
    if outcome is None:
        return Skipped(job.name, tick, tick, "another scheduler has run it")
    return Completed(job.name, tick, outcome)


def _first_due(job: Job, cron: Cron, now: datetime) -> datetime:
    """Return the first tick after the last completed one; a table that was never scheduled has missed none."""
    done = job.completed()
    if done is None:
        job.remember(now)
    # a wrong clock wrote a tick that is in the future
    return cron.after(now if done is None or done > now else done)


def run_until_stopped(work: Callable[[Event], None], *, on_stop: Callable[[], None]) -> None:
    """Run `work` with an event that SIGINT or SIGTERM sets; return when it returns, and raise its error.

    `work` should return soon after the event is set. Calls `on_stop` once, at the first signal; a second one ends the process at
    once, with exit code 128 plus its number. `work` runs in its own thread, because Python handles signals only in the main
    thread, and not while that waits for an engine.
    """
    stop = Event()
    with ThreadPoolExecutor(1) as pool, _answered(stop, on_stop):
        done = pool.submit(work, stop)
        while not done.done():
            wait([done], timeout=0.2)
    done.result()


@contextmanager
def _answered(stop: Event, on_stop: Callable[[], None]) -> Iterator[None]:
    def answer(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        on_stop()

    before = {number: signal.signal(number, answer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
