"""What the command line says of the Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_views.errors import UsageError

KEY_FORMATS = ("auto", "text")
BEGINNINGS = ("earliest", "latest")


@dataclass(frozen=True, slots=True)
class Options:
    """See `cdc-views produce kafka --help`.

    Attributes:
        formats: The raw format of each table.
        topics: The table of each topic that somebody named; a table without one has the topic of its own name.
        bootstrap: Brokers, as `host:port,host:port`; empty: CDC_VIEWS_KAFKA_BOOTSTRAP_SERVERS.
        group: The consumer group.
        begins: Where a topic begins of which nothing has landed: `earliest` or `latest`.
        key_format: `text` where keys are plain text even if they look like JSON.
        registry: Address of the schema registry; empty: CDC_VIEWS_SCHEMA_REGISTRY_URL, or none.
        accepts_gap: Go on where messages are gone, instead of ending.
    """

    formats: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    bootstrap: str = ""
    group: str = "cdc_views"
    begins: str = "earliest"
    key_format: str = "auto"
    registry: str = ""
    accepts_gap: bool = False
    heartbeat_seconds: float = 1.0

    def __post_init__(self) -> None:
        if not self.group:
            raise UsageError("--group is empty; a name was expected")
        if self.begins not in BEGINNINGS:
            raise UsageError(f"--from is {self.begins!r}; {' or '.join(BEGINNINGS)} was expected")
        if self.key_format not in KEY_FORMATS:
            raise UsageError(f"--key-format is {self.key_format!r}; {' or '.join(KEY_FORMATS)} was expected")
        if self.heartbeat_seconds <= 0:
            raise UsageError("--heartbeat: more than 0 seconds were expected")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return the options that a producer was given by name."""
        return cls(**given)
