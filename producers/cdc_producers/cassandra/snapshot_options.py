"""What is chosen of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.errors import UsageError

CONSISTENCIES = ("ONE", "TWO", "THREE", "QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE", "ALL")


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """How a snapshot reads.

    Attributes:
        hosts: Nodes to connect to; their data center is the one that is read from.
        port: Of CQL.
        consistency: A consistency level: what was acknowledged at W is seen from a level R where R + W > RF.
        page_rows: Rows asked for at once.
        rows_per_second: At most; 0: as fast as it goes.
        ranges: Parts the whole token ring is cut into; each is a query of its own.
        own_ranges: Only the ranges whose first replica is the first of `hosts`: each node's agent reads its part.
        log_since: The commit log that is landed too has everything from here on (µs); 0: from the start of this run on.
            See `snapshot_events`.
        passes_over_logged: Whether a table that has had CDC since it was created is passed over: its log has everything, as
            long as no segment was let go.
        marks_rows: Whether rows are taken for inserted (rule W1); False: for updated, unless they have no cell.
        reads_elements: Whether write times of collections' elements are read where the server has them (5.0).
        timeout_seconds: Of one page.
        name: Of the stream that positions are kept under: another name is another snapshot.
    """

    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = 9042
    consistency: str = "LOCAL_QUORUM"
    page_rows: int = 1000
    rows_per_second: int = 0
    ranges: int = 64
    own_ranges: bool = False
    log_since: int = 0
    passes_over_logged: bool = False
    marks_rows: bool = True
    reads_elements: bool = True
    timeout_seconds: float = 60.0
    name: str = "snapshot"

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

    def stream_of(self, host_id: str) -> str:
        """Return the stream of a table that positions are kept under; `host_id` is the node's whose ranges are read."""
        return f"{self.name}:{host_id}" if self.own_ranges else self.name
