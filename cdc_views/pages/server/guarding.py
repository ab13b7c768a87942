"""Who may ask what: the address that was meant, the token, where a form came from; and headers that keep pages harmless."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from cdc_views.model.extras import needs
from cdc_views.pages.server.options import UiOptions, is_loopback

with needs("`ui`", extra="ui"):
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse, Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "cdc-views-session"
POLICY = "default-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without any, a browser sends forms with `Origin: null`
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_OPEN = ("/login", "/assets/app.css", "/assets/icon.svg")
"""What a reader without a token may have: the page that asks for it."""


@dataclass(frozen=True)
class Guard:
    """The secrets of one process and its options. Sessions end with the process."""

    options: UiOptions
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def session(self) -> str:
        """The cookie of a reader who gave the token."""
        return hmac.new(self.secret, b"session:" + self.options.token.encode(), hashlib.sha256).hexdigest()

    @property
    def form_token(self) -> str:
        """What a form must send back, which pages of other sites cannot read."""
        return hmac.new(self.secret, b"form", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether this is the token."""
        return bool(self.options.token) and hmac.compare_digest(given.encode(), self.options.token.encode())

    def is_known(self, headers: Headers) -> bool:
        """Whether a request has the token, as a bearer or by its session; without a token everybody is known."""
        if not self.options.token:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.casefold() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            session = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return session is not None and hmac.compare_digest(session.value.encode(), self.session.encode())

    def is_meant(self, headers: Headers) -> bool:
        """Whether the request names this server: a page whose name was turned to this address names another (DNS rebinding)."""
        try:
            name = urlsplit(f"//{headers.get('host', '')}").hostname
        except ValueError:
            return False
        if name is None:
            return False
        return is_loopback(name) or name == self.options.host.casefold() or not is_loopback(self.options.host)

    def is_from_here(self, headers: Headers) -> bool:
        """Whether a page of this server sent the request."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None:
            return origin == f"{self.options.scheme}://{headers.get('host', '')}"
        return site == "same-origin"

    def is_form_of_ours(self, headers: Headers, given: str) -> bool:
        """Whether a form was sent by a page of this server."""
        return self.is_from_here(headers) and hmac.compare_digest(given.encode(), self.form_token.encode())


@dataclass(frozen=True)
class Guarded:
    """The application behind a guard."""

    app: ASGIApp
    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(Request(scope))
        await (self.app if refusal is None else refusal)(scope, receive, told)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        if not self.guard.is_meant(headers):
            return PlainTextResponse(
                "This is not the server that was asked for; open the address that cdc-views ui printed.", 421
            )
        if request.method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET, HEAD and POST are answered.", 405)
        if request.url.path not in _OPEN and not self.guard.is_known(headers):
            if request.method == "GET" and "text/html" in headers.get("accept", ""):
                return RedirectResponse("/login", 303)
            return PlainTextResponse("A token is needed: Authorization: Bearer …", 401, {"www-authenticate": "Bearer"})
        # what another site embeds could make this machine work; a link to a page is fine
        is_embedded = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        return PlainTextResponse("Asked for by another site.", 403) if is_embedded else None
