"""What `make` promises before it does anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
TARGETS = re.findall(r"^([a-z-]+):.*##", MAKEFILE.read_text(), re.MULTILINE)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_n_runs_nothing(tmp_path: Path) -> None:
    """`make -n` still runs lines that name `$(MAKE)` or begin with +: whatever a recipe starts would leave its mark."""
    shutil.copy(MAKEFILE, tmp_path)
    for name in ("requirements/dev.txt", "requirements/bench.txt", "requirements/docs.txt", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "lint-imports", "cdc-views"):
        (commands / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (commands / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    assert {"test", "test-fast", "lint", "bench", "docs", "clean"} <= set(TARGETS)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(["make", "-n", *TARGETS], cwd=tmp_path, env=kept, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "pytest" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_no_recipe_calls_make() -> None:
    recipes = [line for line in MAKEFILE.read_text().splitlines() if line.startswith("\t")]
    assert not [line for line in recipes if "$(MAKE)" in line or "${MAKE}" in line or line.lstrip("\t@-").startswith("+")]


def test_locked_packages_are_installed_without_resolving() -> None:
    """Where pip resolves beside hashes, a new release of what a package needs with an extra fails the installation."""
    installs = [line for line in MAKEFILE.read_text().splitlines() if "-r requirements/" in line]
    assert len(installs) == 3
    assert [line for line in installs if "--no-deps --require-hashes" not in line] == []
