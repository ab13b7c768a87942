"""`make services`: real servers on free loopback ports, until Ctrl-C or `make services-stop`.

A service is a module of this package with `running()`, a context manager; its server says how to connect by
`environment`, or by `address`, `addresses` and `port`.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import services

NAMES = ("postgres", "mariadb", "kafka", "registry", "cassandra")
_STOPS_WITHIN = 90.0
_LOOK_EVERY = 0.1


def known() -> dict[str, ModuleType]:
    """The services there are, by name, those named above first; one whose client is not installed is told and left out."""
    names = {module.name for module in pkgutil.iter_modules(services.__path__)} & set(NAMES)
    found = {}
    for name in sorted(names, key=NAMES.index):
        try:
            module = import_module(f"services.{name}")
        except ImportError as error:
            _say(f"# {name}: left out, {error}")
            continue
        if hasattr(module, "running"):
            found[name] = module
    return found


def connecting(name: str, server: Any) -> Iterator[str]:
    """Lines of a shell that say how to connect."""
    yield f"# {name}"
    environment = getattr(server, "environment", None)
    if environment is None:
        address = getattr(server, "address", None) or f"{','.join(server.addresses)} port {server.port}"
        environment = {f"CDC_VIEWS_{name.upper()}": address}
    yield from (f"export {variable}='{value}'" for variable, value in environment.items())


def run(names: Sequence[str], pid_file: Path, stop: Event) -> int:
    """Start services one after the other, say how to connect, and stop them all once `stop` is set."""
    there = known()
    if unknown := sorted(set(names) - set(there)):
        _say(f"there is no service {', '.join(unknown)}; there is {', '.join(there)}")
        return 2
    with ExitStack() as stack:
        started = 0
        for name in names or there:
            if stop.is_set():
                break
            begun = time.monotonic()
            try:
                server = stack.enter_context(there[name].running())
            except Exception as error:
                _say(f"# {name}: did not start: {error}")
                continue
            started += 1
            _say(*connecting(name, server), f"# up in {time.monotonic() - begun:.0f} s", "")
        if not started:
            return 3
        _say(f"# {started} up; Ctrl-C, or `make services-stop`, stops them (process {os.getpid()}, {pid_file})")
        stop.wait()
        _say("# stopping")
    return 0


def start(names: Sequence[str], pid_file: Path) -> int:
    """Run until SIGINT or SIGTERM; the pid file is there as long."""
    if (other := _running(pid_file)) is not None:
        _say(f"services are up already (process {other}, {pid_file}); `make services-stop` stops them")
        return 2
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    pid_file.write_text(f"{os.getpid()}\n")
    try:
        return run(names, pid_file, stop)
    finally:
        pid_file.unlink(missing_ok=True)


def end(pid_file: Path) -> int:
    """Stop what `start` runs, by its pid, and wait until it has gone."""
    number = _running(pid_file)
    if number is None:
        _say("no services are up")
        return 0
    os.kill(number, signal.SIGTERM)
    deadline = time.monotonic() + _STOPS_WITHIN
    while _running(pid_file) == number:
        if time.monotonic() > deadline:
            _say(f"process {number} did not end within {_STOPS_WITHIN:g} s")
            return 1
        time.sleep(_LOOK_EVERY)
    return 0


def _running(pid_file: Path) -> int | None:
    """The process that the file names, where it is one of ours still."""
    try:
        number = int(pid_file.read_text())
        arguments = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return number if b"services" in arguments else None


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)


def main() -> int:
    """`python -m services [NAME…] [--stop] [--pid-file FILE]`."""
    parser = argparse.ArgumentParser(prog="make services", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--pid-file", type=Path, default=Path(tempfile.gettempdir()) / f"cdc-views-services.{os.getuid()}.pid")
    given = parser.parse_args()
    return end(given.pid_file) if given.stop else start(given.names, given.pid_file)


if __name__ == "__main__":
    sys.exit(main())
