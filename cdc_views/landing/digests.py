"""A digest of every file of a Delta table, so that one whose bytes changed by themselves is found.

Neither Delta's log nor the Parquet files of deltalake have checksums. So what writes a file reads it once more, while it
is still in memory, and notes its SHA-256 beside the table's files, in `_digests/sha256.jsonl`: one line a file, `path` as
it is on disk within the table, and `sha256`. Delta leaves folders alone whose names begin with `_`.

The digest is not part of the commit: a writer that is killed between the two leaves a file without one, as do writers of
earlier versions and other programs. `note_missing` notes these; until then nobody knows whether they changed.
On a local disk only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

from cdc_views.landing.checkpoints import local_folder
from cdc_views.model.whole_files import write_whole

FOLDER = "_digests"
_FILE = "sha256.jsonl"
_AT_ONCE = 2
_BLOCK = 1 << 20


def note_commit(table: DeltaTable) -> None:
    """Note the digests of the files that the commit at which a table is open added; call it after a commit.

    Where that fails, the commit has succeeded all the same: `note_missing` will do it.
    """
    root = local_folder(table.table_uri)
    if root is None:
        return
    with suppress(OSError):
        _note(root, _added(root, table.version()))


def note_missing(table: DeltaTable) -> int:
    """Note the digests of the files that have none, and drop those of files that are no more; returns how many were noted."""
    root = local_folder(table.table_uri)
    if root is None:
        return 0
    known, files = _known(root), _files(table, root)
    fresh = [path for path in files if path not in known]
    kept = {path: known[path] for path in files if path in known} | dict(_digests(root, fresh))
    if kept != known:
        _replace(root, kept)
    return len(fresh)


def changed(location: str) -> tuple[list[str], int]:
    """Return the files of a table's newest version whose bytes are not those that were written, and how many have no digest."""
    table = DeltaTable(location)
    root = local_folder(table.table_uri)
    if root is None:
        return [], 0
    known, files = _known(root), [path for path in _files(table, root) if (root / path).is_file()]
    found = dict(_digests(root, [path for path in files if path in known]))
    return [path for path, digest in found.items() if digest != known[path]], len(files) - len(found)


def _added(root: Path, version: int) -> Iterator[str]:
    for line in (root / "_delta_log" / f"{version:020}.json").read_text("utf-8").splitlines():
        action = json.loads(line) if '"add"' in line else {}
        if "add" in action:
            yield unquote(action["add"]["path"])


def _files(table: DeltaTable, root: Path) -> list[str]:
    return sorted(str(Path(unquote(uri).removeprefix("file://")).relative_to(root)) for uri in table.file_uris())


def _digests(root: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    wanted = list(paths)
    with ThreadPoolExecutor(_AT_ONCE, "digest") as pool:
        yield from zip(wanted, pool.map(lambda path: _digest(root / path), wanted), strict=True)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _known(root: Path) -> dict[str, str]:
    """The first that was noted of each file; a line that a killed writer left in parts counts as none."""
    known: dict[str, str] = {}
    with suppress(FileNotFoundError):
        for line in (root / FOLDER / _FILE).read_text("utf-8", errors="replace").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                noted = json.loads(line)
                known.setdefault(noted["path"], noted["sha256"])
    return known


def _note(root: Path, paths: Iterable[str]) -> None:
    lines = "".join(_line(path, _digest(root / path)) for path in paths)
    if not lines:
        return
    (root / FOLDER).mkdir(exist_ok=True)
    # in one write, so that the lines of two writers at once stay whole; the first newline ends what a killed one left
    descriptor = os.open(root / FOLDER / _FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, f"\n{lines}".encode())
    finally:
        os.close(descriptor)


def _replace(root: Path, digests: dict[str, str]) -> None:
    (root / FOLDER).mkdir(exist_ok=True)
    write_whole(root / FOLDER / _FILE, "".join(_line(path, digest) for path, digest in digests.items()))


def _line(path: str, digest: str) -> str:
    return json.dumps({"path": path, "sha256": digest}) + "\n"
