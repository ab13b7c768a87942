"""The routes: who may post, what is accepted and what is answered. See `answers` for the statuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cdc_producers.http.answers import RefusedError, try_later
from cdc_producers.http.limits import Rate, RequestRoom
from cdc_producers.http.options import LOOPBACK
from cdc_producers.http.receiver import Receiver
from cdc_producers.http.splitting import elements
from cdc_producers.http.tokens import Tokens

_LONGEST_SIGN_IN = 16 << 10
_PATIENCE_SECONDS = 30.0
"""The longest wait for a body."""
_DRAINED = 8
"""A body that is too large is read up to this many times the limit, so that its sender gets to read the answer."""
_TYPES = ("application/json", "text/json", "text/plain", "application/x-www-form-urlencoded", "")
"""Memphis' clients send the third type, `curl -d` the fourth; the body is JSON in any case."""
_NOBODY = "nobody"
_Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Routes:
    """The handlers of requests, which check sender and content. `longest` is a request's largest size in bytes.

    Attributes:
        tokens: None if everybody who can reach the port may post.
        rate: Requests per second and user; None for no limit.
        failures: Failed sign-ins per second and address.
    """

    receiver: Receiver
    tokens: Tokens | None
    rate: Rate | None
    failures: Rate
    room: RequestRoom
    longest: int

    async def health(self, _: Request) -> Response:
        """Answer `GET /healthz`: 503 while landing fails for a table."""
        failing = self.receiver.failing()
        return JSONResponse({"status": "failing" if failing else "ok", "failing": failing}, 503 if failing else 200)

    async def metrics(self, _: Request) -> Response:
        """Answer `GET /metrics` in Prometheus' text format."""
        metrics = self.receiver.metrics
        metrics.troubles().set(len(self.receiver.failing()))
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def take(self, request: Request, *, split: Callable[[bytes], Sequence[bytes]]) -> Response:
        """Accept a posted body; `split` cuts it into events of the address's station, or of the tables that they name."""
        if self.tokens is None:
            _check_is_no_web_page(request)
        user = _NOBODY if self.tokens is None else self.tokens.check_header(request.headers.get("authorization"))
        if self.rate is not None and (wait := self.rate.wait(user)):
            raise try_later(429, f"more than {self.rate.per_second:g} requests a second; send it again later", seconds=wait)
        _check_type(request)
        with self.room.taken(_declared(request, self.longest)):
            content = await _body(request, longest=self.longest)
            station = request.path_params.get("name")
            return await self.receiver.take(split(content), station=station, path=request.url.path, headers=request.headers)

    async def sign_in(self, request: Request, *, ask: Callable[[Tokens, Mapping[str, Any]], dict[str, Any]]) -> Response:
        """Answer with tokens, and count failed sign-ins."""
        if self.tokens is None:
            raise RefusedError(404, "this receiver was started with --no-auth; post without a token")
        try:
            asked = json.loads(await _body(request, longest=_LONGEST_SIGN_IN))
        except (ValueError, RecursionError):
            raise RefusedError(400, "JSON was expected") from None
        if not isinstance(asked, dict):
            raise RefusedError(400, "a JSON object was expected")
        try:
            return JSONResponse(ask(self.tokens, asked), headers={"Cache-Control": "no-store"})
        except RefusedError as error:
            if error.status == 401:
                self._count_failure(request)
            raise

    def _count_failure(self, request: Request) -> None:
        """Count a failed sign-in; raises `RefusedError` 429 after many failures from one address.
        Successes are not limited: clients may share an address, and one client must not lock out the others.
        """
        address = request.client.host if request.client else _NOBODY
        if wait := self.failures.wait(address):
            raise try_later(429, "too many failed sign-ins from this address; try again later", seconds=wait)
        self.receiver.log.warning(f"a sign-in from {address} failed")


def make_app(routes: Routes) -> Starlette:
    """Return the ASGI application; its lifespan runs the receiver."""
    counted = routes.receiver.metrics.requests

    def route(path: str, handler: _Handler, *, method: str = "POST") -> Route:
        async def answer(request: Request) -> Response:
            try:
                response = await handler(request)
            except RefusedError as error:
                response = error.answer()
            counted.labels(path, response.status_code).inc()
            return response

        return Route(path, answer, methods=[method])

    single = partial(routes.take, split=lambda content: [content])
    produce = [
        route(f"/{stations}/{{name}}/produce/{how}", handler)
        for stations in ("station", "stations")
        for how, handler in (("single", single), ("batch", partial(routes.take, split=_elements)))
    ]
    app = Starlette(
        routes=[
            route("/auth/authenticate", partial(routes.sign_in, ask=Tokens.authenticate)),
            route("/auth/refreshToken", partial(routes.sign_in, ask=Tokens.refresh)),
            route("/events", single),
            *produce,
            route("/healthz", routes.health, method="GET"),
            route("/metrics", routes.metrics, method="GET"),
        ],
        exception_handlers={HTTPException: _no_route, Exception: _broken},
        lifespan=_running(routes.receiver),
    )
    # a redirect would answer before the sender has shown a token
    app.router.redirect_slashes = False
    return app


def _elements(content: bytes) -> list[bytes]:
    """Return the events of an array; any other content is one event, which goes to quarantine whole."""
    found = elements(content)
    return [content] if found is None else found


def _running(receiver: Receiver) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(receiver.run())
        yield
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    return lifespan


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "no such address; post to /events, or to /station/NAME/produce/single or /batch"
    if error.status_code == 405:
        message = f"{request.method} is not for this address; post events, and get /healthz and /metrics"
    return JSONResponse({"error": message}, error.status_code, error.headers)


async def _broken(_: Request, error: Exception) -> Response:
    message = f"the receiver failed ({type(error).__name__}); send it again, and see the receiver's log"
    return JSONResponse({"error": message}, 500)


def _type_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_is_no_web_page(request: Request) -> None:
    """Refuse, where nobody signs in, any request that a web page in a browser of this machine could send.
    A browser does not post JSON to another origin unless allowed; the host check stops foreign names that point here.
    """
    if _type_of(request) != _TYPES[0]:
        raise RefusedError(415, f"without authentication only {_TYPES[0]} is taken; set the header content-type to it")
    if (request.url.hostname or "") not in LOOPBACK:
        raise RefusedError(403, f"without authentication only posts to {', '.join(LOOPBACK)} are taken")


def _check_type(request: Request) -> None:
    kind = _type_of(request)
    if kind not in _TYPES:
        hint = "set debezium.format.value=json" if kind in ("avro/bytes", "application/cloudevents+json") else "send JSON"
        raise RefusedError(415, f"content type {kind[:80]!r} is not taken; {hint}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "content encodings are not taken; send the body as it is")


def _declared(request: Request, longest: int) -> int:
    """Return the bytes to reserve; a body that is too large is never kept."""
    length = request.headers.get("content-length", "")
    return min(int(length), longest) if length.isdecimal() else longest


async def _body(request: Request, *, longest: int) -> bytes:
    chunks, size = bytearray(), 0

    async def read() -> None:
        nonlocal size
        async for chunk in request.stream():
            size += len(chunk)
            if size <= longest:
                chunks.extend(chunk)
            elif size > _DRAINED * longest:
                return

    try:
        await asyncio.wait_for(read(), _PATIENCE_SECONDS)
    except asyncio.TimeoutError:
        raise RefusedError(408, "the request took too long to come; send it again", headers={"Connection": "close"}) from None
    if size > longest:
        message = f"the request has more than the {longest:,} bytes that are taken; send less at once, or start with --max-bytes"
        raise RefusedError(413, message, headers={"Connection": "close"})
    return bytes(chunks)
