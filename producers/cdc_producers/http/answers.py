"""The receiver's answers: always JSON; if something was not done, `{"error": …}` states what to do.

The status shows who has the event now:

======  ============================================================================================
200     it has landed
202     it will never land as it is; it is kept (quarantine, dead letters), and sending it again is no use
4xx     the sender has it: the request, or the project, must be mended
429     the sender has it: send again after `Retry-After` seconds
503     the sender has it: send again after `Retry-After` seconds
======  ============================================================================================

An event that does not decode gets 202, not 4xx: Debezium Server repeats an event without a 2xx answer `retries` times and
then ends for good, so that one bad event would stop every table behind it.
Source: Debezium Server 3.6, `HttpChangeConsumer.handle`, `HttpUtil.isSuccessStatusCode`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

_SHOWN = 20


class RefusedError(Exception):
    """A request that is answered with an error; `message` goes to the sender and repeats nothing of the request."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def answer(self) -> Response:
        """Return the response."""
        return JSONResponse({"error": self.message}, self.status, self.headers)


def try_later(status: int, message: str, *, seconds: float) -> RefusedError:
    """Return a refusal with the time to send again, at least one second."""
    return RefusedError(status, message, headers={"Retry-After": str(max(1, math.ceil(seconds)))})


def answer(reasons: Mapping[int, str], *, count: int, landed: int, where: str) -> Response:
    """Return the answer for `count` events; `reasons` explains why some were kept aside, by their index in the request.
    Clients of Memphis' gateway read `success` and `error`.
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
