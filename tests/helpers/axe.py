"""axe-core, which finds what keeps people from a page: fetched once from npm into the cache, and checked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from helpers.chromium_driving import Page
from helpers.chromium_fetching import npm

PACKAGE = "axe-core@4.10.3"
SHA512 = (
    "5e6edba515e70d25f6604d9815f064d859c5d1ea7ab661bbc4f87c88779ef0c2"
    "1cae0abbeb636471ef39e9d62d2582e4b88a1866f19f4ecfcf6d986275e4dc12"
)
"""Of the package's tarball."""


def axe_source(cache: Path) -> str:
    """Return the script, from the cache or else from npm; raises `AssertionError` if it cannot be fetched, or is another one."""
    file = cache / f"{PACKAGE.replace('@', '-')}.js"
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=cache) as name:
            folder = Path(name)
            command = [*npm(folder), "pack", "--ignore-scripts", "--silent", "--pack-destination", name, PACKAGE]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            (packed,) = list(folder.glob("*.tgz")) or [None]
            assert packed is not None, f"{PACKAGE} could not be fetched: {done.stderr}"
            assert hashlib.sha512(packed.read_bytes()).hexdigest() == SHA512, f"{PACKAGE} is not the file that was chosen"
            with tarfile.open(packed) as package:
                script = package.extractfile("package/axe.min.js")
                assert script is not None
                partial = folder / "axe.js"
                partial.write_bytes(script.read())
            shutil.move(partial, file.with_name(f"{file.name}.{os.getpid()}"))
            os.replace(file.with_name(f"{file.name}.{os.getpid()}"), file)
    return file.read_text("utf-8")


def violations(page: Page, source: str) -> list[str]:
    """Return what axe finds on the open page, a line a rule and place."""
    page.evaluate(f"{source}; 0")
    found: list[dict[str, Any]] = json.loads(page.evaluate("axe.run().then(r => JSON.stringify(r.violations))"))
    return [f"{one['id']}: {node['html'][:200]}: {node['failureSummary'][:200]}" for one in found for node in one["nodes"]]
