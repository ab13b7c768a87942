"""The server around the application: tables, address, certificate and shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from cdc_producers.http.app import Routes, make_app
from cdc_producers.http.connections import BoundedProtocol
from cdc_producers.http.dead_letters import DeadLetters
from cdc_producers.http.limits import Rate, RequestRoom
from cdc_producers.http.metrics import HttpMetrics
from cdc_producers.http.options import HttpOptions, UnknownTable
from cdc_producers.http.receiver import Receiver
from cdc_producers.http.routing import Router
from cdc_producers.http.table_queue import TableQueue, TableWriter
from cdc_producers.http.tokens import Credentials, Tokens
from cdc_producers.reports import Reports, reporting
from cdc_views.errors import ConfigError, EngineError, UsageError
from cdc_views.landing.targets import ProducerLog, ProducerOrder

_PROXIES = "FORWARDED_ALLOW_IPS"
"""A variable of uvicorn: the addresses whose X-Forwarded-For is trusted; unset: none."""
_FAILURES_BURST, _FAILURES_PER_SECOND = 10, 0.2
_GRACE_SECONDS = 30
_KEEP_ALIVE_SECONDS = 300


def receive(order: ProducerOrder, options: HttpOptions, *, listens: Callable[[int], None] = lambda port: None) -> None:
    """Receive events until stopped; calls `listens` with the port once it accepts requests.
    Raises `UsageError` if an option, the environment or a raw table does not fit, `EngineError` if it cannot listen.
    """
    with reporting("http", os.environ) as reports:
        routes = _routes(options, order, reports)
        with _listener(options.host, options.port) as listener:
            server = _server(routes, options, order)
            address, port = listener.getsockname()[:2]
            shown = f"[{address}]" if ":" in address else address
            order.log.info(f"listening on {'https' if options.tls_cert else 'http'}://{shown}:{port}", port=port)
            if routes.tokens and not options.tls_cert and not address.startswith(("127.", "::1")):
                order.log.warning("passwords and events cross the network unencrypted; give --tls-cert and --tls-key")
            listens(port)
            asyncio.run(server.serve(sockets=[listener]))


def _routes(options: HttpOptions, order: ProducerOrder, reports: Reports) -> Routes:
    tokens = None if options.no_auth else Tokens(Credentials.read(os.environ))
    metrics = HttpMetrics()
    queues: dict[str, TableQueue] = {}
    for table in order.targets:
        writer = TableWriter(table, f"http:{options.name}")
        writer.open()
        queues[table.name] = TableQueue(writer, metrics, order.log, reports, options)
    metrics.expect(queues)
    router = Router(tuple(queues), options.stations(tuple(queues)))
    if order.project.warehouse is None:
        raise UsageError("the warehouse is not a local folder, where dead letters could be kept; name a local one")
    # an event without a table may be one of a table whose columns have policies
    withholds = any(table.format.has_policies for table in order.targets)
    letters = DeadLetters(order.project.warehouse / "http" / options.name / "dead_letters.jsonl", withholds)
    keeps_unknown = options.unknown_table is UnknownTable.KEEP
    receiver = Receiver(queues, router, letters, metrics, order.log, keeps_unknown=keeps_unknown)
    rate = Rate(options.rate, options.rate, time.monotonic) if options.rate else None
    failures = Rate(_FAILURES_PER_SECOND, _FAILURES_BURST, time.monotonic)
    room = RequestRoom(options.waiting, options.waiting_bytes, metrics)
    return Routes(receiver, tokens, rate, failures, room, options.max_bytes)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, receiver: Receiver, order: ProducerOrder) -> None:
        super().__init__(config)
        self._receiver, self._order = receiver, order

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # no signal handlers: the command line has its own

    async def on_tick(self, counter: int) -> bool:
        """Check for a stop; called ten times a second."""
        if self._order.stop.is_set() and not self.should_exit:
            self.should_exit = True
            self._receiver.stop()
        return await super().on_tick(counter)


def _server(routes: Routes, options: HttpOptions, order: ProducerOrder) -> _Server:
    """Return an HTTP/1.1 server: Java's client offers an upgrade to h2c with every request, which is ignored."""
    _check_certificate(options.tls_cert, options.tls_key)
    _log_failures_of_uvicorn(order.log)
    config = uvicorn.Config(
        make_app(routes),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # only the operator may name trusted proxies: else any process of this machine could forge a sender's address
        proxy_headers=bool(os.environ.get(_PROXIES)),
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return _Server(config, routes.receiver, order)


def _log_failures_of_uvicorn(log: ProducerLog) -> None:
    """Log only uvicorn's own failures: it also warns at every offered upgrade."""

    class Forwarding(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log.warning(self.format(record))

    logger = logging.getLogger("uvicorn.error")
    logger.setLevel(logging.ERROR)
    logger.handlers, logger.propagate = [Forwarding()], False


def _check_certificate(certificate: str | None, key: str | None) -> None:
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        expected = "a PEM chain and its key, without a password, were expected"
        raise ConfigError(f"--tls-cert {certificate}, --tls-key {key}: {reason}; {expected}") from error


def _no_password() -> str:
    raise ValueError("the key has a password")


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{host}:{port}: cannot listen there: {reason}; give another --host or --port") from error
