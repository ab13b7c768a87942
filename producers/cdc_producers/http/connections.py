"""Limits the time and number of the receiver's connections: each takes an open file, and without files nobody gets an answer."""

from __future__ import annotations

import asyncio
import re
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Time for a request's line and headers, from its first byte; for a connection's first request, from when it was made."""
BODY_SECONDS = 45.0
"""Time for the body: longer than a handler waits, which answers 408."""
_MOST = 1000
_OTHER_FILES = 128
"""Open files of the process besides its connections."""
_HEAD_ENDS = b"\r\n\r\n"
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_LONGEST_HEAD = 64 << 10


def most_connections() -> int:
    """Return how many connections may be open at once: the limit of open files, less those the process needs."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else max(16, min(_MOST, files - _OTHER_FILES))


class StrictConnection(h11.Connection):
    """HTTP/1.1 that refuses what two programs in a row may read differently: where a request or a line ends.
    Source: RFC 9112, 6.1 and 2.2; RFC 9112, 11.2 on request smuggling.
    """

    _head = b""
    _is_ambiguous = False

    def receive_data(self, data: bytes) -> None:
        """Take bytes in, and check the line ends of a head."""
        if self.their_state is h11.IDLE and len(self._head) < _LONGEST_HEAD:
            self._head = (self._head + data).lstrip(b"\r\n")
            head, _, _ = self._head.partition(_HEAD_ENDS)
            self._is_ambiguous = self._is_ambiguous or _BARE_LINE_FEED.search(head) is not None
        super().receive_data(data)

    def next_event(self) -> Any:
        """Return the next event; raises `h11.RemoteProtocolError` for an ambiguous request."""
        if self._is_ambiguous:
            raise h11.RemoteProtocolError("a line ends in LF alone")
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._head = b""
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length beside Transfer-Encoding")
        return event


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with limits; above `most`, a new connection closes the one that has waited longest for a request."""

    most = most_connections()
    head_seconds, body_seconds = HEAD_SECONDS, BODY_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = StrictConnection(h11.SERVER)
        self._timer: asyncio.TimerHandle | None = None
        self._phase: tuple[str, int] | None = None
        self.since = 0.0
        """When it was made or last answered, in seconds of the loop's clock."""

    @property
    def awaits_request(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.since = self.loop.time()
        super().connection_made(transport)
        if len(self.connections) > self.most:
            others = [other for other in self.connections if isinstance(other, BoundedProtocol) and other.awaits_request]
            min(others, key=lambda other: other.since, default=self).end()
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._phase = None
        self._cancel()
        super().connection_lost(exc)

    def end(self) -> None:
        """Close the connection at once."""
        self.connections.discard(self)  # at once: others may arrive before `connection_lost` is called
        self.transport.abort()

    def _watch(self) -> None:
        """Start the timer for what the client has to send next; partial data does not extend it."""
        phase, seconds = self._awaited()
        if phase == self._phase:
            return
        self._cancel()
        self._phase = phase
        if phase is not None:
            self._timer = self.loop.call_later(seconds, self.end)

    def _awaited(self) -> tuple[tuple[str, int] | None, float]:
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return ("body", id(self.cycle)), self.body_seconds
        # uvicorn closes connections that are idle between two requests
        if state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            return ("head", id(self.cycle)), self.head_seconds
        return None, 0.0

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
