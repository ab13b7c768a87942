"""A scheduled table: its cron expression, and the folder of its lock and its last completed run."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from filelock import FileLock, Timeout

from cdc_views.errors import TableLockedError
from cdc_views.model.cron import Cron
from cdc_views.model.whole_files import write_whole

if TYPE_CHECKING:  # who only takes the lock loads no state
    from cdc_views.operations.context import ProjectContext
    from cdc_views.project import TableConfig
    from cdc_views.state import Materialization

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems without locks."""


@contextmanager
def holding(folder: Path, *, table: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of `table`, kept in the table's own `folder`, for the length of the block.

    Raises `TableLockedError` if somebody else still holds it after `wait` seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "holder"
    held: AbstractContextManager[object] = nullcontext()
    try:
        held = FileLock(folder / "lock").acquire(timeout=wait, poll_interval=0.2)
    except Timeout:
        raise TableLockedError(table=table, holder=_named(holder), waited=wait) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    with held:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {now}", encoding="utf-8")
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)


def _named(holder: Path) -> str:
    """Who holds the lock; somebody who has not written it yet is another process."""
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
    """One of a project: `cdc_views.api.Table`."""

    @property
    def config(self) -> TableConfig:
        """Its part of the project file."""

    @property
    def project(self) -> ProjectContext:
        """The project."""


@dataclass(frozen=True, slots=True)
class Job:
    """A table with the folder of its lock, and its cron expression if it has one."""

    table: Materializable
    folder: Path
    cron: Cron | None = None
    engine: str | None = None

    @property
    def name(self) -> str:
        """The table's full name."""
        return self.table.name

    def run(self, *, full: bool = False, wait: float = 0.0) -> Materialization:
        """Bring state up to date while holding the table's lock; raises `TableLockedError` as `holding` does."""
        with holding(self.folder, table=self.name, wait=wait):
            return self.table.materialize(full=full, engine=self.engine)

    def run_tick(self, tick: datetime) -> Materialization | None:
        """Run for `tick` and remember that; None if another scheduler has in the meantime."""
        with holding(self.folder, table=self.name):
            done = self.completed()
            if done is not None and done >= tick:
                return None
            outcome = self.table.materialize(engine=self.engine)
            self.remember(tick)
            return outcome

    def completed(self) -> datetime | None:
        """Return the last tick whose run was completed, or when the table was first scheduled; None for neither."""
        try:
            text = json.loads((self.folder / _COMPLETED).read_text(encoding="utf-8"))["completed"]
            return datetime.fromisoformat(text).astimezone(timezone.utc)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def remember(self, tick: datetime) -> None:
        """Make `tick` what `completed` returns, in one step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / _COMPLETED, json.dumps({"completed": tick.astimezone(timezone.utc).isoformat()}))


def lock_folder(project: ProjectContext, config: TableConfig) -> Path:
    """Return the folder of a table's lock, which need not be there.

    It is beside the project file if the warehouse is no folder; then only runs on this machine see the lock.
    """
    folder = project.root / ".cdc-views" if project.is_remote else project.warehouse
    return folder / "locks" / config.slug


def job_of(table: Schedulable, *, engine: str | None = None) -> Job:
    """Return the job of a project's table."""
    expression = table.config.materialize.schedule
    cron = None if expression is None else Cron(expression)
    return Job(table, lock_folder(table.project, table.config), cron=cron, engine=engine)
