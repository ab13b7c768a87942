"""Listens, and serves the pages until a signal."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cdc_views.errors import EngineError
from cdc_views.model.extras import needs
from cdc_views.pages.server.app import UiApp
from cdc_views.pages.server.guarding import Guard
from cdc_views.pages.server.options import UiOptions
from cdc_views.pages.server.site import Site

with needs("`ui`", extra="ui"):
    import uvicorn

_MOST_CONNECTIONS = 100
_GRACE = 3


def serve(
    load: Callable[[], Any], file: Path, options: UiOptions, *, log: Callable[[str], None], listens: Callable[[str], None]
) -> None:
    """Serve the pages of the project that `load` returns from `file`; `listens` gets the address. Ends at SIGINT or SIGTERM.

    Raises `ConfigError` for an invalid project, `EngineError` if nothing can listen there, or the certificate does not fit.
    """
    guard = Guard(options)
    site = Site(load, file, guard.form_token if options.allows_actions else "")
    _ = site.project
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with _listener(options) as listener:
        port = listener.getsockname()[1]
        guard = Guard(replace(options, port=port), guard.secret)
        server = uvicorn.Server(_config(UiApp(site, guard, log), options))
        shown = f"[{options.host}]" if ":" in options.host else options.host
        listens(f"{options.scheme}://{shown}:{port}/")
        server.run(sockets=[listener])


def _config(app: UiApp, options: UiOptions) -> uvicorn.Config:
    config = uvicorn.Config(
        app.asgi(),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    try:
        config.load()
    except OSError as error:  # ssl's errors are some
        raise EngineError(f"the certificate {options.certificate} and its key cannot be used: {error}") from error
    return config


def _listener(options: UiOptions) -> socket.socket:
    kind = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    found = socket.socket(kind, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((options.host, options.port))
        found.listen(128)  # whoever is told the address may ask at once
    except OSError as error:
        found.close()
        what = f"{options.host}:{options.port}: cannot listen ({error.strerror or error})"
        raise EngineError(f"{what}; choose another --port, or 0 for any free one") from error
    return found
