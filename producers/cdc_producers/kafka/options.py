"""The options of `cdc-views produce kafka`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdc_views.errors import UsageError
from cdc_views.landing.producers import option, switch


class Beginning(str, Enum):
    """Where to begin reading a topic from which nothing has landed."""

    EARLIEST = "earliest"
    LATEST = "latest"


class KeyFormat(str, Enum):
    """How to read the keys of messages."""

    AUTO = "auto"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The options; each of `topic` is `TOPIC=TABLE`. Empty brokers or registry: the environment's."""

    topic: tuple[str, ...] = option(
        "--topic", (), "TOPIC=TABLE",
        help="The topic of a table; may be repeated. Default: `raw: {topics: …}`, else the topic that ends in its name.",
    )  # fmt: skip
    bootstrap: str = option("--bootstrap", "", "HOST:PORT", help="Brokers; default: CDC_VIEWS_KAFKA_BOOTSTRAP_SERVERS.")
    group: str = option(
        "--group", "cdc_views", "NAME", computed=lambda project, _: project.name,
        help="Consumer group; default: cdc_views_ and the project's name.",
    )  # fmt: skip
    begins: Beginning = option("--from", Beginning.EARLIEST, help="Where a topic begins that has not landed yet.")
    registry: str = option("--registry", "", "URL", help="Schema registry; default: CDC_VIEWS_SCHEMA_REGISTRY_URL, or none.")
    key_format: KeyFormat = option(
        "--key-format", KeyFormat.AUTO, help="text: keys are plain text even where they look like JSON."
    )
    accepts_gap: bool = switch("--accept-gap", help="Go on where Kafka has deleted what had not landed. Give it once.")
    heartbeat_seconds: float = option("--heartbeat", 1.0, "SECONDS", help="How often lag is measured.")

    def __post_init__(self) -> None:
        if not self.group:
            raise UsageError("--group is empty; a name was expected")
        if self.heartbeat_seconds <= 0:
            raise UsageError("--heartbeat: more than 0 seconds were expected")
