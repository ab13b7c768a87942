"""What the command line says of the Cassandra agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from cdc_producers.cassandra.segments import has_let_go
from cdc_producers.cassandra.snapshot_options import SnapshotOptions
from cdc_views.errors import UsageError


class After(str, Enum):
    """What becomes of a segment once all of it has landed."""

    DELETE = "delete"
    ARCHIVE = "archive"
    KEEP = "keep"


class FollowSchema(str, Enum):
    """What becomes of the project's schema file once the node's schema has changed."""

    APPEND = "append"
    WARN = "warn"


class Snapshot(str, Enum):
    """Whether rows from before the commit log are read."""

    INITIAL = "initial"
    ONLY = "only"
    NEVER = "never"


_CHOICES: dict[str, type[Enum]] = {"after": After, "follow_schema": FollowSchema, "snapshot": Snapshot}


@dataclass(frozen=True, slots=True)
class Options:
    """See `cdc-views produce cassandra --help`."""

    host: str = "127.0.0.1"
    port: int = 9042
    cdc_folder: Path | None = None
    cassandra_lib: Path | None = None
    cassandra_version: str = "5.0.9"
    schema_file: Path | None = None
    work_folder: Path = Path(".cdc-views/cassandra")
    after: After = After.DELETE
    archive: str = ""
    follow_schema: FollowSchema = FollowSchema.APPEND
    poll_seconds: float = 0.1
    heap: str = "256m"
    warns_at: float = 0.7
    snapshot: Snapshot = Snapshot.INITIAL
    snapshot_consistency: str = "LOCAL_QUORUM"
    snapshot_rate: int = 0

    def __post_init__(self) -> None:
        if self.poll_seconds <= 0:
            raise UsageError("--poll: more than 0 seconds were expected")
        if (self.after is After.ARCHIVE) != bool(self.archive):
            raise UsageError("--after archive and --archive URL come together; give both, or neither")
        _ = self.of_snapshot
        if not 0 < self.warns_at <= 1:
            raise UsageError("--warn-at: a part of cdc_total_space was expected, more than 0 and at most 1")
        if self.cassandra_lib is not None and not _has_cassandra(self.cassandra_lib):
            raise UsageError(f"--cassandra-lib {self.cassandra_lib}: has no apache-cassandra-*.jar; name the node's lib folder")

    @property
    def of_snapshot(self) -> SnapshotOptions:
        """How the snapshot reads: beside the log only this node's part, alone everything."""
        is_beside = self.snapshot is Snapshot.INITIAL
        return SnapshotOptions(
            hosts=(self.host,),
            port=self.port,
            consistency=self.snapshot_consistency.upper(),
            rows_per_second=self.snapshot_rate,
            own_ranges=is_beside,
            passes_over_logged=is_beside and not has_let_go(self.work_folder),
        )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return the options that a producer was given by name; raises `UsageError` for a value nobody knows."""
        told = dict(given)
        for name, kind in _CHOICES.items():
            try:
                if name in told:
                    told[name] = kind(told[name])
            except ValueError as error:
                known = ", ".join(member.value for member in kind)
                raise UsageError(f"--{name.replace('_', '-')} is {told[name]!r}; one of {known} was expected") from error
        return cls(**told)


def _has_cassandra(lib: Path) -> bool:
    return any(next(lib.glob(name), None) for name in ("apache-cassandra*.jar", "cassandra-all-*.jar"))
