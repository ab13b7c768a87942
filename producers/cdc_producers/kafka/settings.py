"""The connection to Kafka from the environment, and Kafka's errors as this project's.

Every variable with the prefix `CDC_VIEWS_KAFKA_` is a setting of the client: `CDC_VIEWS_KAFKA_SASL_PASSWORD` is `sasl.password`,
so no secret is on a command line. Source of the settings' names: librdkafka 2.16, `CONFIGURATION.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from cdc_views.errors import CdcViewsError, TransientError, UsageError

PREFIX = "CDC_VIEWS_KAFKA_"
ANSWERS_WITHIN = 10.0
_OURS = frozenset({"group.id", "enable.auto.commit", "enable.auto.offset.store", "isolation.level", "auto.offset.reset",
                   "transactional.id", "enable.idempotence"})  # fmt: skip
_QUIET = {"log_level": 0, "reconnect.backoff.ms": 250, "reconnect.backoff.max.ms": 5000}
_REFUSED = frozenset(
    {
        KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION,
        KafkaError._SSL, KafkaError._INVALID_ARG, KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.POLICY_VIOLATION,
    }
)  # fmt: skip

_AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})


def connection(bootstrap: str = "", *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a client's settings; raises `UsageError` if no broker is named, or for a setting that is this program's own."""
    given = os.environ if environment is None else environment
    found = {
        name.removeprefix(PREFIX).lower().replace("_", "."): value for name, value in given.items() if name.startswith(PREFIX)
    }
    if taken := sorted(_OURS & found.keys()):
        raise UsageError(f"{PREFIX}{taken[0].upper().replace('.', '_')} cannot be set: what lands once depends on it")
    if bootstrap:
        found["bootstrap.servers"] = bootstrap
    if not found.get("bootstrap.servers"):
        raise UsageError(f"no broker is named; give --bootstrap HOST:PORT, or set {PREFIX}BOOTSTRAP_SERVERS")
    return {**_QUIET, **found}


def error_of(error: KafkaError, *, doing: str) -> CdcViewsError:
    """Return a client's error as this project's: `UsageError` if somebody must change something, else transient."""
    if error.code() in _AWAY:
        return TransientError(f"no broker of Kafka answers ({doing}: {error.str()}); is it up, and is its address right?")
    said = f"Kafka: {doing}: {error.str()}"
    if error.code() in _REFUSED:
        return UsageError(f"{said}; see that the user, its rights and the {PREFIX}… settings are right")
    return TransientError(said)


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Raise the client's errors as this project's."""
    try:
        yield
    except KafkaException as error:
        raise error_of(error.args[0], doing=doing) from error


def client(make: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    """Create a client; raises `UsageError` for an unknown setting."""
    try:
        return make(settings)
    except KafkaException as error:
        raise UsageError(f"Kafka: {error.args[0].str()}; see the {PREFIX}… variables") from error
