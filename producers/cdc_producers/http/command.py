"""`cdc-views produce http`: options, tables, and the server around the application."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

import uvicorn
from prometheus_client import disable_created_metrics

from cdc_producers.http.app import Door, make_app
from cdc_producers.http.connections import BoundedProtocol
from cdc_producers.http.dead_letters import DeadLetters
from cdc_producers.http.intake import Intake, Room
from cdc_producers.http.limits import Rate
from cdc_producers.http.metrics import Metrics
from cdc_producers.http.options import parsed, parser, stations
from cdc_producers.http.receiver import Receiver
from cdc_producers.http.routing import Router
from cdc_producers.http.tokens import Credentials, Tokens
from cdc_producers.http.writing import TableWriter
from cdc_producers.reports import Reports, reporting
from cdc_views.errors import ConfigError, EngineError, UsageError
from cdc_views.landing.targets import ProducerOrder

_log = logging.getLogger("cdc_producers.http")
_PROXIES = "FORWARDED_ALLOW_IPS"
"""uvicorn's: the addresses whose X-Forwarded-For is believed; unset: none."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_FAILURES_BURST, _FAILURES_PER_SECOND = 10, 0.2
_GRACE_SECONDS = 30
_KEEP_ALIVE_SECONDS = 300


def produce(order: ProducerOrder) -> None:
    """Receive until interrupted or terminated, or told to stop; see `cdc_views.landing.targets.Produce`.

    Options of the order: `arguments`, the command line's; `found`, the names of tables that somebody else lands;
    `warehouse`, the folder of what belongs to no table. With `--help` among the arguments only that is printed.

    Raises:
        UsageError: An option, the environment, or a raw table that cannot be landed into.
        EngineError: The address cannot be listened on.
    """
    if any(word in ("-h", "--help") for word in order.options["arguments"]):
        parser().print_help()
        return
    options = parsed(order.options["arguments"])
    _log_to_stderr(options.log_format)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with reporting("http", os.environ) as reports:
        receiver, door = make_receiver(options, order, reports)
        with listening(options.host, options.port) as listener:
            server = make_server(receiver, door, options=options)
            scheme = "https" if options.tls_cert else "http"
            address, port = listener.getsockname()[:2]
            _log.info("listening on %s://%s:%s", scheme, f"[{address}]" if ":" in address else address, port)
            if door.tokens and not options.tls_cert and not options.no_auth and not address.startswith(("127.", "::1")):
                _log.warning("passwords and events cross the network unencrypted; give --tls-cert and --tls-key")
            asyncio.run(server.serve(sockets=[listener]))
    _log.info("stopped")


def make_receiver(options: Any, order: ProducerOrder, reports: Reports) -> tuple[Receiver, Door]:
    """Return the receiver of a project's tables, and who it lets in; raises `UsageError` for what cannot be."""
    if not _NAME.match(options.name):
        raise UsageError(f"--name {options.name!r}: letters, digits, '.', '-' and '_' were expected, at most 64")
    tokens = None if options.no_auth else Tokens(Credentials.read(os.environ), time.time)
    metrics = Metrics()
    intakes: dict[str, Intake] = {}
    for name in order.options["found"]:
        _log.info("%s: somebody else lands it (`layout: as-found`); its events are not taken", name)
    for table in order.targets:
        writer = TableWriter(table, f"http:{options.name}", _now)
        writer.open()
        intakes[table.name] = Intake(writer, metrics, linger=options.linger_ms / 1000, hold=options.hold_seconds, reports=reports)
    if not intakes:
        raise UsageError("the project has no table that can be landed into; add one without `layout: as-found`")
    router = Router(tuple(intakes), stations(options.station, tuple(intakes)))
    letters = DeadLetters(order.options["warehouse"] / "http" / options.name / "dead_letters.jsonl")
    receiver = Receiver(intakes, router, letters, metrics, _now, keeps_unknown=options.unknown_table == "keep")
    rate = Rate(options.rate, options.rate, time.monotonic) if options.rate else None
    failures = Rate(_FAILURES_PER_SECOND, _FAILURES_BURST, time.monotonic)
    room = Room(options.waiting, options.waiting_bytes, metrics)
    return receiver, Door(tokens, rate, failures, room, options.max_bytes)


def _now() -> datetime:
    return datetime.now(timezone.utc)


class Server(uvicorn.Server):
    """A server that ends with 0 when it is interrupted or terminated, after the requests at hand are answered."""

    def __init__(self, config: uvicorn.Config, receiver: Receiver) -> None:
        """Keep the receiver, to tell it."""
        super().__init__(config)
        self._receiver = receiver

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take both signals; the second one does not wait for requests."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Take no more requests, answer those at hand, and end."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._receiver.stop()


def make_server(receiver: Receiver, door: Door, *, options: Any) -> Server:
    """Return the server; raises `ConfigError` where certificate and key are no pair.

    HTTP/1.1 only: Java's client offers an upgrade to h2c with every request, which is passed over.
    """
    _check_certificate(options.tls_cert, options.tls_key)
    # of its own log only failures: it warns at every offer of an upgrade
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        make_app(receiver, door),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # who may say of whom a request comes is for the operator to say: any process of this machine could
        proxy_headers=bool(os.environ.get(_PROXIES)),
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return Server(config, receiver)


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


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens; raises `EngineError` where the address is taken or not this machine's."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{host}:{port}: cannot listen there: {reason}; give another --host or --port") from error
    with listener:
        yield listener


def _log_to_stderr(format_name: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if format_name == "json" else _Lines())
    for name in ("cdc_producers", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.getLogger("cdc_producers").setLevel(logging.INFO)


class _Lines(logging.Formatter):
    """As the command line writes: the level where it is not information."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno == logging.INFO else f"{record.levelname.lower()}: {text}"


class _JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"level": record.levelname.lower(), "message": super().format(record)}, ensure_ascii=False)
