"""The options of `cdc-views produce cassandra`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from cdc_producers.cassandra.addresses import Account
from cdc_producers.cassandra.remembered import has_let_go
from cdc_views.errors import UsageError
from cdc_views.landing.producers import option
from cdc_views.landing.targets import ProducerProject
from cdc_views.storage.unnamed import settled

CONSISTENCIES = ("ONE", "TWO", "THREE", "QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE", "ALL")


class After(str, Enum):
    """What happens to a segment once all of it has landed."""

    DELETE = "delete"
    ARCHIVE = "archive"
    KEEP = "keep"


class FollowSchema(str, Enum):
    """What happens to the project's schema file after the node's schema has changed."""

    APPEND = "append"
    WARN = "warn"


class SnapshotMode(str, Enum):
    """Whether to read rows from before the commit log."""

    INITIAL = "initial"
    ONLY = "only"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """How a snapshot reads.

    Attributes:
        host: The node to connect to; reads go to its data center.
        consistency: A consistency level; a read at R sees every write acknowledged at W if R + W > RF.
        rows_per_second: The limit; 0 for none.
        ranges: Number of parts of the whole token ring; one query reads a part.
        own_ranges: Read only the ranges whose first replica is `host`: each node's agent reads its part.
        passes_over_logged: Skip a table that has had CDC since its creation, if no segment was removed: its log has everything.
        name: Name of the stream of positions; another name is another snapshot.
        account: Who reads.
    """

    host: str = "127.0.0.1"
    port: int = 9042
    consistency: str = "LOCAL_QUORUM"
    page_rows: int = 1000
    rows_per_second: int = 0
    ranges: int = 64
    own_ranges: bool = False
    passes_over_logged: bool = False
    name: str = "snapshot"
    account: Account = field(default_factory=Account.of_environment)

    def __post_init__(self) -> None:
        if self.consistency not in CONSISTENCIES:
            raise UsageError(f"consistency level {self.consistency!r} is none of {', '.join(CONSISTENCIES)}")
        for what, value, least in (
            ("page rows", self.page_rows, 1),
            ("rows a second", self.rows_per_second, 0),
            ("ranges", self.ranges, 1),
        ):
            if value < least:
                raise UsageError(f"{what} of a snapshot: {value}; {least} or more was expected")


def _work_folder(project: ProducerProject, given: Mapping[str, Any]) -> Path:
    name = f"{given['host'].replace(':', '_')}-{given['port']}"
    earlier = project.folder / ".cdc-views" / f"cassandra-{name}"
    if project.warehouse is None:  # on a store, where the reader cannot work
        return earlier
    place = project.warehouse / "cassandra" / name
    found = settled(place, earlier, is_used=Path.is_dir)
    if found is None:
        raise UsageError(
            f"this agent has two work folders: {place}, and {earlier}, where earlier versions had it; "
            "name the one to go on with: --work-folder DIR"
        )
    return found


@dataclass(frozen=True, slots=True)
class CassandraOptions:
    """The options of an agent."""

    host: str = option("--host", "127.0.0.1", "HOST", help="The node this agent stands beside.")
    port: int = option("--port", 9042, "PORT", help="Its CQL port.")
    cdc_folder: Path | None = option("--cdc-folder", None, "DIR", help="Its cdc_raw folder; default: as the node says.")
    cassandra_lib: Path | None = option(
        "--cassandra-lib", None, "DIR", help="Its lib folder; default: jars of --cassandra-version, fetched once."
    )
    cassandra_version: str = option(
        "--cassandra-version", "5.0.9", "VERSION", help="Version of the jars to fetch, where no --cassandra-lib is given."
    )
    schema_file: Path | None = option(
        "--schema-file", None, "FILE", help="CQL of DESCRIBE … WITH INTERNALS, in place of asking the node."
    )
    work_folder: Path = option(
        "--work-folder", Path("cassandra"), "DIR", computed=_work_folder,
        help="The remembered schema, and what could not be read; default: in a local warehouse, else beside the project file.",
    )  # fmt: skip
    after: After = option("--after", After.DELETE, help="What becomes of a segment that has landed.")
    archive: str = option("--archive", "", "URL", help="Where --after archive puts segments: a folder, or a URL of fsspec.")
    follow_schema: FollowSchema = option(
        "--follow-schema", FollowSchema.APPEND, help="Write ALTERs to the project's CQL file when the node's schema changes."
    )
    poll_seconds: float = option("--poll", 0.1, "SECONDS", help="How often an idle cdc_raw is looked at.")
    heap: str = option("--heap", "256m", "SIZE", help="Memory of the Java part.")
    warns_at: float = option("--warn-at", 0.7, "PART", help="Warn once this part of cdc_total_space is in use.")
    snapshot: SnapshotMode = option(
        "--snapshot", SnapshotMode.INITIAL,
        help="Read rows older than the log. initial: of tables that need it; only: of all tables, then end.",
    )  # fmt: skip
    snapshot_consistency: str = option(
        "--snapshot-consistency", "LOCAL_QUORUM", "LEVEL", help="The consistency level a snapshot reads at."
    )
    snapshot_rate: int = option("--snapshot-rate", 0, "ROWS", help="Rows a second a snapshot reads at most; 0: no limit.")

    def __post_init__(self) -> None:
        if self.poll_seconds <= 0:
            raise UsageError("--poll: more than 0 seconds were expected")
        if (self.after is After.ARCHIVE) != bool(self.archive):
            raise UsageError("--after archive and --archive URL come together; give both, or neither")
        _ = self.of_snapshot
        if not 0 < self.warns_at <= 1:
            raise UsageError("--warn-at: a part of cdc_total_space was expected, more than 0 and at most 1")
        lib = self.cassandra_lib
        if lib is not None and not any([*lib.glob("apache-cassandra*.jar"), *lib.glob("cassandra-all-*.jar")]):
            raise UsageError(f"--cassandra-lib {lib}: has no apache-cassandra-*.jar; name the node's lib folder")

    @property
    def of_snapshot(self) -> SnapshotOptions:
        """How the snapshot reads: this node's part if it runs beside the log, everything if it runs alone."""
        is_beside = self.snapshot is SnapshotMode.INITIAL
        return SnapshotOptions(
            host=self.host,
            port=self.port,
            consistency=self.snapshot_consistency.upper(),
            rows_per_second=self.snapshot_rate,
            own_ranges=is_beside,
            passes_over_logged=is_beside and not has_let_go(self.work_folder),
        )
