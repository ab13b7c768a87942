"""How tests come by a Chromium: fetched once and checked, else one that is there, else a failure that says what to do."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import brotli
import pytest
from helpers import chromium_fetching as fetching
from helpers.chromium_fetching import NoChromiumError, chromium


def package() -> bytes:
    """A tarball like the package's: a program, and fonts in a tarball of their own."""
    fonts = tarball({"fonts/font.ttf": b"font"}, mode="w")
    files = {"package/bin/chromium.br": b"#!", "package/bin/fonts.tar.br": fonts}
    return tarball({name: brotli.compress(content) for name, content in files.items()}, mode="w:gz")


def tarball(files: dict[str, bytes], *, mode: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder first on the PATH, with an npm that packs a small package, and counts how often it is asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "package.tgz").write_bytes(package())
    # pack --ignore-scripts --silent --pack-destination DIR NAME
    put(folder / "npm", f'echo asked >> {tmp_path}/asked; cp {tmp_path}/package.tgz "$5/package.tgz"')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CDC_VIEWS_CHROMIUM", raising=False)
    monkeypatch.setattr(fetching, "PAUSE", 0)
    monkeypatch.setattr(fetching, "SHA512", hashlib.sha512((tmp_path / "package.tgz").read_bytes()).hexdigest())
    monkeypatch.setattr(fetching.platform, "machine", lambda: "x86_64")
    real = fetching.shutil.which
    monkeypatch.setattr(fetching.shutil, "which", lambda name: real(name, path=str(folder)))
    return folder


def put(file: Path, script: str) -> None:
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)


def test_it_is_fetched_once_and_ready_to_run(bin: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    found = chromium(cache)
    assert found.program.read_bytes() == b"#!"
    assert found.program.stat().st_mode & 0o111
    assert (found.program.parent / "fonts/fonts/font.ttf").read_bytes() == b"font"
    assert str(found.program.parent / "fonts") in Path(found.environment["FONTCONFIG_FILE"]).read_text()
    assert chromium(cache) == found
    assert (tmp_path / "asked").read_text().count("asked") == 1
    assert [path.name for path in cache.iterdir()] == [found.program.parent.name]


def test_a_fetch_that_was_killed_is_done_again(bin: Path, tmp_path: Path) -> None:
    half = tmp_path / "cache" / f"chromium-{fetching.PACKAGE[1]}"
    half.mkdir(parents=True)
    (half / "chromium").write_bytes(b"half")
    assert chromium(tmp_path / "cache").program.read_bytes() == b"#!"


def test_another_file_than_the_chosen_one_is_refused(bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SHA512", "0" * 128)
    with pytest.raises(NoChromiumError, match=r"not the file it was when it was chosen.*CDC_VIEWS_CHROMIUM"):
        chromium(tmp_path / "cache")
    assert (tmp_path / "asked").read_text().count("asked") == fetching.ATTEMPTS
    assert list((tmp_path / "cache").iterdir()) == []


def test_one_on_the_path_serves_where_none_can_be_fetched(bin: Path, tmp_path: Path) -> None:
    put(bin / "npm", "echo no network >&2; exit 1")
    with pytest.raises(NoChromiumError, match="no network"):
        chromium(tmp_path / "cache")
    put(bin / "chromium", "exit 0")
    assert chromium(tmp_path / "cache").program == bin / "chromium"


def test_one_that_is_named_is_taken(bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_VIEWS_CHROMIUM", "/some/where/chromium")
    assert str(chromium(tmp_path / "cache").program) == "/some/where/chromium"
    assert not (tmp_path / "asked").exists()


def test_another_machine_needs_its_own(bin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.platform, "machine", lambda: "riscv64")
    with pytest.raises(NoChromiumError, match="riscv64"):
        chromium(tmp_path / "cache")
