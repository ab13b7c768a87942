"""The tables that one table's scripts work on, and the scripts' settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc_views.errors import ConfigError, UnsupportedError
from cdc_views_bigquery.limits import PARTITIONS_OF_A_JOB
from cdc_views_bigquery.types import quoted

_TABLE = re.compile(r"[\w -]{1,1000}\Z")
_PLACE = re.compile(r"[\w:.-]+\.\w+\Z|\w+\Z")


@dataclass(frozen=True, slots=True)
class Merging:
    """One table's materialization.

    Attributes:
        raw: The raw table in the canonical layout, quoted for FROM.
        dataset: Place of state and serving tables, `project.dataset` or `dataset`.
        name: The beginning of the names of the state's tables.
        serving: Name of the serving table; empty for none.
        lateness: Seconds after which what ended leaves the state, when a run settles it (rule M2). None: nothing leaves.
        overlap: Seconds before the watermark that are read again, for facts that became visible late.
        buckets: How many parts state and serving table have, by partition key.
        is_dense: Write queries without line breaks and comments: a third shorter, and hard to read.
    """

    raw: str
    dataset: str
    name: str
    serving: str = ""
    lateness: int | None = None
    overlap: int = 3600
    buckets: int = 64
    is_dense: bool = False

    def __post_init__(self) -> None:
        if not _PLACE.match(self.dataset):
            raise ConfigError(f"dataset is {self.dataset!r}; a dataset was expected, as in my-project.shop")
        for name in (self.name, self.serving or self.name):
            if not _TABLE.match(name):
                raise UnsupportedError(f"BigQuery has no tables called {name!r}", remedy="name it with letters, digits and `_`")
        if not 1 <= self.buckets <= PARTITIONS_OF_A_JOB:
            raise ConfigError(
                f"{self.buckets} buckets; 1 to {PARTITIONS_OF_A_JOB} were expected: a job changes no more partitions"
            )
        if self.overlap < 0 or (self.lateness is not None and self.lateness < 0):
            raise ConfigError("overlap and lateness are spans of time; none was expected to be below 0")

    def table(self, suffix: str) -> str:
        """Return the table with that suffix, quoted for FROM."""
        return quoted(f"{self.dataset}.{self.name}{suffix}")

    @property
    def state(self) -> str:
        """The state: one row per fact, in the raw layout."""
        return self.table("__state")

    @property
    def seen(self) -> str:
        """Digests of the facts within the overlap that were merged already."""
        return self.table("__seen")

    @property
    def late(self) -> str:
        """Facts that landed too late (rule M2)."""
        return self.table("__late")

    @property
    def watermark(self) -> str:
        """One row: the state's progress."""
        return self.table("__watermark")

    @property
    def facts(self) -> str:
        """The view of state and tail, in the raw layout."""
        return self.table("__facts")

    @property
    def served(self) -> str:
        """The serving table; without a name of its own, that of the state and `__rows`."""
        return quoted(f"{self.dataset}.{self.serving}") if self.serving else self.table("__rows")
