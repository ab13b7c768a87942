"""Fetches the servers' files while other tests run, so that the first test of a server on a new machine does not wait."""

from __future__ import annotations

import sys
from collections.abc import Callable

from services import azure, cassandra, kafka, mariadb, postgres

FETCHED: tuple[Callable[[], object], ...] = (azure.programs, postgres.programs, mariadb.programs, kafka.classpath, cassandra.jars)


def main() -> int:
    """Fetch what is not there; what cannot be fetched is told by the test that needs it."""
    for fetch in FETCHED:
        try:
            fetch()
        except Exception as error:
            print(f"not fetched beforehand: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
