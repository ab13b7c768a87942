"""What the receiver answers: always JSON, and where something was not done `{"error": …}` says what to do.

The status says who has the event now:

======  ============================================================================================
200     it has landed
202     it will never land as it is; it is kept (quarantine, dead letters), and sending it again is no use
4xx     the sender has it: the request, or the project, must be mended
429     the sender has it: send again after `Retry-After` seconds
503     the sender has it: send again after `Retry-After` seconds
======  ============================================================================================

202 and not 4xx for an event that does not decode: Debezium Server sends an event that was not answered with 2xx again,
`retries` times in all, and then ends for good, so that one bad event would stop every table behind it.

Source: Debezium Server 3.6, `HttpChangeConsumer.handle`, `HttpUtil.isSuccessStatusCode`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

_SHOWN = 20


class RefusedError(Exception):
    """A request that is answered with an error; `message` is for the sender and holds nothing of what was sent."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def answer(self) -> Response:
        """Return what the sender is answered."""
        return JSONResponse({"error": self.message}, self.status, self.headers)


def try_later(status: int, message: str, *, seconds: float) -> RefusedError:
    """Return a refusal that says when to send again; at least one second."""
    return RefusedError(status, message, headers={"Retry-After": str(max(1, math.ceil(seconds)))})


def answer(reasons: Mapping[int, str], *, count: int, landed: int, where: str) -> Response:
    """Answer what became of `count` events; `reasons`: why some were kept aside, by their index in the request.

    `success` and `error` are what clients of Memphis' gateway look at.
    """
    if not reasons:
        return JSONResponse({"success": True, "error": None, "landed": landed})
    first = next(iter(reasons.values()))
    which = f"{len(reasons)} of {count} events" if count > 1 else "the event"
    body = {
        "success": False,
        "error": f"{which} cannot land as sent and went to {where}: {first}",
        "kept": [{"index": index, "reason": reason} for index, reason in list(reasons.items())[:_SHOWN]],
        "landed": landed,
    }
    return JSONResponse(body, 202)
