"""The benchmarks start as their documents say: a path alone, from a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = [path for path in sorted(HERE.glob("[!t]*.py")) if "ArgumentParser(" in path.read_text("utf-8")]


@pytest.mark.heavy
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_starts_and_tells_its_options(script: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "--" in done.stdout) == (0, True), done.stderr


def test_there_are_scripts() -> None:
    assert {"landers.py", "scale.py", "stores.py", "landings.py"} <= {path.name for path in SCRIPTS}
