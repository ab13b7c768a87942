"""The options of `cdc-views produce http`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from cdc_views.errors import UsageError

HELP = """\
Receives events by HTTP, as Debezium Server and clients of Memphis' REST gateway post them, and answers once they have landed.
CDC_VIEWS_HTTP_USER, CDC_VIEWS_HTTP_PASSWORD and CDC_VIEWS_HTTP_SECRET (32 bytes or more) come from the environment."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that others cannot reach."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise this project's error, so that the command line ends as with any other slip."""
        raise UsageError(f"produce http: {message} (see `cdc-views produce http --help`)")


def parser() -> argparse.ArgumentParser:
    """Return what reads the options."""
    made = _Parser(prog="cdc-views produce http [--project FILE]", description=HELP, allow_abbrev=False)
    add = made.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=_whole(0), default=4444, help="port; 0: any that is free (default: %(default)s)")
    add("--name", default="receiver", help="of this receiver: its streams are http:NAME (default: %(default)s)")
    add("--station", action="append", default=[], metavar="NAME[=TABLE]",
        help="a station and its table; without TABLE its events say themselves; may be repeated")  # fmt: skip
    add("--unknown-table", choices=("refuse", "keep"), default="refuse",
        help="answer 422 to events of tables that the project lacks, or 202; both keep them (default: %(default)s)")  # fmt: skip
    add("--no-auth", action="store_true", help="take events of anybody; on a loopback address only")
    add("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    add("--tls-key", metavar="FILE", help="its key, PEM")
    add("--max-bytes", type=_whole(1), default=8 << 20, metavar="N", help="of a request (default: %(default)s)")
    add("--rate", type=_whole(1), metavar="N", help="requests a second and user; default: no limit")
    add("--waiting", type=_whole(1), default=1_000, metavar="N", help="requests that may wait at once (default: %(default)s)")
    add("--waiting-bytes", type=_whole(1), default=128 << 20, metavar="N", help="their bytes (default: %(default)s)")
    add("--linger-ms", type=_whole(0), default=5, metavar="N", help="wait so long for more to commit (default: %(default)s)")
    add("--hold-seconds", type=_seconds, default=20.0, metavar="S",
        help="try so long before 503 where events cannot land (default: %(default)s)")  # fmt: skip
    add("--log-format", choices=("text", "json"), default="text", help=argparse.SUPPRESS)
    return made


def parsed(arguments: Sequence[str]) -> Any:
    """Return the options; raises `UsageError` for what cannot be."""
    options = parser().parse_args(arguments)
    if options.no_auth and options.host not in LOOPBACK:
        raise UsageError(f"--no-auth with --host {options.host}: others could post; leave one of them out")
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together; give both")
    return options


def stations(given: Sequence[str], tables: Sequence[str]) -> dict[str, str | None]:
    """Return the table of each station; raises `UsageError` for a table that the project does not have."""
    found: dict[str, str | None] = {}
    for text in given:
        name, equals, table = text.partition("=")
        if not name or (equals and table not in tables):
            what = f"no table {table!r} that can be landed into" if name else "no name"
            raise UsageError(f"--station {text}: {what}; it has {', '.join(tables)}")
        found[name] = table if equals else None
    return found


def _whole(least: int) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError
        return value

    number.__name__ = f"whole number, at least {least},"
    return number


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 3600:
        raise ValueError
    return value


_seconds.__name__ = "number of seconds"
