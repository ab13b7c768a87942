"""`query --out` and `--into` in a process of its own that stops at a moment of the write, and is killed there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WITHIN = 240.0
_REACHED = "reached"
_SCRIPT = """\
import sys, time
from pathlib import Path
from cdc_views.cli import main

def stop(*_, **__):
    Path("{reached}").touch()
    time.sleep(600)

{moment}
main(sys.argv[1:])
"""
MOMENTS = {
    "some rows are written": """\
from cdc_views.engines.duckdb import connections, engine
from cdc_views.storage import row_groups
connections.BATCH_ROWS = row_groups._GROUP_ROWS = 1
streamed = engine.streamed
def some(*given):
    for number, batch in enumerate(streamed(*given)):
        yield batch
        if number == 2:
            stop()
engine.streamed = some
""",
    "all rows are written": """\
import os
from cdc_views.operations import row_tables
os.link = os.replace = row_tables.RowTable._commit = stop
""",
    "all rows of Spark are written": """\
from cdc_views_spark import engine
write = engine.write_files
engine.write_files = lambda *given, **more: (write(*given, **more), stop())[0]
""",
}


def kill_at(moment: str, *arguments: str) -> None:
    """Run a command line in the working directory until the moment, and kill it and its children there."""
    reached = Path(_REACHED)
    command = [sys.executable, "-c", _SCRIPT.format(reached=_REACHED, moment=MOMENTS[moment]), *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    give_up = time.monotonic() + WITHIN
    try:
        while not reached.exists():
            if process.poll() is not None or time.monotonic() > give_up:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                raise AssertionError(f"it never came to {moment!r}: {_told(process)}")
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        assert process.returncode == -signal.SIGKILL
    finally:
        reached.unlink(missing_ok=True)
        if process.stderr is not None:
            process.stderr.close()


def _told(process: subprocess.Popen[bytes]) -> str:
    return "" if process.stderr is None else process.stderr.read().decode()
