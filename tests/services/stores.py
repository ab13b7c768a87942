"""What tests know of an object store, whichever it is: its URLs, and what a client needs to reach it."""

from __future__ import annotations

from typing import Protocol

BUCKET = "lake"
"""The bucket, or container, that a server starts with."""


class Store(Protocol):
    """A running server of an object store."""

    @property
    def port(self) -> int:
        """Where it listens on the loopback."""

    def url(self, bucket: str = BUCKET) -> str:
        """The URL of a bucket, without a `/` at its end."""

    def options(self, *, port: int | None = None) -> dict[str, str]:
        """What a client needs to know, in the names of `storage_options:`; `port`: of something between it and the server."""

    def make(self, bucket: str) -> None:
        """Make a bucket."""
