"""`verify` against a running source while a workload writes: the same proof for each kind of server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from helpers.command_line import CommandLine

SECONDS = float(os.environ.get("CDC_VIEWS_VERIFY_SECONDS", "40"))
"""How long a workload writes while `verify` runs again and again."""
_IS_LONG = SECONDS > 600
_REST = 20 if _IS_LONG else 0
"""Seconds between two rounds: an hour on each of five servers at once has to fit two cores."""
_MAINTAINED_EVERY = 300
"""Seconds: as a schedule would, so that reads of an hour's landings do not open thousands of files."""


def paced(pause: float) -> float:
    """Seconds between two transactions: as given in a short run, five a second in a long one."""
    return max(pause, 0.2) if _IS_LONG else pause


@dataclass(frozen=True)
class Verifying:
    """Runs `verify` on the server at `source`; each run waits up to `wait` seconds for landings."""

    run: CommandLine
    source: str
    wait: int = 20

    def __call__(self, table: str, *more: str) -> tuple[int, list[dict[str, Any]], str]:
        """Return the exit code, the lines, and what the log says."""
        how = ("--source", self.source, "--format", "jsonl", "--wait", str(self.wait), "--rate", "0")
        answer = self.run("verify", table, *how, *more)
        assert answer.code in (0, 1), answer.err
        return answer.code, [json.loads(line) for line in answer.out.splitlines()], answer.err

    def stays_quiet(self, tables: Sequence[str], writing: AbstractContextManager[Any], landed: Callable[[], None]) -> int:
        """Assert that no run finds a loss while `writing` goes on, nor any difference once all has `landed`; return the runs."""
        runs, until = 0, time.monotonic() + SECONDS
        maintained = time.monotonic()
        with writing:
            while time.monotonic() < until:
                if time.monotonic() - maintained > _MAINTAINED_EVERY:
                    answer, maintained = self.run("maintain"), time.monotonic()
                    assert answer.code == 0, answer.err
                for table in tables:
                    code, found, said = self(table)
                    assert (code, [one for one in found if one["verdict"] == "loss"]) == (0, []), (found, said)
                    runs += 1
                time.sleep(_REST)
        landed()
        for table in tables:
            code, found, said = self(table)
            assert (code, found, "equal" in said) == (0, [], True), (found, said)
        assert runs > 1
        return runs
