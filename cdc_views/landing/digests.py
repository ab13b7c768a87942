"""A digest of every file of a local Delta table, to find files whose bytes changed after they were written; a store has its own.

Neither Delta's log nor deltalake's Parquet files have checksums. So the writer reads each new file again, while it is still in
memory, and appends its SHA-256 to `_digests/sha256.jsonl` in the table's folder: one line per file, with `path` (within the
table) and `sha256`. Delta ignores folders whose names begin with `_`.

The digest is not part of the commit: a writer that is killed in between leaves a file without a digest, as do earlier versions
and other programs. `note_missing` adds missing digests; it cannot detect earlier changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

from cdc_views.errors import DamagedFileError
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.model.whole_files import write_whole
from cdc_views.storage.delta_log import LOG
from cdc_views.storage.delta_paths import paths_by_name
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import local_folder

FOLDER = "_digests"
_FILE = "sha256.jsonl"
_LINE = re.compile(rb'\{"path": (?P<path>"(?:[^"\\]|\\.)*"), "sha256": "(?P<digest>[0-9a-f]{64})"\}')
_BLOCK = 1 << 20
RESTORE = (
    f"put it back from a backup and run the command again; where there is none, delete the file's line in {FOLDER}/{_FILE}, "
    "which accepts its bytes"
)


def note_commit(location: str, version: int, *, tasks: Tasks = HERE) -> None:
    """Note the digests of the files that a version added; call it after a commit. A failure is left to `note_missing`."""
    root = local_folder(location)
    if root is None:
        return
    with suppress(OSError):
        _note(root, _digests(root, list(_added(root, version)), tasks))


def note_missing(table: DeltaTable, *, tasks: Tasks = HERE) -> int:
    """Note missing digests, drop digests of removed files, and return how many were missing."""
    root = local_folder(table.table_uri)
    if root is None:
        return 0
    known, files = _known(root), _files(table, root)
    fresh = [path for path in files if path not in known]
    kept = {path: known[path] for path in files if path in known} | _digests(root, fresh, tasks)
    if kept != known:
        (root / FOLDER).mkdir(exist_ok=True)
        write_whole(root / FOLDER / _FILE, "".join(_line(path, digest) for path, digest in kept.items()))
    return len(fresh)


def changed(location: str, *, tasks: Tasks = HERE) -> tuple[list[str], int]:
    """Return the files of the newest version whose bytes changed, and how many files have no digest."""
    table = opened(location)
    root = local_folder(table.table_uri)
    return ([], 0) if root is None else _changed(root, _files(table, root), tasks)


def changed_among(location: str, paths: Iterable[str], *, tasks: Tasks = HERE) -> list[str]:
    """Return those of the files at `paths` (within the table) whose bytes changed."""
    root = local_folder(location)
    return [] if root is None else _changed(root, sorted(paths), tasks)[0]


def check_as_written(location: str, paths: Iterable[str], *, what: str, remedy: str = RESTORE, tasks: Tasks = HERE) -> None:
    """Call before a commit replaces these files by what was written from them: new files get new digests, which would hide the
    damage of the old ones for good. Raises `DamagedFileError` if the bytes of one changed; `what` is as there.
    """
    for path in changed_among(location, paths, tasks=tasks):
        raise DamagedFileError(location, what=what, file=path, why="its bytes have changed since it was written", remedy=remedy)


def _changed(root: Path, paths: Sequence[str], tasks: Tasks) -> tuple[list[str], int]:
    known, files = _known(root), [path for path in paths if (root / path).is_file()]
    found = _digests(root, [path for path in files if path in known], tasks)
    return [path for path, digest in found.items() if digest != known[path]], len(files) - len(found)


def _added(root: Path, version: int) -> Iterator[str]:
    for line in (root / LOG / f"{version:020}.json").read_text("utf-8").splitlines():
        action = json.loads(line) if '"add"' in line else {}
        if "add" in action and not action["add"].get("deletionVector"):  # a vector changes no byte of its file
            yield unquote(action["add"]["path"])


def _files(table: DeltaTable, root: Path) -> list[str]:
    return sorted(str(Path(path).relative_to(root)) for path in paths_by_name(table).values())


def _digests(root: Path, paths: Sequence[str], tasks: Tasks) -> dict[str, str]:
    files = [(root / path).absolute() for path in paths]
    sizes = [file.stat().st_size for file in files]
    return dict(zip(paths, tasks.each(_digest, files, sizes=sizes, sees=[str(root)]), strict=True))


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def without_noted(content: bytes) -> bytes:
    """Return the lines of a digest file that note no digest; a path and a digest are the writer's, and no values."""
    return b"\n".join(line for line in content.splitlines() if _noted(line) is None)


def _known(root: Path) -> dict[str, str]:
    """Return the first digest noted for each file; skip a broken line that a killed writer left."""
    known: dict[str, str] = {}
    with suppress(FileNotFoundError):
        for line in (root / FOLDER / _FILE).read_bytes().splitlines():
            noted = _noted(line)
            if noted is not None:
                known.setdefault(*noted)
    return known


def _noted(line: bytes) -> tuple[str, str] | None:
    """Return the path and the digest that a line notes; None if it is broken or another's."""
    match = _LINE.fullmatch(line)
    with suppress(ValueError):  # noise in the path
        if match is not None:
            return json.loads(match["path"]), match["digest"].decode()
    return None


def _note(root: Path, digests: Mapping[str, str]) -> None:
    lines = "".join(_line(path, digest) for path, digest in digests.items())
    if not lines:
        return
    (root / FOLDER).mkdir(exist_ok=True)
    # one write keeps the lines of concurrent writers whole; the first newline ends a broken line
    descriptor = os.open(root / FOLDER / _FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, f"\n{lines}".encode())
    finally:
        os.close(descriptor)


def _line(path: str, digest: str) -> str:
    return json.dumps({"path": path, "sha256": digest}) + "\n"
