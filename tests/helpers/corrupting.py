"""Delta tables changed behind their log's back, so that only what the rows say can tell."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

Rows = list[dict[str, Any]]


def silently(location: str | Path, change: Callable[[Rows], Rows | None], *, most: int = 1) -> int:
    """Rewrite the rows of up to `most` active files by `change` (None: leave the file), log and sizes included.

    Returns how many files were changed.
    """
    changed = 0
    for uri in sorted(DeltaTable(str(location)).file_uris()):
        path = Path(uri)
        stored = pq.ParquetFile(path).read()
        rows = change(stored.to_pylist())
        if rows is None:
            continue
        pq.write_table(pa.Table.from_pylist(rows, schema=stored.schema), path)
        _patch_log(Path(location), path, rows=len(rows))
        shutil.rmtree(Path(location, "_digests"), ignore_errors=True)
        changed += 1
        if changed == most:
            break
    return changed


def damaged(location: str | Path) -> list[str]:
    """Change the writer's name in the footer of each active file, which every reader reads as before; return the files' names."""
    files = [Path(uri) for uri in sorted(DeltaTable(str(location)).file_uris())]
    for file in files:
        content = file.read_bytes()
        file.write_bytes(re.sub(rb"parquet-|DuckDB ", lambda found: found[0].swapcase(), content))
        assert file.read_bytes() != content
    return [file.name for file in files]


def retyped(location: str | Path, column: str, kind: str) -> None:
    """Say in the log's schema that a column has another type."""
    for log in _logs(location):
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        for action in lines:
            if "metaData" in action:
                schema = json.loads(action["metaData"]["schemaString"])
                for field in schema["fields"]:
                    if field["name"] == column:
                        field["type"] = kind
                action["metaData"]["schemaString"] = json.dumps(schema)
        _write(log, lines)


def _patch_log(root: Path, path: Path, *, rows: int) -> None:
    for checkpoint in (root / "_delta_log").glob("*checkpoint*"):
        checkpoint.unlink()  # it would tell of the file as it was
    for log in _logs(root):
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        for action in lines:
            added = action.get("add")
            if added and (root / added["path"]).name == path.name:
                added["size"] = path.stat().st_size
                if added.get("stats"):
                    added["stats"] = json.dumps({"numRecords": rows})
        _write(log, lines)


def _logs(location: str | Path) -> list[Path]:
    return sorted(Path(location, "_delta_log").glob("*.json"))


def _write(log: Path, lines: list[dict[str, Any]]) -> None:
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
