"""Builds images without an engine: `buildah`, on a base that `debootstrap` makes of Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from helpers.pinned import ROOT

CAN_BUILD = os.geteuid() == 0 and shutil.which("buildah") is not None and shutil.which("debootstrap") is not None
"""`debootstrap` wants root; on Debian `apt-get install buildah debootstrap` brings both."""
_CERTIFICATES = Path("/etc/ssl/certs")


@dataclass(frozen=True)
class Builder:
    """A store of images of the tests' own."""

    folder: Path

    def __call__(self, command: str, *words: str, timeout: float = 900) -> str:
        """Run buildah; return what it prints."""
        where = ["--root", str(self.folder / "images"), "--runroot", str(self.folder / "run")]
        done = subprocess.run(
            ["buildah", *where, command, *words], cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0, f"buildah {command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout.strip()

    def build(self, file: Path, name: str, *words: str, context: Path = ROOT) -> None:
        """Build a container file, with the network and the package index of this machine."""
        pip = self.folder / "pip.conf"
        known = {name[4:].lower().replace("_", "-"): value for name, value in os.environ.items() if name.startswith("PIP_")}
        pip.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in known.items()))
        mounts = ["--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro", "--volume", f"{pip}:/etc/pip.conf:ro"]
        how = ["--isolation", "chroot", "--network", "host", "--format", "docker", *mounts]
        self("build", *how, *words, "-f", str(file), "-t", f"localhost/{name}", str(context))

    def from_scratch(self, name: str, content: Path, *, to: str = "/") -> None:
        """Make an image of one folder."""
        container = self("from", "scratch")
        self("add", "--quiet", container, str(content), to)
        self("commit", "--quiet", container, f"localhost/{name}")
        self("rm", container)

    @contextmanager
    def container(self, image: str) -> Iterator[str]:
        """A container of an image, gone at the end."""
        made = self("from", f"localhost/{image}")
        try:
            yield made
        finally:
            self("rm", made)

    def run(self, container: str, *words: str, mounted: Path | None = None) -> str:
        """Run a command as the image's user; in the folder `mounted`, not at the image's own volume, which hides it."""
        mounts = [] if mounted is None else ["--volume", f"{mounted}:/mounted", "--workingdir", "/mounted"]
        return self("run", "--isolation", "chroot", *mounts, container, "--", *words)

    def close(self) -> None:
        """Remove all images."""
        self("rmi", "--all", "--force")


def debian_with_python(cache: Path) -> Path:
    """Return the root folder of a Debian with Python, made once."""
    folder = cache / "debian-with-python"
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        packages = "--include=python3,python3-venv,ca-certificates"
        try:
            subprocess.run(
                ["debootstrap", "--variant=minbase", packages, "stable", str(partial)],
                check=True,
                capture_output=True,
                timeout=900,
            )
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder
