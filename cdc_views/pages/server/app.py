"""The application: addresses, what each answers, and errors as pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from cdc_views.errors import CdcViewsError
from cdc_views.model.extras import needs
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import replay_waiting
from cdc_views.operations.quarantining import discard
from cdc_views.pages.rendering import ASSETS, PAGES, Links, asset, rendered
from cdc_views.pages.server.engine_room import EngineRoom
from cdc_views.pages.server.guarding import COOKIE, Guard, Guarded
from cdc_views.pages.server.site import READS_ALL, READS_LOGS, Asked, Site, clock
from cdc_views.pages.wording import in_page_words

with needs("`ui`", extra="ui"):
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp

_FORM_BYTES = 64 << 10
_PAUSE = 0.5
"""Seconds before a wrong token is answered."""
Log = Callable[[str], None]
Handler = Callable[[Request], Awaitable[Response]]


class UiApp:
    """Answers requests; `log` gets a line of each failure that is not the reader's."""

    def __init__(self, site: Site, guard: Guard, log: Log) -> None:
        self._site, self._guard, self._log, self._room = site, guard, log, EngineRoom()

    def asgi(self) -> ASGIApp:
        """Return the application behind its guard."""
        routes = [
            Route("/", self._told(self._home)),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/assets/{name}", self._asset),
            Route("/t/{slug}", self._to_rows),
            Route("/t/{slug}/quarantine/{action}", self._told(self._act), methods=["POST"]),
            Route("/t/{slug}/{page}", self._told(self._page)),
        ]
        missing = {404: self._missing}
        return Guarded(Starlette(routes=routes, exception_handlers=missing), self._guard)

    def _told(self, handler: Handler) -> Handler:
        """Return a handler whose failures are pages."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except CdcViewsError as error:
                if error.exit_code == 3:
                    self._log(str(error))
                status = 400 if error.exit_code == 2 else 502
                return self._problem(request, "That cannot be shown", in_page_words(str(error)), status)
            except Exception as error:  # a page that nobody foresaw is one page less, not the end of the server
                self._log(f"{request.url.path}: unexpected {type(error).__name__}: {error}")
                told = f"unexpected {type(error).__name__}; this is a bug: the log of cdc-views ui has its text"
                return self._problem(request, "This page failed", told, 500)

        return answer

    async def _home(self, request: Request) -> Response:
        return HTMLResponse(await self._room.look(partial(self._site.home, _asked(request))))

    async def _page(self, request: Request) -> Response:
        page, asked = request.path_params["page"], _asked(request)
        try:
            table = await self._room.look(partial(self._site.table, request.path_params["slug"]))
        except KeyError:
            return await self._missing(request, None)
        if page == "nodes" and asked.text("part"):
            return HTMLResponse(await self._room.read(table.name, partial(self._site.nodes_part, table)))
        reads_all = page in READS_ALL and bool(asked.text(READS_ALL[page]))
        if reads_all and request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return self._problem(request, "Not from here", "What reads a whole table begins on the table's own pages alone.", 403)
        more = {"done": _DONE.get(asked.text("done"), "")} if page == "quarantine" else None
        make = partial(self._site.page, table, page, asked, more=more)
        try:
            text = await (self._room.look(make) if page in READS_LOGS and not reads_all else self._room.read(table.name, make))
        except KeyError as error:
            if error.args != (page,):
                raise
            return await self._missing(request, None)
        return HTMLResponse(text)

    async def _act(self, request: Request) -> Response:
        form = await _form(request)
        is_ours = self._guard.is_form_of_ours(request.headers, form.get("csrf", [""])[0])
        if not (self._site.form_token and is_ours):
            why = "Quarantine is changed by the forms of its page alone, where `--allow-actions` was given."
            return self._problem(request, "Not allowed", why, 403)
        try:
            table = await self._room.look(partial(self._site.table, request.path_params["slug"]))
        except KeyError:
            return await self._missing(request, None)
        action = {"discard": _discard, "replay": _replay}.get(request.path_params["action"])
        if action is None:
            return await self._missing(request, None)
        done = await self._room.read(table.name, partial(action, table, form))
        return RedirectResponse(self._site.links.page(table.config.slug, "quarantine", done=done), 303)

    async def _login(self, request: Request) -> Response:
        failed = False
        if request.method == "POST":
            given = (await _form(request)).get("token", [""])[0]
            if self._guard.is_from_here(request.headers) and self._guard.is_token(given):
                answer = RedirectResponse("/", 303)
                is_tls = self._guard.options.scheme == "https"
                answer.set_cookie(COOKIE, self._guard.session, httponly=True, samesite="strict", secure=is_tls, path="/")
                return answer
            await asyncio.sleep(_PAUSE)
            failed = True
        return HTMLResponse(rendered("login", links=Links(), failed=failed), 401 if failed else 200)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return await self._missing(request, None)
        return Response(asset(name), media_type=ASSETS[name])

    async def _to_rows(self, request: Request) -> Response:
        return RedirectResponse(self._site.links.page(request.path_params["slug"]), 307)

    async def _missing(self, request: Request, _: object) -> Response:
        return self._problem(request, "No such page", "The project has no such table, or no such page.", 404)

    def _problem(self, request: Request, title: str, message: str, status: int) -> Response:
        slug = request.path_params.get("slug", "")
        try:
            table = self._site.table(slug) if slug else None
            shared = self._site.shared(_asked(request))
        except (KeyError, CdcViewsError):
            table = None
            try:
                shared = self._site.shared(_asked(request))
            except CdcViewsError as error:
                return PlainTextResponse(str(error), 500)
        named: dict[str, Any] = {"slug": "", "name": ""}
        if table is not None:
            page = request.path_params.get("page", "")
            named = {"slug": table.config.slug, "name": table.name, "page": page if page in PAGES else "rows", "quarantined": 0}
        return HTMLResponse(rendered("problem", title=title, message=message, **named, **shared), status)


_DONE = {
    "discarded": "The chosen events are discarded; their bytes and the reason stay in quarantine.",
    "none": "No event was chosen.",
    "replayed": "All events that waited have landed.",
    "waiting": "Replayed; what still does not decode waits below, with its reason of now.",
}
"""What an action tells afterwards, by a word of the address."""


def _discard(table: TableContext, form: dict[str, list[str]]) -> str:
    events = form.get("event", [])
    if not events:
        return "none"
    discard(table, events=events, why=form.get("reason", [""])[0])
    return "discarded"


def _replay(table: TableContext, form: dict[str, list[str]]) -> str:
    return "waiting" if replay_waiting(table, now=datetime.now(timezone.utc)).waiting else "replayed"


async def _form(request: Request) -> dict[str, list[str]]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _FORM_BYTES:
            return {}
    return parse_qs(content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=2_000)


def _asked(request: Request) -> Asked:
    return Asked(dict(request.query_params), clock())
