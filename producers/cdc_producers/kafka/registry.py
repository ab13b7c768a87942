"""A client of schema registries (Confluent's REST interface). While a registry is away, callers try again and skip nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from cdc_producers.kafka.avro import codec
from cdc_views.errors import CdcViewsError, MalformedEventError, TransientError, UsageError

ADDRESS, CREDENTIALS = "CDC_VIEWS_SCHEMA_REGISTRY_URL", "CDC_VIEWS_SCHEMA_REGISTRY_AUTH"
_NOT_FOUND, _INCOMPATIBLE = 404, 409
_INVALID = 422
_SECONDS = 5
_ID_BYTES = 4


def _json(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedEventError(f"no UTF-8 text: {error.reason} at byte {error.start}") from error


@dataclass
class Registry:
    """Client of one registry; caches its answers, as an id never changes its schema."""

    address: str
    _client: Any = None
    _readers: dict[int, Callable[[bytes], str]] = field(default_factory=dict)

    @classmethod
    def of(cls, address: str) -> Registry | None:
        """Return the registry at an address, or at the environment's; None if there is neither."""
        found = address or os.environ.get(ADDRESS, "")
        return cls(found) if found else None

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {"url": self.address, "max.retries": 0, "timeout": _SECONDS}
        if credentials := os.environ.get(CREDENTIALS):
            settings["basic.auth.user.info"] = credentials
        try:
            self._client = SchemaRegistryClient(settings)
        except (ValueError, TypeError) as error:
            raise UsageError(f"--registry {self.address}: {error}; an address like http://host:8081 was expected") from error

    def read(self, part: bytes) -> str:
        """Return the JSON of a key or value that is framed with its schema's id.
        Raises `MalformedEventError` if there is no such schema or the bytes do not fit it, `TransientError` without an answer.
        """
        number = int.from_bytes(part[1 : 1 + _ID_BYTES], "big")
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = self._reader(number)
        try:
            return reader(part[1 + _ID_BYTES :])
        except MalformedEventError as error:
            raise MalformedEventError(f"schema {number}: {error}") from error

    def _reader(self, number: int) -> Callable[[bytes], str]:
        with self._errors(f"asking for schema {number}"):
            try:
                schema = self._client.get_schema(number)
            except SchemaRegistryError as error:
                if error.http_status_code != _NOT_FOUND:
                    raise
                raise MalformedEventError(
                    f"{self.address} has no schema {number}; is it the registry of these topics?"
                ) from error
        if schema.schema_type == "JSON":
            return _json
        if schema.schema_type not in (None, "AVRO"):
            raise MalformedEventError(f"schema {number} is {schema.schema_type}; AVRO or JSON was expected")
        try:
            return codec(json.loads(schema.schema_str)).text
        except CdcViewsError as error:
            raise MalformedEventError(f"schema {number}: {error}") from error

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema under `subject` and return its id.
        Raises `UsageError` if it is not compatible with the subject's earlier schemas, `TransientError` without an answer.
        """
        text = json.dumps(schema, separators=(",", ":"))
        with self._errors(f"registering {subject}"):
            try:
                return int(self._client.register_schema(subject, Schema(text, "AVRO")))
            except SchemaRegistryError as error:
                if error.http_status_code not in (_INCOMPATIBLE, _INVALID):
                    raise
                raise UsageError(
                    f"{self.address}: the schema of {subject} does not fit its earlier versions: {error.error_message}. Add "
                    "columns or take them away, but keep their types; or land under another --topic-prefix"
                ) from error

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except CdcViewsError:
            raise
        except SchemaRegistryError as error:
            said = f"schema registry {self.address}: {doing}: {error.error_message} ({error.http_status_code})"
            if error.http_status_code in (401, 403):
                raise UsageError(f"{said}; set {CREDENTIALS} to user:password") from error
            raise TransientError(said) from error
        except Exception as error:  # httpx, ssl, json: anything may fail before an answer
            raise TransientError(f"schema registry {self.address} does not answer ({type(error).__name__}: {error})") from error
